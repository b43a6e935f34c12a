"""Compiled modules that environments of one lock share."""

from __future__ import annotations

import importlib.util
import py_compile
from typing import TYPE_CHECKING

import pytest

from cuwheel.smoke.bytecode import keep_bytecode, lend_bytecode

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Site-packages with a library, and the wheel that is tried."""
    site = tmp_path / "site-packages"
    for name in ("library", "own"):
        module = site / name / "__init__.py"
        module.parent.mkdir(parents=True)
        module.write_text("value = 1\n")
        py_compile.compile(str(module))
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n")
    return site


def compiled(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder).parent.parent) for path in folder.rglob("*.pyc"))


def test_keeps_all_but_the_wheels_own(site: Path, tmp_path: Path) -> None:
    keep_bytecode(tmp_path / "kept", site, "own")

    assert compiled(tmp_path / "kept") == ["library"]


def test_lends_what_was_kept(site: Path, tmp_path: Path) -> None:
    keep_bytecode(tmp_path / "kept", site, "own")
    cache = importlib.util.cache_from_source(str(site / "library" / "__init__.py"))
    new = tmp_path / "new" / "site-packages"
    (new / "library").mkdir(parents=True)
    (new / "library" / "__init__.py").write_text("value = 1\n")

    lend_bytecode(tmp_path / "kept", new)

    [lent] = new.rglob("*.pyc")
    assert lent.samefile(cache)


def test_lends_nothing_of_what_is_not_installed(site: Path, tmp_path: Path) -> None:
    """A lock holds more than a wheel requires, and an empty folder can be imported."""
    keep_bytecode(tmp_path / "kept", site, "own")
    new = tmp_path / "new" / "site-packages"
    new.mkdir(parents=True)

    lend_bytecode(tmp_path / "kept", new)

    assert list(new.iterdir()) == []


def test_nothing_kept_lends_nothing(tmp_path: Path) -> None:
    lend_bytecode(tmp_path / "kept", tmp_path)

    assert compiled(tmp_path) == []


def test_module_that_was_compiled_again_replaces_the_kept_one(site: Path, tmp_path: Path) -> None:
    keep_bytecode(tmp_path / "kept", site, "own")
    module = site / "library" / "__init__.py"
    module.write_text("value = 12345\n")
    py_compile.compile(str(module))

    keep_bytecode(tmp_path / "kept", site, "own")

    [kept] = (tmp_path / "kept").rglob("*.pyc")
    assert kept.samefile(importlib.util.cache_from_source(str(module)))
