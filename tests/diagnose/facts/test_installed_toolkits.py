"""Toolkits and compilers of machines that aren't as they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts import installed_toolkits
from cuwheel.diagnose.facts.installed_toolkits import find_installations
from tests.support.nvccs import judged, write_nvcc

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("bare_machine")


def test_reads_real_nvcc(cuda_home: Path) -> None:
    found = find_installations({"PATH": "/usr/bin:/bin", "CUDA_HOME": str(cuda_home)})

    [nvcc] = found.nvccs
    assert (nvcc.release, nvcc.max_gcc, nvcc.found) == ("13.0", 15, ("CUDA_HOME",))


def test_finds_system_compilers() -> None:
    tools = {tool.name: tool for tool in find_installations({"PATH": "/usr/bin:/bin"}).tools}

    assert tools["g++"].version.count(".") == 2
    assert tools["g++"].path is not None


def test_says_nothing_without_toolkit() -> None:
    assert judged() == []


@pytest.mark.parametrize(
    ("script", "limit"),
    [("true", 60.0), ("exit 3", 60.0), ("sleep 100", 1.0), (r"printf 'a\0\377\200\n'", 60.0)],
)
def test_goes_on_past_nvcc_that_does_not_tell(
    tmp_path: Path, script: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_toolkits, "_TIME_LIMIT", limit)
    home = write_nvcc(tmp_path / "cuda", "", script)

    [found] = judged(CUDA_HOME=str(home))

    assert (found.level, found.anchor) == ("warning", "diagnose-not-asked")
