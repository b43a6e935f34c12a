"""The benchmark `determinism` on a tiny package: real compiles, again and again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from tests.support.engine import PACKAGES

pytestmark = pytest.mark.e2e


def test_counts_hashes_of_fresh_compiles(project: Path, shared_cache: Path, tmp_path: Path) -> None:
    page, record = tmp_path / "page.md", tmp_path / "record.json"
    mark = "bench:determinism-tiny-skbuild-130"
    page.write_text(f"<!-- {mark} -->\n<!-- {mark} end -->\n")
    words = ("tiny-skbuild-130", "--arch", "90", "--python", sys.executable, "--times", "2")
    to = ("--folder", tmp_path / "made", "--page", page, "--record", record)
    source = ("--source", PACKAGES / "tiny_skbuild")

    run(
        [sys.executable, "-m", "bench.determinism", *words, "--bare", "2", *to, *source],
        env={**os.environ, "CUWHEEL_CACHE": str(shared_cache), "CUWHEEL_PROJECT": str(project)},
        cwd=ROOT,
    )

    rows = json.loads(record.read_text())["rows"]
    counts = {row["way"]: (row["compiles"], len(row["objects"])) for row in rows}
    assert counts == {"nvcc alone": (2, 2), "with cuwheel's launcher": (2, 1)}
    assert "with cuwheel's launcher | 2 | 1 hash | 1 hash | nothing |" in page.read_text()
