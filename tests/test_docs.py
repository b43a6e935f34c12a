"""What the pages say of the code: its modules, and what they import."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from cuwheel.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# Of wheels that the page is about, and of readers' projects.
_FOREIGN = {
    *("faiss/loader.py", "libcudf/load.py", "setup.py"),
    *("packages/axpy/src/axpy/__init__.py", "recipes/axpy.py", "recipes/hello_cuda.py"),
}
_STARTS = ("", "cuwheel/**/", "tests/**/", "ci/**/")
_PATH = re.compile(r"`([\w.*/-]+\.py)`")


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT))
)
def test_names_modules_that_there_are(page: Path) -> None:
    named = set(_PATH.findall(page.read_text())) - _FOREIGN

    assert [path for path in sorted(named) if not _is_module(path)] == []


def test_finds_paths_of_modules() -> None:
    assert _is_module("cuwheel/fetch/mirror.py")
    assert _is_module("fetch/mirror.py")
    assert not _is_module("fetch/mirrors.py")
    assert not _is_module("etch/mirror.py")


def test_architecture_names_what_bootstrap_imports() -> None:
    """It runs before the engine's packages are there, so each import counts."""
    tree = ast.parse((ROOT / "cuwheel" / "bootstrap.py").read_text())
    imports = [one for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.ImportFrom))]
    lines = [ast.unparse(one).split() for one in imports]
    found = {line[1].removeprefix("cuwheel.") for line in lines if line[1].startswith("cuwheel")}

    page = " ".join((ROOT / "docs" / "architecture.md").read_text().split())
    (said,) = re.findall(r"`bootstrap` runs before [^.]* and imports (.*?) alone\.", page)

    assert found == set(re.findall(r"`([\w.]+)`", said))


def _is_module(path: str) -> bool:
    """Whether a path, or the end of one, is a file of the project."""
    return any(next(ROOT.glob(start + path), None) for start in _STARTS)
