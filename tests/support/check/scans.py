"""Wheels with one file in them, scanned."""

from __future__ import annotations

import struct
from pathlib import Path

from cuwheel.check.audit.scan import WheelScan, scan_wheel
from tests.support.factories import compile_library, write_wheel

PRIVATE = "/private/work"
MIB = 1 << 20


def scan_file(tmp_path: Path, content: bytes, name: str = "pkg/data.bin") -> WheelScan:
    """Scan a wheel with this file; `PRIVATE` is a private path."""
    wheel = write_wheel(tmp_path / "wheel", {name: content})
    return scan_wheel(wheel, private_paths=(PRIVATE, f"{PRIVATE}/src", "/"))


def library_with(folder: Path, text: str) -> bytes:
    """Return a library that contains a text."""
    source = folder / "text.c"
    source.write_text(f'const char *text(void) {{ return "{text}"; }}\n')
    return compile_library(folder / "text.so", "gcc", "-fPIC", source).read_bytes()


def begin_fatbin(arch: int, size: int, flags: int = 0x2011, kind: int = 2) -> bytes:
    """The headers of a fat binary with code for one arch, which follows, compressed."""
    element = struct.pack("<HHIQ8xHHI8xQ", kind, 0x101, 64, size, 0, 0, arch, flags).ljust(
        64, b"\0"
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(element) + size) + element
