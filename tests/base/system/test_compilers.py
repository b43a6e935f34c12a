from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.system import compilers
from cuwheel.base.system.compilers import HostCompiler, find_host_compilers, newest_gcc_for
from tests.support.factories import write_compiler


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the system's compilers."""
    monkeypatch.setattr(compilers, "SYSTEM_PATH", str(tmp_path))
    return tmp_path


def test_finds_compiler_of_this_system() -> None:
    compilers = find_host_compilers({})

    assert compilers[0].cxx == Path("/usr/bin/g++")
    assert compilers[0].version in compilers[0].banner
    assert compilers[0].cc == Path("/usr/bin/gcc")


def test_finds_default_compiler_then_newest_first(machine: Path) -> None:
    for name, version in (("g++", "16.1.0"), ("g++-12", "12.2.0"), ("g++-14", "14.3.0")):
        write_compiler(machine, name, version)

    assert [compiler.major for compiler in find_host_compilers({})] == [16, 14, 12]


def test_passes_over_callers_path_and_broken_compiler(machine: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_compiler(elsewhere, "g++", "12.2.0")
    assert find_host_compilers({"PATH": str(elsewhere)}) == ()

    (machine / "g++").write_text("#!/bin/sh\nexit 1\n")
    (machine / "g++").chmod(0o755)
    assert find_host_compilers({}) == ()


def test_takes_compiler_that_was_named(machine: Path, tmp_path: Path) -> None:
    write_compiler(machine, "g++", "12.2.0")
    named = write_compiler(tmp_path, "my-g++-13", "13.3.0")

    compilers = find_host_compilers({"CXX": str(named)})

    assert compilers == (
        HostCompiler(cxx=named, cc=named, version="13.3.0", banner=compilers[0].banner),
    )


def test_reads_limit_from_toolkit(cuda_home: Path) -> None:
    assert newest_gcc_for(cuda_home) == 15


def test_finds_compilers_for_other_machines_by_their_triplet(machine: Path) -> None:
    write_compiler(machine, "g++", "14.3.0")
    write_compiler(machine, "aarch64-linux-gnu-g++", "12.2.0")
    write_compiler(machine, "aarch64-linux-gnu-g++-14", "14.3.0")

    compilers = find_host_compilers({"CXX": "g++"}, "aarch64-linux-gnu")

    assert [compiler.major for compiler in compilers] == [12, 14]
    assert compilers[0].cxx == machine / "aarch64-linux-gnu-g++"
