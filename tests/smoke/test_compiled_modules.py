"""Compiled modules come from us: what a wheel names is compiled, and nothing of it is run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.smoke.compiled_modules import compile_modules

_WHEEL = "tiny_cuda-1.0.dist-info"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages with a wheel, and a package that it requires."""
    site = tmp_path.resolve() / "site-packages"
    for name in ("tiny_cuda", "torch"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("open('ran', 'w')\n")
    (site / _WHEEL).mkdir()
    (site / _WHEEL / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tiny-cuda\nVersion: 1.0\n"
    )
    (site / _WHEEL / "RECORD").write_text("tiny_cuda/__init__.py,,\n")
    return site


def compile_named(site: Path, *sources: Path) -> list[str]:
    listed = site.parent / "imported.txt"
    compile_modules(Path(sys.executable), site, sources, "tiny-cuda", listed)
    return sorted(path.parents[1].name for path in site.rglob("*.pyc"))


def test_compiles_what_the_wheel_requires_and_not_its_own(site: Path) -> None:
    sources = (site / "torch" / "__init__.py", site / "tiny_cuda" / "__init__.py")

    assert compile_named(site, *sources) == ["torch"]
    assert not (site.parent / "ran").exists()


def test_passes_over_what_is_no_module_there(site: Path) -> None:
    os.mkfifo(site / "torch" / "fifo.py")
    (site / "torch" / "link.py").symlink_to("/etc/hostname")
    (site.parent / "outside.py").touch()

    names = (site / "torch" / "fifo.py", site / "torch" / "link.py", site.parent / "outside.py")

    assert compile_named(site, *names) == []


def test_leaves_what_is_compiled(site: Path) -> None:
    source = site / "torch" / "__init__.py"
    compile_named(site, source)
    [made] = site.rglob("*.pyc")
    before = made.stat().st_mtime_ns

    compile_named(site, source)

    assert made.stat().st_mtime_ns == before
