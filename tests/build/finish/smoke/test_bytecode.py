"""Compiled modules that environments of one lock share."""

from __future__ import annotations

import importlib.util
import marshal
import py_compile
import sys
from pathlib import Path

import pytest

from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.build.finish.smoke.bytecode import keep_bytecode, lend_bytecode


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Site-packages with a library, and the wheel that is tried; compiled next to the sources."""
    monkeypatch.setattr(sys, "pycache_prefix", None)
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


def keep(site: Path, kept: Path) -> None:
    imported = sorted(site.rglob("*.py"))
    keep_bytecode(kept, site, "own", imported=imported, python=Path(sys.executable))


def compiled(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder).parent.parent) for path in folder.rglob("*.pyc"))


def test_keeps_all_but_the_wheels_own(site: Path, tmp_path: Path) -> None:
    keep(site, tmp_path / "kept")

    assert compiled(tmp_path / "kept") == ["library"]


def test_lends_what_was_kept(site: Path, tmp_path: Path) -> None:
    keep(site, tmp_path / "kept")
    source = site / "library" / "__init__.py"
    new = tmp_path / "new" / "site-packages"
    (new / "library").mkdir(parents=True)
    (new / "library" / "__init__.py").hardlink_to(source)

    lend_bytecode(tmp_path / "kept", new)

    output = run([sys.executable, "-v", "-c", "import library"], env={"PYTHONPATH": str(new)})
    assert f"code object from '{new / 'library' / '__pycache__'}" in output.output


def test_lends_nothing_of_what_is_not_installed(site: Path, tmp_path: Path) -> None:
    """A lock holds more than a wheel requires, and an empty folder can be imported."""
    keep(site, tmp_path / "kept")
    new = tmp_path / "new" / "site-packages"
    new.mkdir(parents=True)

    lend_bytecode(tmp_path / "kept", new)

    assert list(new.iterdir()) == []


def test_leaves_what_a_wheel_brought(site: Path, tmp_path: Path) -> None:
    """The installer links its files into its cache: who writes into one changes it there."""
    keep(site, tmp_path / "kept")
    [kept] = (tmp_path / "kept").rglob("*.pyc")
    installers = tmp_path / "installers.pyc"
    installers.write_bytes(b"a wheel's own")
    brought = site / "library" / "__pycache__" / kept.name
    brought.unlink()
    brought.hardlink_to(installers)

    lend_bytecode(tmp_path / "kept", site)

    assert installers.read_bytes() == b"a wheel's own"


def test_nothing_kept_lends_nothing(tmp_path: Path) -> None:
    lend_bytecode(tmp_path / "kept", tmp_path)

    assert compiled(tmp_path) == []


def test_module_that_was_compiled_again_replaces_the_kept_one(site: Path, tmp_path: Path) -> None:
    keep(site, tmp_path / "kept")
    module = site / "library" / "__init__.py"
    module.write_text("value = 12345\n")
    py_compile.compile(str(module))

    keep(site, tmp_path / "kept")

    [kept] = (tmp_path / "kept").rglob("*.pyc")
    assert b"12345" in repr(marshal.loads(kept.read_bytes()[16:]).co_consts).encode()


def test_keeps_nothing_that_the_wheels_code_wrote(site: Path, tmp_path: Path) -> None:
    """It could write code behind the time and size of the source."""
    module = site / "library" / "__init__.py"
    compiled_file = Path(importlib.util.cache_from_source(str(module)))
    evil = compile("value = 'evil'", "x", "exec")
    compiled_file.write_bytes(compiled_file.read_bytes()[:16] + marshal.dumps(evil))

    keep(site, tmp_path / "kept")

    [kept] = (tmp_path / "kept").rglob("*.pyc")
    assert b"evil" not in kept.read_bytes()


def test_what_is_lent_is_shared(site: Path, tmp_path: Path) -> None:
    keep(site, tmp_path / "kept")
    [kept] = (tmp_path / "kept").rglob("*.pyc")
    remove_tree(site / "library" / "__pycache__")

    lend_bytecode(tmp_path / "kept", site)

    [lent] = (site / "library").rglob("*.pyc")
    assert lent.samefile(kept)
