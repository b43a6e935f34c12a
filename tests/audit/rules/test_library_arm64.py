"""The same rules for arm64, whose libraries a cross compiler makes here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.foreign import compile_arm64
from tests.support.planted import MEMBER, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path

TAG = "py3-none-manylinux_2_28_aarch64"
_GUARDED = """
#include <string.h>
int f(const char *from) { char to[64]; strcpy(to, from); return to[3]; }
"""


def test_finds_nothing_in_sound_library(tmp_path: Path) -> None:
    """With a stack protector, whose guard the loader itself has on arm64."""
    flags = ("-fstack-protector-all", "-O1")
    library = compile_arm64(tmp_path / "libtiny.so", *flags, code=_GUARDED)

    assert told(judged(tmp_path, {MEMBER: library}, tag=TAG)) == []


@pytest.mark.parametrize("tag", [TAG, "py3-none-linux_aarch64"])
def test_refuses_library_for_x86_64(tmp_path: Path, tag: str) -> None:
    library = make_library(tmp_path / "made")

    found = told(judged(tmp_path, {MEMBER: library}, tag=tag))

    fact = f"it is for EM_X86_64, the tag is {tag.rsplit('-', maxsplit=1)[-1]}"
    assert f"error: {MEMBER}: platform tag: {fact}" in found


def test_refuses_library_for_arm64_in_wheel_for_x86_64(tmp_path: Path) -> None:
    library = compile_arm64(tmp_path / "libtiny.so")

    found = told(judged(tmp_path, {MEMBER: library}))

    fact = "it is for EM_AARCH64, the tag is manylinux_2_39_x86_64"
    assert f"error: {MEMBER}: platform tag: {fact}" in found


def test_finds_module_that_no_python_imports(tmp_path: Path) -> None:
    """Built here by a Python whose settings are this machine's."""
    library = compile_arm64(tmp_path / "libtiny.so", code="void *PyInit_ext(void) { return 0; }\n")
    member = "pkg/ext.cpython-311-x86_64-linux-gnu.so"

    found = told(judged(tmp_path, {member: library}, tag="cp311-cp311-linux_aarch64"))

    fact = "its name says x86_64-linux-gnu, but it is for EM_AARCH64: no Python can import it"
    assert f"error: {member}: library: {fact}" in found


def test_finds_symbols_of_newer_systems(tmp_path: Path) -> None:
    """`dlopen` is in libc.so.6 itself since glibc 2.34."""
    code = "void *dlopen(const char *, int); void *f(void) { return dlopen(0, 1); }\n"
    library = compile_arm64(tmp_path / "libtiny.so", code=code)

    found = told(judged(tmp_path, {MEMBER: library}, tag=TAG))

    fact = "it needs GLIBC_2.34 of libc.so.6, which manylinux_2_28_aarch64 doesn't guarantee"
    assert f"error: {MEMBER}: platform tag: {fact}; manylinux_2_34_aarch64 does" in found


def test_finds_library_for_small_pages(tmp_path: Path) -> None:
    library = compile_arm64(tmp_path / "libtiny.so", "-Wl,-z,max-page-size=4096")

    found = told(judged(tmp_path, {MEMBER: library}, tag=TAG))

    fact = "its segments are aligned to 4.0 KiB: systems with pages of 64.0 KiB don't load it"
    assert found == [f"warning: {MEMBER}: page size: {fact}"]


def test_takes_small_pages_on_x86_64(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", flags=("-Wl,-z,max-page-size=4096",))

    assert told(judged(tmp_path, {MEMBER: library})) == []


def test_finds_symbol_that_pytorch_lacks(tmp_path: Path) -> None:
    """What PyTorch exports is the same on both kinds of machines."""
    name = "_ZN2at7Context8neverWasEv"
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"
    torch = compile_arm64(tmp_path / "libtorch_cpu.so", "-Wl,-soname,libtorch_cpu.so")
    flags = ("-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", torch)
    library = compile_arm64(tmp_path / "libtiny.so", *flags, code=code)

    found = told(judged(tmp_path, {MEMBER: library}, tag=TAG, requires=("torch==2.11.*",)))

    (line,) = (line for line in found if "framework ABI" in line)
    assert "at::Context::neverWas" in line
    assert "which torch 2.11 lacks" in line
