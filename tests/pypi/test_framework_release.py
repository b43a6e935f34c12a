"""What the real index says of PyTorch's releases; those that are named here don't change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import FrameworkError
from cuwheel.pypi.framework_release import FrameworkRelease, read_framework_release

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace


def ask(version: str, cache: Path) -> FrameworkRelease:
    return read_framework_release("torch", version, cache=cache)


@pytest.mark.parametrize(
    ("version", "cuda"), [("2.10.0", "12.8"), ("2.11.0", "13.0"), ("2.15.0", "13.2")]
)
def test_reads_cuda_from_requirements(lean_workspace: Workspace, version: str, cuda: str) -> None:
    assert ask(version, lean_workspace.cache).cuda == cuda


def test_reads_pythons_from_wheels(lean_workspace: Workspace) -> None:
    found = ask("2.11.0", lean_workspace.cache)

    assert found.pythons == ("3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t")
    assert found.oldest_python == "3.10"
    assert dict(found.newest_for)["3.8"] == "2.4.1"


def test_names_nearest_releases(lean_workspace: Workspace) -> None:
    with pytest.raises(FrameworkError) as caught:
        ask("2.10.7", lean_workspace.cache)

    assert caught.value.why == "the index has 2.9.1, 2.10.0, 2.11.0, 2.12.0"


def test_asks_once(lean_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ask("2.11.0", lean_workspace.cache)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")

    assert ask("2.11.0", lean_workspace.cache) == before
