"""cuwheel's own package: built from a copy of the repository, as a release is."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run

_FILES = (".gitignore", "CHANGELOG.md", "LICENSE", "hatch_build.py", "pyproject.toml")
_FOLDERS = ("cuwheel", "docs", "envs")


def copy_sources(folder: Path) -> Path:
    """What a release is built from, with what running it leaves behind, at another address."""
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    for name in _FILES:
        shutil.copy(ROOT / name, folder)
    return folder


def build_package(kind: str, source: Path, folder: Path, *, umask: int = 0o022) -> Path:
    """Build `sdist` or `wheel` with the backend of the dev environment, without a network.

    Returns:
        The file.
    """
    words = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(folder)]
    script = f'umask {umask:03o}; exec "$0" "$@"'
    environ = {**os.environ, "PYTHONPATH": ""}
    run(["/bin/sh", "-c", script, *words, str(source)], env=environ)
    [made] = folder.iterdir()
    return made


def unpack_installed(wheel: Path, folder: Path) -> Path:
    """The wheel as an installer lays it out, a `site-packages`; what it requires isn't there."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder
