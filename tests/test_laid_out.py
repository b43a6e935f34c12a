"""What of an installed wheel the engine runs: a copy in the cache, which others may share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.laid_out import engine_root
from cuwheel.paths import ROOT

_LAY_OUT = """
import pathlib, sys
from cuwheel.laid_out import engine_root
print(engine_root(pathlib.Path(sys.argv[1])))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A `site-packages` with the package as its wheel has it, in small, and a neighbour."""
    package = tmp_path / "site" / "cuwheel"
    (package / "envs").mkdir(parents=True)
    (package / "envs" / "engine.lock").write_text("")
    (package / "system").mkdir()
    for name in ("__init__", "system/__init__"):
        (package / f"{name}.py").touch()
    for name in ("laid_out", "paths", "version", "system/in_use"):
        shutil.copy(ROOT / "cuwheel" / f"{name}.py", package / f"{name}.py")
    (tmp_path / "site" / "neighbour.py").touch()
    return tmp_path / "site"


def lay_out(site: Path, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _LAY_OUT, str(folder)],
        cwd=site.parent,
        env={"PATH": os.defpath, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
        text=True,
    )


def laid_out(site: Path, folder: Path) -> Path:
    output, _ = lay_out(site, folder).communicate()
    return Path(output.strip())


def test_checkout_needs_no_copy(tmp_path: Path) -> None:
    assert engine_root(tmp_path) == ROOT
    assert list(tmp_path.iterdir()) == []


def test_copy_is_like_a_checkout_without_neighbours(site: Path, tmp_path: Path) -> None:
    root = laid_out(site, tmp_path / "cache")

    assert sorted(path.name for path in root.iterdir()) == ["cuwheel", "envs"]
    assert (root / "envs" / "engine.lock").is_file()
    assert not (root / "cuwheel" / "envs").exists()


def test_copies_from_folders_that_nobody_may_write(site: Path, tmp_path: Path) -> None:
    """As an image or a store has them; root may write them all the same, so modes are looked at."""
    folders = [site / "cuwheel" / name for name in ("system", "envs", ".")]
    for folder in folders:
        folder.chmod(0o555)

    root = laid_out(site, tmp_path / "cache")

    assert (root / "envs" / "engine.lock").is_file()
    assert {folder.stat().st_mode & 0o200 for folder in root.rglob("*") if folder.is_dir()} == {
        0o200
    }


def test_copies_once(site: Path, tmp_path: Path) -> None:
    first = laid_out(site, tmp_path / "cache")
    made = first.stat().st_mtime_ns

    assert laid_out(site, tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == made


def test_another_release_gets_another_copy(site: Path, tmp_path: Path) -> None:
    first = laid_out(site, tmp_path / "cache")
    with (site / "cuwheel" / "paths.py").open("a") as stream:
        stream.write("# changed\n")

    assert laid_out(site, tmp_path / "cache") != first


def test_two_at_once_make_one(site: Path, tmp_path: Path) -> None:
    runs = [lay_out(site, tmp_path / "cache") for _ in range(4)]

    outputs = {run.communicate()[0] for run in runs}

    assert len(outputs) == 1
    assert {run.returncode for run in runs} == {0}
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 1
