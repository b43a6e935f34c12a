from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.system import compilers
from cuwheel.system.compilers import HostCompiler, find_host_compilers, newest_gcc_for
from tests.support.factories import write_compiler


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the system's compilers are."""
    monkeypatch.setattr(compilers, "SYSTEM_PATH", str(tmp_path))
    return tmp_path


def test_finds_compiler_of_this_system() -> None:
    found = find_host_compilers({})

    assert found[0].cxx == Path("/usr/bin/g++")
    assert found[0].version in found[0].banner
    assert found[0].cc == Path("/usr/bin/gcc")


def test_finds_default_compiler_then_newest_first(machine: Path) -> None:
    for name, version in (("g++", "16.1.0"), ("g++-12", "12.2.0"), ("g++-14", "14.3.0")):
        write_compiler(machine, name, version)

    assert [found.major for found in find_host_compilers({})] == [16, 14, 12]


def test_finds_nothing_on_bare_machine(machine: Path) -> None:
    assert machine.is_dir()
    assert find_host_compilers({}) == ()


def test_passes_over_compiler_that_does_not_run(machine: Path) -> None:
    (machine / "g++").write_text("#!/bin/sh\nexit 1\n")
    (machine / "g++").chmod(0o755)

    assert find_host_compilers({}) == ()


def test_passes_over_callers_path(machine: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_compiler(elsewhere, "g++", "12.2.0")

    assert machine.is_dir()
    assert find_host_compilers({"PATH": str(elsewhere)}) == ()


def test_takes_compiler_that_was_named(machine: Path, tmp_path: Path) -> None:
    write_compiler(machine, "g++", "12.2.0")
    named = write_compiler(tmp_path, "my-g++-13", "13.3.0")

    found = find_host_compilers({"CXX": str(named)})

    assert found == (HostCompiler(cxx=named, cc=named, version="13.3.0", banner=found[0].banner),)


def test_looks_for_nothing_else_when_one_was_named(machine: Path) -> None:
    write_compiler(machine, "g++", "12.2.0")

    assert find_host_compilers({"CXX": "/nowhere/g++"}) == ()


def test_reads_limit_from_toolkit(cuda_home: Path) -> None:
    assert newest_gcc_for(cuda_home) == 15


@pytest.mark.parametrize("text", [None, "nothing of the kind"])
def test_gives_no_limit_where_header_has_none(tmp_path: Path, text: str | None) -> None:
    header = tmp_path / "include" / "crt" / "host_config.h"
    if text is not None:
        header.parent.mkdir(parents=True)
        header.write_text(text)

    assert newest_gcc_for(tmp_path) is None


def test_finds_compilers_for_other_machines_by_their_triplet(machine: Path) -> None:
    write_compiler(machine, "g++", "14.3.0")
    write_compiler(machine, "aarch64-linux-gnu-g++", "12.2.0")
    write_compiler(machine, "aarch64-linux-gnu-g++-14", "14.3.0")

    found = find_host_compilers({"CXX": "g++"}, "aarch64-linux-gnu")

    assert [compiler.major for compiler in found] == [12, 14]
    assert found[0].cxx == machine / "aarch64-linux-gnu-g++"
