from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.drafts.readers.runtime_imports import read_runtime_imports
from tests.support.drafted import write_tree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("folder", ["", "src/", "python/"])
def test_follows_imports_of_the_package(folder: str, tmp_path: Path) -> None:
    files = {
        f"{folder}pkg/__init__.py": "import os\nfrom . import ops\nfrom pkg.more.deep import x\n",
        f"{folder}pkg/ops.py": "import numpy as np\nfrom .more import here\n",
        f"{folder}pkg/more/__init__.py": "from packaging.version import Version\n",
        f"{folder}pkg/more/deep.py": "from ..ops import y\nimport einops\n",
        f"{folder}pkg/unused.py": "import pandas\n",
    }

    found = read_runtime_imports(write_tree(tmp_path, files), ("pkg",))

    assert {(one.name, one.where.removeprefix(folder)) for one in found} == {
        ("numpy", "pkg/ops.py:1"),
        ("packaging", "pkg/more/__init__.py:1"),
        ("einops", "pkg/more/deep.py:2"),
    }


def test_leaves_out_what_may_never_run(tmp_path: Path) -> None:
    guarded = "try:\n    import a\nexcept ImportError:\n    a = None\nif a:\n    import b\n"
    tree = write_tree(tmp_path, {"pkg/__init__.py": f"{guarded}\ndef f():\n    import c\n"})

    assert read_runtime_imports(tree, ("pkg",)) == ()


def test_survives_module_of_another_python(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"pkg/__init__.py": "print 'x'\n"})

    assert read_runtime_imports(tree, ("pkg",)) == ()
