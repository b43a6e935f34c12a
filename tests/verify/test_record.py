"""What a verification leaves in the repository."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from cuwheel.paths import ROOT
from cuwheel.verify.record import (
    REPRODUCIBILITY_PAGE,
    VerifiedTarget,
    read_findings,
    record,
    with_table,
)
from cuwheel.verify.session import Verified
from tests.support.published import DIGEST

if TYPE_CHECKING:
    from pathlib import Path


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
