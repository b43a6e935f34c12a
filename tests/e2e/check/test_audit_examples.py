"""The table of audited wheels against the wheels themselves: the smaller ones, 440 MB."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_wheels
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.quantities import GIB
from cuwheel.check.audit.findings import SEVERITIES
from cuwheel.check.audit.verdict import AuditResult, audit_wheel

pytestmark = pytest.mark.nightly

_LARGE = 70  # MB: larger ones aren't downloaded
_TABLE = ROOT / "docs" / "evidence" / "2026-11-23-audits-of-wheels.csv"
# Project, release, SHA-256 as far as it is shown, size in MB, CUDA, archs, driver, and how many
# findings of each severity.
_ROWS = [*csv.reader(_TABLE.read_text("utf-8").splitlines()[1:])]
_SMALL = [row for row in _ROWS if float(row[3]) < _LARGE]


def fetch(project: str, digest: str, folder: Path) -> Path:
    """The wheel on the index whose hash begins so."""
    offered = find_wheels(project, indexes=configured_indexes(os.environ))
    file = next(file for file in offered if file.sha256.startswith(digest))
    wanted = PinnedFile(name=file.name, sha256=file.sha256, max_size=GIB)
    download(wanted, folder / file.name, file.url, console=Console())
    return folder / file.name


def archs_of(found: AuditResult) -> str:
    names = (*found.code.sass, *(f"PTX {arch}" for arch in found.code.ptx))
    return " ".join(names) or "none"


@pytest.mark.parametrize("row", _SMALL, ids=[row[0] for row in _SMALL])
def test_audit_says_what_document_says(row: list[str], tmp_path: Path) -> None:
    project, _, digest, _, cuda, archs, driver, *counts = row

    found = audit_wheel(fetch(project, digest, tmp_path))

    made = Counter(finding.severity for finding in found.findings)
    assert [made[severity] for severity in SEVERITIES] == [int(count) for count in counts]
    assert (", ".join(map(str, found.majors)) or "none") == cuda
    assert (", ".join(driver for _, driver in found.min_driver) or "none") == driver
    assert archs_of(found) == archs


def test_document_tells_of_enough_wheels() -> None:
    assert len(_ROWS) >= 12
