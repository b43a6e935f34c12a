"""The bill of materials, which CycloneDX's own library reads."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import pytest
from cyclonedx.model.bom import Bom

from cuwheel.paths import ROOT
from cuwheel.system import process
from cuwheel.wheel.sbom import Contents, SbomComponent, wheel_sbom

CONTENTS = Contents(
    wheel=SbomComponent(name="toy", version="1.0+cu130", license="BSD-3-Clause"),
    source=SbomComponent(name="toy", version="1.0", sha256="b" * 64),
    contained=(SbomComponent(name="cudart_static", version="13.0.96", purl_type="generic"),),
    required=(
        SbomComponent(name="torch", description="torch==2.11.*"),
        SbomComponent(name="nvidia-cuda-runtime", description="nvidia-cuda-runtime>=13.0,<14"),
    ),
    tools=(
        SbomComponent(name="nvcc", version="13.0.88"),
        SbomComponent(name="cuwheel", version="0.1.0"),
    ),
    epoch=1_700_000_000,
)


@pytest.fixture
def bill() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(wheel_sbom(CONTENTS))
    return content


def test_gives_same_sbom_twice() -> None:
    assert wheel_sbom(CONTENTS) == wheel_sbom(dataclasses.replace(CONTENTS))


@pytest.mark.parametrize("seed", ["1", "2"])
def test_gives_same_sbom_in_another_process(seed: str) -> None:
    script = "from tests.wheel.test_sbom import *; print(wheel_sbom(CONTENTS).decode(), end='')"
    env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}

    done = process.run([sys.executable, "-W", "error", "-c", script], env=env)

    assert done.output.encode() == wheel_sbom(CONTENTS)


def test_serial_number_stays_what_published_wheels_have() -> None:
    """Another one changes the bytes of every wheel, so no name of a class may get into it."""
    assert str(CONTENTS.serial_number) == "096138b3-f2c3-5092-bbb0-79ef719aa7df"


def test_does_not_depend_on_order_of_parts() -> None:
    turned = dataclasses.replace(
        CONTENTS, required=CONTENTS.required[::-1], tools=CONTENTS.tools[::-1]
    )

    assert wheel_sbom(turned) == wheel_sbom(CONTENTS)


def test_numbers_other_contents_otherwise(bill: dict[str, Any]) -> None:
    other = json.loads(wheel_sbom(dataclasses.replace(CONTENTS, epoch=0)))

    assert other["serialNumber"] != bill["serialNumber"]


def test_dates_the_sbom_by_the_source(bill: dict[str, Any]) -> None:
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_parses_back_as_cyclonedx(bill: dict[str, Any]) -> None:
    bom: Bom = Bom.from_json(bill)  # type: ignore[attr-defined]

    assert bom.validate()
    assert bom.metadata.component
    assert str(bom.metadata.component.purl) == "pkg:pypi/toy@1.0%2Bcu130"


def test_lists_source_contained_and_required(bill: dict[str, Any]) -> None:
    roles = {part["name"]: part["properties"][0]["value"] for part in bill["components"]}

    assert roles == {
        "toy": "source",
        "cudart_static": "contained",
        "torch": "required",
        "nvidia-cuda-runtime": "required",
    }


def test_states_hash_of_the_source(bill: dict[str, Any]) -> None:
    source = next(part for part in bill["components"] if part["name"] == "toy")

    assert source["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]


def test_lists_tools_apart(bill: dict[str, Any]) -> None:
    tools = bill["metadata"]["tools"]["components"]

    assert [(tool["name"], tool["version"]) for tool in tools] == [
        ("cuwheel", "0.1.0"),
        ("nvcc", "13.0.88"),
    ]
