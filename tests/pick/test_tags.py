"""Tags that few machines meet."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from cuwheel.pick.machine import TargetMachine
from cuwheel.pick.tags import fit_tags

MUSL = TargetMachine(python="3.12.4", platform="x86_64", is_here=True)
FREE = TargetMachine(python="3.14.0", is_free_threaded=True, platform="x86_64", glibc="2.39")


def kinds(tags: str, machine: TargetMachine) -> list[str]:
    return [one.kind for one in fit_tags(parse_tag(tags), machine).reasons]


PYPY = TargetMachine(python="3.10.14", pypy_abi="pypy310_pp73", platform="x86_64", glibc="2.39")


@pytest.mark.parametrize(
    "tags",
    [
        "pp310-pypy310_pp73-manylinux_2_28_x86_64",
        "pp310-none-manylinux_2_28_x86_64",
        "pp3-none-any",
        "py3-none-manylinux_2_28_x86_64",
        "py3-none-any",
    ],
)
def test_pypy_takes_its_own_wheels_and_those_of_any_python(tags: str) -> None:
    assert kinds(tags, PYPY) == []


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("cp310-cp310-any", "is for Python 3.10, this is PyPy 3.10 (pypy310_pp73)"),
        ("cp39-abi3-any", "is for Python 3.9 or newer with GIL, this is PyPy 3.10"),
        ("pp39-pypy39_pp73-any", "is for PyPy 3.9, this is PyPy 3.10"),
        ("cp310-none-any", "is for Python 3.10 or newer, this is PyPy 3.10"),
    ],
)
def test_pypy_takes_none_of_cpythons(tags: str, said: str) -> None:
    (reason,) = fit_tags(parse_tag(tags), PYPY).reasons

    assert said in reason.text


def test_cpython_takes_none_of_pypys() -> None:
    (reason,) = fit_tags(parse_tag("pp310-pypy310_pp73-any"), FREE).reasons

    assert "is for PyPy 3.10, this is Python 3.14 without GIL (cp314t)" in reason.text


def test_no_manylinux_fits_system_with_another_c_library() -> None:
    assert kinds("cp312-cp312-manylinux_2_17_x86_64", MUSL) == ["glibc"]
    assert kinds("py3-none-any", MUSL) == []


def test_takes_best_of_several_tags() -> None:
    assert kinds("cp312-cp312-manylinux_2_39_x86_64.manylinux2014_x86_64", FREE) == ["python"]
    assert kinds("cp314-cp314t-manylinux_2_40_x86_64.manylinux2014_x86_64", FREE) == []


def test_stable_abi_is_none_of_free_threaded_python() -> None:
    assert kinds("cp312-abi3-manylinux_2_28_x86_64", FREE) == ["abi"]
    assert kinds("cp314-cp314-manylinux_2_28_x86_64", FREE) == ["abi"]
    assert kinds("py3-none-manylinux_2_28_x86_64", FREE) == []


def test_old_names_of_manylinux_are_glibcs() -> None:
    old = TargetMachine(python="3.12", platform="x86_64", glibc="2.14")

    assert kinds("py3-none-manylinux2010_x86_64", old) == []
    assert kinds("py3-none-manylinux2014_x86_64", old) == ["glibc"]
