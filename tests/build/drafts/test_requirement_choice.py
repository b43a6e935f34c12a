"""The distribution that provides a module which a build imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.drafts.readers.survey import survey_source
from cuwheel.build.drafts.requirement_choice import match_imports
from tests.support.build.drafts import FILES, write_tree

PROJECT = '[build-system]\nrequires = ["setuptools", "GitPython"]\n'


def imports_of(tree: Path, setup: str, *files: str) -> list[tuple[str, str]]:
    """Return module and distribution of the imports of a setup.py."""
    added = {"pyproject.toml": PROJECT, **dict.fromkeys(files, ""), "setup.py": f"{setup}\n"}
    survey = survey_source(write_tree(tree, {**FILES, **added}))
    return [(module.name, distribution) for module, distribution in match_imports(survey)]


@pytest.mark.parametrize(
    "path",
    [
        "helper/__init__.py",
        "helper/code.py",  # a namespace package
        "src/helper/__init__.py",
        "third_party/lib/python/helper/__init__.py",
        "vendor/helper.py",
        "csrc/helper.pyx",
    ],
)
def test_leaves_out_what_source_contains(path: str, tmp_path: Path) -> None:
    assert imports_of(tmp_path, "import helper", path) == []


@pytest.mark.parametrize(
    ("setup", "module", "distribution"),
    [
        ("import cv2", "cv2", "opencv-python"),
        ("import einops", "einops", "einops"),  # of Requires-Dist
        ("import op_builder", "op_builder", ""),
        ("try:\n    import fast\nexcept ImportError:\n    fast = None", "fast", ""),
    ],
)
def test_takes_no_stranger_of_the_same_name(
    setup: str, module: str, distribution: str, tmp_path: Path
) -> None:
    assert imports_of(tmp_path, setup) == [(module, distribution)]


def test_hides_distribution_by_regular_package_alone(tmp_path: Path) -> None:
    folder = imports_of(tmp_path / "a", "import packaging", "packaging/windows.py")
    package = imports_of(tmp_path / "b", "import packaging", "packaging/__init__.py")

    assert (folder, package) == ([("packaging", "packaging")], [])


@pytest.mark.parametrize(
    "setup",
    ["from . import helper", "import json", "if IS_ROCM:\n    import hipify_torch"],
)
def test_matches_neither_relative_nor_standard_nor_foreign(setup: str, tmp_path: Path) -> None:
    assert imports_of(tmp_path, setup) == []
