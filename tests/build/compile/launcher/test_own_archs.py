"""nvcc's list of commands for some archs: the others are there, and aren't run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.compile.launcher import own_archs

# As nvcc 13.0 prints it, without options that matter nowhere here.
_LIST = """\
#$ _SPACE_=
#$ CICC_PATH=/cuda/nvvm/bin
#$ gcc -D__CUDA_ARCH_LIST__=800,900 -E -x c++ -D__CUDACC__ "a b.cu" -o "/t/a b.cpp4.ii"
#$ cudafe++ --gen_c_file_name "a b.compute_90a.cudafe1.cpp" "a b.cpp4.ii"
#$ gcc -D__CUDA_ARCH__=800 -D__CUDA_ARCH_LIST__=800,900 -E "a b.cu" -o "a b.compute_80.cpp1.ii"
#$ "$CICC_PATH/cicc" -arch compute_80 -m64 "a b.compute_80.cpp1.ii" -o "a b.compute_80.ptx"
#$ ptxas -arch=sm_80 -m64 "a b.compute_80.ptx" -o "a b.compute_80.cubin"
#$ gcc -D__CUDA_ARCH__=900 -D__CUDA_ARCH_LIST__=800,900 -E "a b.cu" -o "a b.compute_90a.cpp1.ii"
#$ "$CICC_PATH/cicc" -arch=compute_90a -m64 "a b.compute_90a.cpp1.ii" -o "a b.compute_90a.ptx"
#$ ptxas -arch=sm_90a -m64 "a b.compute_90a.ptx" -o "a b.compute_90a.cubin"
#$ fatbinary --create="a b.fatbin" "--image3=kind=elf,sm=80,file=a b.compute_80.cubin"
#$ gcc -D__CUDA_ARCH__=900 -c -x c++ "a b.compute_90a.cudafe1.cpp" -o "a.o"
"""
_COMMON = {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("archs", "kept"),
    [(["80"], {4, 5, 6}), (["90a"], {7, 8, 9}), (["80", "90a"], {4, 5, 6, 7, 8, 9})],
)
def test_keeps_the_commands_of_its_archs(archs: list[str], kept: set[int]) -> None:
    before, after = _LIST.splitlines(), own_archs.own_commands(_LIST, archs, "/nvcc").splitlines()

    assert len(before) == len(after)
    for number, (line, same) in enumerate(zip(before, after, strict=True)):
        words = shlex.split(same[3:])
        assert (line == same) == (number in _COMMON | kept)
        assert line == same or (words[0] == "/nvcc" and not any(word[0] == "-" for word in words))


def test_names_the_files_of_a_compile_in_the_same_order() -> None:
    """sccache numbers them in this order."""
    ends = (".cpp1.ii", ".cpp4.ii", ".cudafe1.cpp")

    def named(text: str) -> list[str]:
        words = shlex.split(text, comments=False)
        return list(dict.fromkeys(word for word in words if word.endswith(ends)))

    assert named(own_archs.own_commands(_LIST, ["90a"], "/nvcc")) == named(_LIST)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["--dryrun", "-c", "a.cu"], "#$ /nvcc"),
        (["--version"], "asked --version"),
        (["-E", "a.cu"], "asked -E a.cu"),
        (["-c", "a.cu"], own_archs.LEFT),
    ],
    ids=["list", "version", "preprocess", "compile"],
)
def test_asks_nvcc(arguments: list[str], output: str, tmp_path: Path) -> None:
    """A compile that sccache doesn't take apart is none of a share."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text('#!/bin/sh\n[ "$1" = --dryrun ] || exec echo asked "$@"\n')
    with nvcc.open("a") as script:
        script.write("echo '#$ fatbinary --create=a' >&2\n")
    nvcc.chmod(0o755)
    program = "import sys; from cuwheel.build.compile.launcher import own_archs"
    program += f"; sys.exit(own_archs.main(sys.argv[1:], {str(nvcc)!r}))"

    done = run(["python3", "-c", program, *arguments], env={**os.environ, own_archs.VARIABLE: "80"})

    assert done.output.replace(str(nvcc), "/nvcc").strip() == output
