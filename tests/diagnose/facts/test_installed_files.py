"""The files of a distribution beside its RECORD."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts.environment import Distribution
from cuwheel.diagnose.facts.installed_files import (
    find_damaged_libraries,
    modules_of,
    verify_files,
)
from cuwheel.wheel.archive import unpack_wheel
from tests.support.factories import compile_library, write_wheel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def library(module_path: Path) -> bytes:
    source = module_path / "ext.c"
    source.write_text("int ext;\n")
    return compile_library(module_path / "ext.so", "gcc", "-fPIC", source).read_bytes()


@pytest.fixture
def installed(tmp_path: Path, library: bytes) -> Distribution:
    files = {"ext/__init__.py": b"x = 1\n", "ext/lib/a.so": library, "tests/__init__.py": b""}
    unpack_wheel(write_wheel(tmp_path / "wheels", files, name="ext"), tmp_path / "site")
    return Distribution(
        name="ext",
        version="1.2.3",
        site=tmp_path / "site",
        metadata=tmp_path / "site" / "ext-1.2.3.dist-info",
        requires=(),
        libraries=(tmp_path / "site" / "ext" / "lib" / "a.so",),
    )


def test_finds_nothing_in_whole_distribution(installed: Distribution) -> None:
    assert find_damaged_libraries(installed) == ()
    assert verify_files(installed) == ()


def test_knows_what_it_is_imported_by(installed: Distribution) -> None:
    assert modules_of(installed) == ("ext",)


@pytest.mark.parametrize(
    ("size", "what", "is_damage"),
    [
        (0, "has 0 bytes, in its wheel it has", True),
        (1000, "has 1000 bytes, in its wheel it has", True),
        (10**6, "has 1000000 bytes, in its wheel it has", False),
        (None, "isn't there", True),
    ],
)
def test_names_library_of_other_size(
    installed: Distribution, library: bytes, size: int | None, what: str, *, is_damage: bool
) -> None:
    [path] = installed.libraries
    if size is None:
        path.unlink()
    else:
        path.write_bytes(library[:size].ljust(size, b"+"))

    [found] = find_damaged_libraries(installed)

    assert what in found.what
    assert found.is_damage is is_damage


def test_names_zeroed_library(installed: Distribution, library: bytes) -> None:
    installed.libraries[0].write_bytes(bytes(len(library)))

    assert [one.what for one in find_damaged_libraries(installed)] == ["starts with zero bytes"]


@pytest.mark.parametrize(
    ("file", "content", "is_damage"),
    [
        ("ext/__init__.py", b"x = 2\n", False),
        ("ext/__init__.py", b"", True),
        ("ext/__init__.py", b"x\0\0\0\0\n", True),
        ("ext/lib/a.so", None, True),
    ],
)
def test_verifies_hashes(
    installed: Distribution, file: str, content: bytes | None, *, is_damage: bool
) -> None:
    path = installed.site / file
    there = path.read_bytes()
    path.write_bytes(there[:-8] + b"+" * 8 if content is None else content)

    [found] = verify_files(installed)

    assert found.what == "differs from the file in its wheel"
    assert found.is_damage is is_damage


def test_says_nothing_of_what_keeps_no_record(installed: Distribution) -> None:
    (installed.metadata / "RECORD").unlink()

    assert (verify_files(installed), find_damaged_libraries(installed)) == ((), ())


def test_holds_what_conda_has_edited_against_no_hash(installed: Distribution) -> None:
    (installed.metadata / "INSTALLER").write_text("conda\n")
    path = installed.libraries[0]
    path.write_bytes(path.read_bytes() + b"another rpath")

    assert (verify_files(installed), find_damaged_libraries(installed)) == ((), ())
