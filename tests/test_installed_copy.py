"""The copy of an installed engine in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.bootstrap import engine_root

_LAY_OUT = """
import pathlib, sys
from cuwheel.bootstrap import engine_root
print(engine_root(pathlib.Path(sys.argv[1])))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A `site-packages` with a small package as in its wheel, and a neighbour."""
    package = tmp_path / "site" / "cuwheel"
    (package / "envs").mkdir(parents=True)
    (package / "envs" / "engine.lock").write_text("")
    (package / "__init__.py").touch()
    for name in ("bootstrap.py", "version.py"):
        shutil.copy(ROOT / "cuwheel" / name, package / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cuwheel" / "base", package / "base", ignore=ignored)
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


def test_copies_from_read_only_folders(site: Path, tmp_path: Path) -> None:
    """As in an image or a store; root may write them anyway, so modes are compared."""
    folders = [site / "cuwheel" / name for name in ("base/system", "base", "envs", ".")]
    for folder in folders:
        folder.chmod(0o555)

    root = laid_out(site, tmp_path / "cache")

    assert (root / "envs" / "engine.lock").is_file()
    assert {folder.stat().st_mode & 0o200 for folder in root.rglob("*") if folder.is_dir()} == {
        0o200
    }


def test_copies_each_release_once(site: Path, tmp_path: Path) -> None:
    first = laid_out(site, tmp_path / "cache")
    written = first.stat().st_mtime_ns

    assert laid_out(site, tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == written
    with (site / "cuwheel" / "base" / "paths.py").open("a") as stream:
        stream.write("# changed\n")
    assert laid_out(site, tmp_path / "cache") != first


def test_two_at_once_make_one(site: Path, tmp_path: Path) -> None:
    runs = [lay_out(site, tmp_path / "cache") for _ in range(4)]

    outputs = {run.communicate()[0] for run in runs}

    assert len(outputs) == 1
    assert {run.returncode for run in runs} == {0}
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 1
