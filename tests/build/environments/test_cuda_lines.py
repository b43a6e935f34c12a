"""PyTorch's wheels of other CUDA lines, from an index of its layout over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, RecipeError
from cuwheel.base.fetch.indexes.cuda_lines import LINES_VARIABLE, with_lines
from cuwheel.build.environments.framework_release import read_framework_release
from cuwheel.build.environments.lock_file import check_pins, pinned_version
from cuwheel.build.locks.framework_fit import settle_framework
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import make_target
from tests.support.packages.torch_lines import add_torch, serving_lines

_NOWHERE = "http://127.0.0.1:9/whl"
_LINE = Framework(name="torch", version="2.14.0+cu126")


@pytest.fixture(scope="module")
def lines(module_path: Path) -> Iterator[str]:
    """The address of an index with two lines."""
    for version in ("2.13.0", "2.14.0"):
        add_torch(module_path / "whl", f"{version}+cu126", "12.6")
    add_torch(module_path / "whl", "2.14.0+cu130", "13.0")
    with serving_lines(module_path) as address:
        yield address


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """A target for CUDA 12.6 and PyTorch's wheels for it."""
    torch = Framework(name="torch", version="2.13.0")
    made = make_target(toolkit="12.6", toolkits=("12.6",), framework=torch, root=tmp_path)
    return dataclasses.replace(made, framework=_LINE)


def test_reads_release_of_a_line(
    lines: str, lean_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LINES_VARIABLE, lines)

    release = read_framework_release("torch", "2.14.0+cu126", lean_workspace)

    assert (release.cuda, release.pythons) == ("12.6", ("3.11",))


def test_names_what_a_line_has(
    lines: str, lean_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LINES_VARIABLE, lines)

    with pytest.raises(RecipeError) as caught:
        read_framework_release("torch", "2.15.0+cu126", lean_workspace)

    assert caught.value.why == "the index of cu126 has 2.13.0+cu126, 2.14.0+cu126"


def test_names_the_index_that_is_out_of_reach(
    lean_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LINES_VARIABLE, _NOWHERE)

    with pytest.raises(DownloadError) as caught:
        read_framework_release("torch", "2.14.0+cu126", lean_workspace)

    assert caught.value.what == "which torch there is for cu126 is not known"
    assert f"{_NOWHERE}/cu126" in caught.value.why


def test_locks_a_line_with_the_other_packages_of_the_usual_index(
    lines: str, target: Target, lean_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LINES_VARIABLE, lines)

    settle_framework(target, lean_workspace, offline=False)

    assert target.lock.name == "tiny_cuda-torch2.14.0+cu126.lock"
    assert pinned_version(target.lock, "torch") == "2.14.0+cu126"
    check_pins(target.lock)
    assert pinned_version(target.lock, "setuptools")
    assert target.local_version == "cu126torch2.14"
    assert _LINE.specifier == "==2.14.0+cu126"


def test_uv_knows_the_address_without_a_variable() -> None:
    assert with_lines("a==1\ntorch==2.14.0+cu126 \\\n", {}) == (
        ("--torch-backend", "cu126", "--exclude-newer-package", "torch=false"),
        {},
    )
    assert with_lines("torch==2.14.0\n", {}) == ((), {})
