"""Module ids of translation units without an external symbol; the real cudafe++: test_canary."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT

_MAIN = """
import sys
from cuwheel.build.compile.launcher import module_id
sys.exit(module_id.main(sys.argv[1], sys.argv[3:], tuple(sys.argv[2].split())))
"""
# Writes the id, or prints the one that it finds; notes each call.
_CUDAFE = """#!/bin/sh
echo "$*" >> {folder}/calls
case "$*" in
*--gen_module_id_file*) printf {id} > {folder}/x.module_id ;;
esac
exit {status}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "x.cpp4.ii"
    path.write_text('# 1 "/home/me/x.cu"\nint a;\n')
    return path


def run(source: Path, written: str, *flags: str, status: int = 0) -> tuple[int, str, list[str]]:
    """Return exit status, id and command lines."""
    folder = source.parent
    program = folder / "cudafe++"
    program.write_text(_CUDAFE.format(folder=folder, id=written, status=status))
    program.chmod(0o755)
    place = folder / "x.module_id"
    argv = ["--gen_module_id_file", "--module_id_file_name", str(place), str(source)]
    # A process of its own, as in a build: it never closes its connection to the memory service.
    command = [sys.executable, "-c", _MAIN, str(program), " ".join(flags), *argv]
    ended = subprocess.run(command, cwd=ROOT, check=False).returncode
    return ended, place.read_text(), (folder / "calls").read_text().splitlines()


def test_replaces_an_id_with_a_process_id(source: Path) -> None:
    status, name, calls = run(source, "_4943d01b_5_k2_cu_804619c6_14670")

    assert status == 0
    assert name.startswith("_4943d01b_5_k2_cu_")
    assert "14670" not in name
    assert "--gen_module_id_file" not in calls[1]


def test_id_is_the_same_for_other_processes_and_folders(source: Path) -> None:
    first = run(source, "_4943d01b_5_k2_cu_804619c6_14670")[1]
    source.write_text(source.read_text().replace("/home/me", "/home/you"))

    assert run(source, "_4943d01b_5_k2_cu_39bdc22e_2")[1] == first


def test_other_content_has_another_id(source: Path) -> None:
    first = run(source, "_4943d01b_5_k2_cu_804619c6_14670")[1]
    source.write_text(source.read_text().replace("int a", "int b"))

    assert run(source, "_4943d01b_5_k2_cu_804619c6_14670")[1] != first


@pytest.mark.parametrize(
    ("written", "flags", "status"),
    [
        ("_81c2f8b8_4_k_cu_4536d6f1", (), 0),
        ("_81c2f8b8_4_k_cu__Z6launchPi", (), 0),
        ("_4943d01b_5_k2_cu_804619c6_14670", ("seed",), 0),
        ("_4943d01b_5_k2_cu_804619c6_14670", (), 2),
    ],
)
def test_leaves_every_other_id(
    source: Path, written: str, flags: tuple[str, ...], status: int
) -> None:
    ended, name, calls = run(source, written, *flags, status=status)

    assert (ended, name, len(calls)) == (status, written, 1)
