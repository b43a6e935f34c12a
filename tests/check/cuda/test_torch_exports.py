"""The table of PyTorch's exports."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from cuwheel.check.cuda.torch_exports import (
    is_judged,
    is_kept,
    minor_of,
    pack,
    torch_exports,
    unpack,
)

_CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_"


@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        ("ib", "2.0", "2.9"),
        ("jb", "2.10", "2.13"),
        ("jbPNS0_19CUDAErrorLogCaptureE", "2.14", "2.15"),
    ],
)
def test_knows_releases_with_each_check(arguments: str, first: str, last: str) -> None:
    """Every CUDA extension calls this function, which has had three lists of arguments."""
    releases = torch_exports().releases_with(_CHECK + arguments)

    assert (minor_of(releases[0]), minor_of(releases[-1])) == (first, last)


def test_has_names_of_every_release() -> None:
    table = torch_exports()

    assert table.releases_with("_ZN2at7Context6hasMKLEv") == table.releases
    assert table.releases_with("_ZN2at7Context6hasNotEv") == ()
    assert len(table.releases) >= 16


@pytest.mark.parametrize(
    ("specifier", "first"),
    [(">=2.14", "2.14"), ("==2.15.*", "2.15"), (">2.14.0", "2.14"), ("", "2.0")],
)
def test_returns_allowed_releases(specifier: str, first: str) -> None:
    assert minor_of(torch_exports().allowed_by(SpecifierSet(specifier))[0]) == first


@pytest.mark.parametrize(
    ("name", "judged", "kept"),
    [
        ("_ZN3c105ErrorC1ESsSsPKv", True, True),
        ("_Z16THPVariable_WrapN2at6TensorE", True, True),
        ("_ZN2at6native3addEv", False, False),
        ("_ZNSt6vectorIN2at6TensorESaIS1_EED1Ev", False, False),
        ("aoti_torch_zeros", False, True),
    ],
)
def test_classifies_names(name: str, *, judged: bool, kept: bool) -> None:
    assert (is_judged(name), is_kept(name)) == (judged, kept)


def test_knows_which_string_a_release_has() -> None:
    """Wheels of the index have the new one since 2.7."""
    table = torch_exports()

    releases = [minor_of(release) for release in table.releases if table.has_new_strings(release)]

    assert releases[0] == "2.7"
    assert len(releases) == len(table.releases) - 7


@pytest.mark.parametrize(
    ("name", "returns_it"),
    [("_ZNK3c106Device3strEv", True), ("_ZN2at7Context6hasMKLEv", False)],
)
def test_knows_functions_that_return_the_new_string(name: str, *, returns_it: bool) -> None:
    assert torch_exports().returns_new_string(name) is returns_it


def test_unpacks_packed_table() -> None:
    exported = {f"2.{minor}.0": {f"n{minor}", "all"} for minor in range(9)}

    table = unpack(pack(exported))

    assert table.releases == tuple(exported)
    assert table.releases_with("all") == tuple(exported)
    assert all(table.releases_with(f"n{minor}") == (f"2.{minor}.0",) for minor in range(9))
