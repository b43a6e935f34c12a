"""What a package imports as soon as it is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.drafts.readers.package_imports import read_package_imports
from tests.support.build.drafts import write_tree

_FIRST = "tiny/__init__.py"


def imports_of(tree: Path) -> list[tuple[str, str]]:
    return [(fact.name, fact.where) for fact in read_package_imports(tree, ["tiny"])]


@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("import others.part", "others"),
        ("from others import part", "others"),
        ("import os", ""),
        ("from tiny import __version__", ""),
        ("try:\n    import others\nexcept ImportError:\n    pass", ""),
        ("def call():\n    import others", ""),
        ("from . import other", ""),
    ],
)
def test_finds_others_modules(statement: str, module: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {_FIRST: f"{statement}\n"})

    assert imports_of(tree) == ([(module, f"{_FIRST}:1")] if module else [])


@pytest.mark.parametrize("root", ["", "src/"])
@pytest.mark.parametrize("line", ["from .part.deep import x", "from tiny.part import deep"])
def test_follows_own_modules(line: str, root: str, tmp_path: Path) -> None:
    files = {_FIRST: line, "tiny/part/__init__.py": "from .. import side\n"}
    files |= {"tiny/side.py": "import others\n", "tiny/part/deep.py": "\nimport more\n"}
    files |= {"tiny/unused.py": "import nothing\n"}
    tree = write_tree(tmp_path, {f"{root}{name}": text for name, text in files.items()})

    found = sorted(imports_of(tree))

    assert found == [("more", f"{root}tiny/part/deep.py:2"), ("others", f"{root}tiny/side.py:1")]


def test_goes_on_after_a_module_that_is_no_python(tmp_path: Path) -> None:
    files = {_FIRST: "from . import old, new\n", "tiny/old.py": "print 1\n"}
    tree = write_tree(tmp_path, files | {"tiny/new.py": "import others\n"})

    assert imports_of(tree) == [("others", "tiny/new.py:1")]
