"""Tags of rare machines."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from cuwheel.check.pick.machine import TargetMachine
from cuwheel.check.pick.tags import fit_tags

MUSL = TargetMachine(python="3.12.4", platform="x86_64", is_here=True)
FREE = TargetMachine(python="3.14.0", is_free_threaded=True, platform="x86_64", glibc="2.39")


PYPY = TargetMachine(python="3.10.14", pypy_abi="pypy310_pp73", platform="x86_64", glibc="2.39")
OLD = TargetMachine(python="3.12", platform="x86_64", glibc="2.14")


@pytest.mark.parametrize(
    ("machine", "tags", "text"),
    [
        (PYPY, "cp310-cp310-any", "is for Python 3.10, this is PyPy 3.10 (pypy310_pp73)"),
        (PYPY, "cp39-abi3-any", "is for Python 3.9 or newer with GIL, this is PyPy 3.10"),
        (PYPY, "pp39-pypy39_pp73-any", "is for PyPy 3.9, this is PyPy 3.10"),
        (PYPY, "cp310-none-any", "is for Python 3.10, this is PyPy 3.10"),
        (
            FREE,
            "pp310-pypy310_pp73-any",
            "is for PyPy 3.10, this is Python 3.14 without GIL",
        ),
    ],
)
def test_wheels_of_cpython_and_pypy_do_not_fit_the_other(
    machine: TargetMachine, tags: str, text: str
) -> None:
    (reason,) = fit_tags(parse_tag(tags), machine).reasons

    assert text in reason.text


@pytest.mark.parametrize(
    ("machine", "tags", "kinds"),
    [
        (PYPY, "pp310-pypy310_pp73-manylinux_2_28_x86_64", []),
        (PYPY, "pp310-none-manylinux_2_28_x86_64", []),
        (PYPY, "pp3-none-any", []),
        (PYPY, "py3-none-manylinux_2_28_x86_64", []),
        (PYPY, "py3-none-any", []),
        (MUSL, "cp312-cp312-manylinux_2_17_x86_64", ["glibc"]),
        (MUSL, "py3-none-any", []),
        (FREE, "cp312-cp312-manylinux_2_39_x86_64.manylinux2014_x86_64", ["python"]),
        (FREE, "cp314-cp314t-manylinux_2_40_x86_64.manylinux2014_x86_64", []),
        (FREE, "cp312-abi3-manylinux_2_28_x86_64", ["abi"]),
        (FREE, "cp314-cp314-manylinux_2_28_x86_64", ["abi"]),
        (FREE, "py3-none-manylinux_2_28_x86_64", []),
        (OLD, "py3-none-manylinux2010_x86_64", []),
        (OLD, "py3-none-manylinux2014_x86_64", ["glibc"]),
    ],
)
def test_names_kinds_of_reasons_against_the_best_tag(
    machine: TargetMachine, tags: str, kinds: list[str]
) -> None:
    assert [reason.kind for reason in fit_tags(parse_tag(tags), machine).reasons] == kinds
