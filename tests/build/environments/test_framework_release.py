"""PyTorch's releases on the real index, of old ones that don't change."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from cuwheel.base.errors import RecipeError
from cuwheel.build.environments.framework_release import (
    FrameworkRelease,
    newest_allowed,
    read_framework_release,
)
from cuwheel.build.workspace.workspace import Workspace


def read(version: str, workspace: Workspace) -> FrameworkRelease:
    return read_framework_release("torch", version, workspace)


@pytest.mark.parametrize(
    ("version", "cuda"), [("2.10.0", "12.8"), ("2.11.0", "13.0"), ("2.15.0", "13.2")]
)
def test_reads_cuda_from_requirements(lean_workspace: Workspace, version: str, cuda: str) -> None:
    assert read(version, lean_workspace).cuda == cuda


@pytest.mark.e2e
def test_reads_pythons_from_wheels(lean_workspace: Workspace) -> None:
    release = read("2.11.0", lean_workspace)

    assert release.pythons == ("3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t")
    assert release.oldest_python == "3.10"


@pytest.mark.parametrize(("required", "version"), [(">=2.7,<2.8", "2.7.1"), ("<0.1", None)])
def test_finds_newest_release_that_a_requirement_allows(
    lean_workspace: Workspace, required: str, version: str | None
) -> None:
    release = newest_allowed("torch", SpecifierSet(required), lean_workspace)

    assert (release and release.version) == version


def test_names_nearest_releases(lean_workspace: Workspace) -> None:
    with pytest.raises(RecipeError) as caught:
        read("2.10.7", lean_workspace)

    assert caught.value.why == "the index has 2.9.1, 2.10.0, 2.11.0, 2.12.0"


def test_reads_index_once(lean_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read("2.11.0", lean_workspace)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")

    assert read("2.11.0", lean_workspace) == before
