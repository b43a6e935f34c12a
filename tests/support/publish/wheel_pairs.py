"""Wheels that differ, compared."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuwheel.publish.rebuild.compare.differences import DifferenceData, WheelComparison
from cuwheel.publish.rebuild.compare.wheel import compare
from tests.support.factories import compile_library, write_wheel

TEXT = b"".join(b"line %d of a text that packs well\n" % number for number in range(400))
INFO = "tiny_cuda-1.2.3.dist-info"
HOST = """
#include <stdio.h>
#include <stdlib.h>
int choose(int n) { switch (n) { case 0: return 3; case 1: return 1; case 2: return 4;
  case 3: return 1; case 4: return 5; case 5: return 9; default: return rand(); } }
const char *names[] = {"one of them", "another one", FILE_NAME, "the last one"};
int fail(int n) { fprintf(stderr, "%s failed in %s\\n", names[n & 3], FILE_NAME); return FACTOR; }
int call(int n) { return fail(n) + choose(n); }
"""


def rewritten(
    wheel: Path,
    folder: Path,
    change: Callable[[zipfile.ZipInfo], object] = repr,
    *,
    level: int = 6,
    **archive: Any,
) -> Path:
    """The same wheel with something changed in the archive."""
    folder.mkdir(exist_ok=True)
    path = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(path, "w", compresslevel=level) as new:
        entries = archive.get("order", list)(old.infolist())
        new.comment = archive.get("comment", b"")
        for entry in entries:
            content = old.read(entry.filename)
            entry.compress_type = zipfile.ZIP_DEFLATED
            change(entry)
            new.writestr(entry, content, compresslevel=level)
    return path


def only_difference(comparison: WheelComparison) -> DifferenceData:
    """The one that there is."""
    (difference,) = comparison.differences
    return difference


def compare_host(
    tmp_path: Path, *flags: tuple[str, ...], code: str = HOST
) -> dict[str, list[DifferenceData]]:
    """What two libraries of one source and other flags differ in, by section."""
    source = tmp_path / "host.c"
    source.write_text(code)
    wheels = []
    for number, own in enumerate(flags):
        known = ('-DFILE_NAME="/a/x.c"', "-DFACTOR=7")
        library = compile_library(
            tmp_path / f"{number}.so", "gcc", "-fPIC", "-O1", *known, *own, source
        )
        wheels.append(write_wheel(tmp_path / str(number), {"pkg/lib.so": library}))
    result: dict[str, list[DifferenceData]] = {}
    for one in compare(*wheels).differences:
        if one.member == "pkg/lib.so":
            result.setdefault(one.section, []).append(one)
    return result


def by_member(comparison: WheelComparison) -> dict[str, DifferenceData]:
    """Each member's difference, where it has one."""
    return {one.member: one for one in comparison.differences}
