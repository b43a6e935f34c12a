"""Commands with the version of a wheel, or with its address and hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from cuwheel.check.pick.pick import PickOptions, find
from tests.support.check.offers import MACHINE, TAG, Index


def line(index: Index, more: str = "", indexes: tuple[str, ...] = ()) -> str:
    """Return pip's command if installers use this index, and maybe another one."""
    options = PickOptions(
        wanted=Requirement("toy"), paper=MACHINE, indexes=indexes, start=Path.cwd()
    )
    environ = {
        "PIP_INDEX_URL": index.site.url("/simple/"),
        "PIP_EXTRA_INDEX_URL": more,
        "PIP_CONFIG_FILE": "/dev/null",
    }
    return find(options, environ).commands["pip"]


def test_names_version_if_it_is_enough(index: Index) -> None:
    index.add("1.0")
    index.add("1.0", TAG.replace("312", "311"))
    index.add("0.9")
    index.add("1.0", TAG.replace("2_28", "2_17"))

    assert line(index, more=index.site.url("/other/")).endswith("pip install toy==1.0")


@pytest.mark.parametrize(
    "preferred",
    [
        {"version": "1.0+cu120"},
        {"version": "1.0-2", "statement": {"archs": ["80"]}},
        {"tag": "cp312-cp312-manylinux_2_28_x86_64", "statement": {"archs": ["80"]}},
    ],
)
def test_names_address_if_installers_prefer_another_wheel(
    preferred: dict[str, Any], index: Index
) -> None:
    wheel = index.add("1.0", TAG.replace("2_28", "2_17"))
    index.add(**preferred)

    assert f"/files/{wheel.name}#sha256=" in line(index)


def test_names_address_if_another_index_has_it_too(index: Index) -> None:
    index.add("0.9")
    index.site.files["/other/toy/"] = index.site.files["/simple/toy/"]
    wheel = index.add("1.0")

    assert f"/files/{wheel.name}#sha256=" in line(index, more=index.site.url("/other/"))


def test_names_address_if_another_index_was_not_queried(index: Index) -> None:
    wheel = index.add("1.0")
    indexes = (index.site.url("/simple/"),)

    command = line(index, more=index.site.url("/other/"), indexes=indexes)

    assert f"/files/{wheel.name}#sha256=" in command


PUBLISHER = {"kind": "GitHub", "repository": "octo/toy", "workflow": "release.yml"}


@pytest.mark.parametrize(
    ("served", "trust"),
    [
        ({"attestation_bundles": [{"publisher": PUBLISHER}]}, "signed for GitHub octo/toy by"),
        (
            {"attestation_bundles": [{"publisher": {"kind": "Google", "email": "a@b.c"}}] * 2},
            "signed for Google a@b.c by",
        ),
        ({"attestation_bundles": [{"publisher": None}]}, "no signature"),
        ({"attestation_bundles": []}, "no signature"),
        ([], "no signature"),
        (None, "no signature"),
    ],
)
def test_names_for_whom_a_wheel_is_signed(index: Index, served: Any, trust: str) -> None:
    address = index.site.url("/integrity/toy.json")
    index.add("1.0", attributes=f'data-provenance="{address}"')
    if served is not None:
        index.site.files["/integrity/toy.json"] = json.dumps(served).encode()

    wheel = index.pick().wheel

    assert wheel
    assert trust in wheel.trust
    assert "SHA-256 from the index" in wheel.trust
    assert "no statement of its build" in wheel.trust


def test_reads_no_attestations_of_another_scheme(index: Index) -> None:
    index.add("1.0", attributes='data-provenance="file:///etc/hostname"')

    wheel = index.pick().wheel

    assert wheel
    assert "no signature" in wheel.trust
