"""The same rules for arm64, with a cross compiler's libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.packages.defective_wheels import (
    MEMBER,
    audited,
    files_breaches,
    library_breaches,
)
from tests.support.packages.foreign_platform import compile_arm64

TAG = "py3-none-manylinux_2_28_aarch64"
_GUARDED = """
#include <string.h>
int f(const char *from) { char to[64]; strcpy(to, from); return to[3]; }
"""


def test_finds_nothing_in_sound_library(tmp_path: Path) -> None:
    """With a stack protector: its guard is in the loader itself on arm64."""
    flags = ("-fstack-protector-all", "-O1")
    library = compile_arm64(tmp_path / "libtiny.so", *flags, code=_GUARDED)

    assert files_breaches(tmp_path, {MEMBER: library}, tag=TAG) == []


@pytest.mark.parametrize("tag", [TAG, "py3-none-linux_aarch64"])
def test_refuses_library_for_x86_64(tmp_path: Path, tag: str) -> None:
    assert ("error", "platform tag", MEMBER) in library_breaches(tmp_path, tag=tag)


def test_refuses_library_for_arm64_in_wheel_for_x86_64(tmp_path: Path) -> None:
    library = compile_arm64(tmp_path / "libtiny.so")

    assert ("error", "platform tag", MEMBER) in files_breaches(tmp_path, {MEMBER: library})


def test_finds_module_that_no_python_imports(tmp_path: Path) -> None:
    """As from a cross build by a Python with the settings of its own machine."""
    library = compile_arm64(tmp_path / "libtiny.so", code="void *PyInit_ext(void) { return 0; }\n")
    member = "pkg/ext.cpython-311-x86_64-linux-gnu.so"

    findings = files_breaches(tmp_path, {member: library}, tag="cp311-cp311-linux_aarch64")

    assert ("error", "library", member) in findings


def test_finds_symbols_of_newer_systems(tmp_path: Path) -> None:
    """`dlopen` is in libc.so.6 itself since glibc 2.34."""
    code = "void *dlopen(const char *, int); void *f(void) { return dlopen(0, 1); }\n"
    library = compile_arm64(tmp_path / "libtiny.so", code=code)

    result = audited(tmp_path, {MEMBER: library}, tag=TAG)

    [finding] = [item for item in result.findings if "GLIBC_2.34" in item.fact]
    assert finding.rule == "platform tag"
    assert finding.fact.endswith("manylinux_2_34_aarch64 does")


def test_finds_library_for_small_pages(tmp_path: Path) -> None:
    library = compile_arm64(tmp_path / "libtiny.so", "-Wl,-z,max-page-size=4096")

    findings = files_breaches(tmp_path, {MEMBER: library}, tag=TAG)

    assert findings == [("warning", "page size", MEMBER)]


def test_small_pages_pass_on_x86_64(tmp_path: Path) -> None:
    assert library_breaches(tmp_path, flags=("-Wl,-z,max-page-size=4096",)) == []


def test_finds_symbol_that_pytorch_lacks(tmp_path: Path) -> None:
    """PyTorch exports the same names on both machines."""
    name = "_ZN2at7Context8neverWasEv"
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"
    torch = compile_arm64(tmp_path / "libtorch_cpu.so", "-Wl,-soname,libtorch_cpu.so")
    flags = ("-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", torch)
    library = compile_arm64(tmp_path / "libtiny.so", *flags, code=code)

    result = audited(tmp_path, {MEMBER: library}, tag=TAG, requires=("torch==2.11.*",))

    [finding] = [item for item in result.findings if item.rule == "framework ABI"]
    assert "at::Context::neverWas" in finding.fact
