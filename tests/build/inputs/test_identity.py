"""Name and version of a source that a user gives, against the recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import SourceError
from cuwheel.build.inputs.identity import check_identity, stated_identity
from cuwheel.build.recipe.source import Sdist
from tests.support.build.drafts import write_tree
from tests.support.factories import make_recipe


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\nname = "Tiny"\nversion = "1.0"\n'),
        ("setup.cfg", "[metadata]\nname = Tiny\nversion = 1.0\n"),
        ("PKG-INFO", "Metadata-Version: 2.1\nName: Tiny\nVersion: 1.0\n\nText.\n"),
    ],
)
def test_reads_name_and_version(file: str, text: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {file: text})

    assert stated_identity(tmp_path) == ("Tiny", "1.0")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\ndynamic = ["name", "version"]\n'),
        ("pyproject.toml", "project = 1"),
        ("pyproject.toml", "[["),
        ("setup.cfg", "[metadata]\nname = attr: x.y\nversion = file: VERSION\n"),
        ("setup.cfg", "no section"),
        ("setup.py", ""),
    ],
)
def test_knows_nothing_that_a_backend_computes(file: str, text: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {file: text})

    assert stated_identity(tmp_path) == ("", "")


@pytest.mark.parametrize("stated", [("Tiny_Cuda", "1.2.3"), ("tiny.sdist", "1.2.3+cu1"), ("", "")])
def test_lets_own_source_pass(stated: tuple[str, str]) -> None:
    source = Sdist(project="tiny-sdist", sha256="0" * 64)

    check_identity(make_recipe(name="tiny-cuda", version="1.2.3", source=source), *stated)


@pytest.mark.parametrize("stated", [("other", "1.2.3"), ("tiny-cuda", "1.2.4"), ("tiny-cuda", "x")])
def test_refuses_other_package_and_release(stated: tuple[str, str]) -> None:
    with pytest.raises(SourceError):
        check_identity(make_recipe(name="tiny-cuda", version="1.2.3"), *stated)
