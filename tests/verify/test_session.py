"""What `--against` takes, and the table of what verifications found; the builds are in e2e."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import NotReproducibleError, UsageError
from cuwheel.paths import ROOT
from cuwheel.verify.published import check_meant, read_published
from cuwheel.verify.record import (
    REPRODUCIBILITY_PAGE,
    VerifiedTarget,
    read_findings,
    record,
    with_table,
)
from cuwheel.verify.session import Verified, raise_if_unequal
from cuwheel.wheel.provenance import statement
from tests.wheel.test_provenance import RECORD

if TYPE_CHECKING:
    from pathlib import Path


def _archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("x-1.0.dist-info/WHEEL"), "Wheel-Version: 1.0\n")
    return content.getvalue()


CONTENT = _archive()  # a wheel, as far as its hash and its table of contents are concerned
DIGEST = hashlib.sha256(CONTENT).hexdigest()
PARAMETERS = (
    ("recipe", "causal-conv1d"),
    ("toolkit", "13.0"),
    ("python", "3.12"),
    ("archs", ("80", "90")),
    ("link", "external"),
)
NOTHING = Verified(builds=(), unequal=(), causes=())
FINDING = VerifiedTarget(
    target="x-130-cp312",
    version="1.0",
    archs=("90",),
    compiler="gcc 12",
    sha256=DIGEST,
    other=True,
    warm=True,
    date="2026-11-22",
    causes=(),
    verified=NOTHING,
)


def publish(folder: Path, **changes: Any) -> Path:
    """A wheel with its provenance; gives back the wheel."""
    name = "x-1.0-py3-none-any.whl"
    made = dataclasses.replace(
        RECORD, **{"wheel": name, "sha256": DIGEST, "parameters": PARAMETERS, **changes}
    )
    (folder / name).write_bytes(CONTENT)
    (folder / f"{name}.provenance.json").write_text(statement(made))
    return folder / name


def beside(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}.provenance.json")


@pytest.mark.parametrize("named", [lambda wheel: wheel, beside])
def test_reads_wheel_and_provenance_alike(named: Any, tmp_path: Path) -> None:
    found = read_published(named(publish(tmp_path)))

    assert (found.sha256, found.wheel) == (DIGEST, tmp_path / "x-1.0-py3-none-any.whl")
    assert found.options == [
        *("--arch", "80", "--arch", "90", "--python", "3.12", "--link", "external")
    ]


def test_reads_provenance_without_its_wheel(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.unlink()

    assert read_published(beside(wheel)).wheel is None


def test_reads_wheel_without_provenance(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    beside(wheel).unlink()

    assert read_published(wheel).options == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"subject": []}', '{"subject": [{"name": "x", "digest": {}}]}'],
)
def test_refuses_what_is_no_statement(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.provenance.json"
    path.write_text(content)

    with pytest.raises(UsageError, match="neither a wheel nor the provenance"):
        read_published(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("python", "/tmp/python"),
        ("framework", "--offline"),
        ("archs", ("90", "--work=/")),
        ("archs", "90"),
    ],
)
def test_refuses_statement_that_would_be_an_option(name: str, value: Any, tmp_path: Path) -> None:
    wheel = publish(tmp_path, parameters=((name, value),))

    with pytest.raises(UsageError) as caught:
        read_published(wheel)

    assert name in caught.value.why


def test_refuses_wheel_that_is_not_the_statements(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.write_bytes(b"another")

    with pytest.raises(UsageError) as caught:
        read_published(beside(wheel))

    assert "not the wheel that the provenance is of" in caught.value.why


def test_refuses_damaged_wheel_before_building(tmp_path: Path) -> None:
    (tmp_path / "x-1.0-py3-none-any.whl").write_bytes(b"")

    with pytest.raises(UsageError, match="no wheel that can be read"):
        read_published(tmp_path / "x-1.0-py3-none-any.whl")


def test_refuses_wheel_of_another_recipe(tmp_path: Path) -> None:
    theirs = read_published(publish(tmp_path))

    check_meant(theirs, "causal-conv1d", "130")
    with pytest.raises(UsageError) as caught:
        check_meant(theirs, "jaxmg", "128")

    assert caught.value.fix.startswith("nox -s verify -- causal-conv1d-130 --against ")


def test_ends_in_an_error_where_bytes_differ() -> None:
    raise_if_unequal(NOTHING, "x")
    found = dataclasses.replace(NOTHING, unequal=("other",), causes=("a cause",))

    with pytest.raises(NotReproducibleError) as caught:
        raise_if_unequal(found, "x")

    assert "other gave another wheel" in caught.value.what
    assert caught.value.why == "a cause"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the page and no findings."""
    (tmp_path / "docs").mkdir()
    (tmp_path / REPRODUCIBILITY_PAGE).write_text(
        with_table((ROOT / REPRODUCIBILITY_PAGE).read_text(), {})
    )
    return tmp_path


def test_records_finding_in_data_and_page(project: Path) -> None:
    record(FINDING, project)
    record(dataclasses.replace(FINDING, other=False, causes=("a|b",)), project)

    [row] = [
        line
        for line in (project / REPRODUCIBILITY_PAGE).read_text().splitlines()
        if "x-130" in line
    ]
    assert read_findings(project)["x-130-cp312"]["other"] is False
    assert "differs: a\\|b" in row
    assert row.count(" | ") == 7


def test_keeps_other_machines_of_the_same_wheel(project: Path) -> None:
    record(FINDING, project)
    data = read_findings(project)
    data["x-130-cp312"]["machines"] = [["a Xeon", "same bytes"]]
    (project / "docs" / "reproducibility.json").write_text(json.dumps(data))

    record(FINDING, project)
    kept = read_findings(project)["x-130-cp312"]["machines"]
    record(dataclasses.replace(FINDING, sha256="0" * 64), project)

    assert kept == [["a Xeon", "same bytes"]]
    assert read_findings(project)["x-130-cp312"]["machines"] == []


def test_page_has_the_table_of_its_data() -> None:
    page = (ROOT / REPRODUCIBILITY_PAGE).read_text()

    assert page == with_table(page, read_findings(ROOT))
