"""The table at the end of a build, and the record from which the next run shows it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import rich.table

from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from cuwheel.system.console import Console


_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a person wants to know about a finished wheel.

    Attributes:
        wheel: file name.
        size: bytes.
        sha256: of the file.
        archs: compute capabilities of its machine code.
        ptx_archs: compute capabilities of its PTX.
        platform_tag: e.g. `manylinux_2_34_x86_64`.
        external: soname and who supplies it.
        bundled: file and bytes of each library that was copied in.
        durations: stage and seconds, in order; stages kept from an earlier run are left out.
        peak_memory: bytes, of the build stage.
        cache: what the compile cache did, in words; empty where there was none.
    """

    wheel: str
    size: int
    sha256: str
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    platform_tag: str
    external: tuple[tuple[str, str], ...]
    durations: tuple[tuple[str, float], ...]
    peak_memory: int
    bundled: tuple[tuple[str, int], ...] = ()
    cache: str = ""


def print_summary(summary: Summary, console: Console) -> None:
    """Print the table."""
    table = rich.table.Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")  # a name or a hash that is cut off can't be copied
    for name, value in _rows(summary):
        table.add_row(f"[bold]{name}[/]", rich.markup.escape(value))
    console.terminal.print()
    console.terminal.print(table)


def _rows(summary: Summary) -> list[tuple[str, str]]:
    archs = [f"sm_{arch}" for arch in summary.archs]
    archs += [f"compute_{arch} (PTX)" for arch in summary.ptx_archs]
    total = sum(seconds for _, seconds in summary.durations)
    rows = [
        ("wheel", summary.wheel),
        ("size", f"{show_size(summary.size)} ({summary.size} bytes)"),
        ("sha256", summary.sha256),
        ("archs", " ".join(archs) or "no device code"),
        ("platform", summary.platform_tag),
    ]
    rows += [
        ("external" if first else "", f"{soname} from {supplier}")
        for first, (soname, supplier) in _marked(summary.external)
    ]
    rows += [
        ("bundled" if first else "", f"{name}, {show_size(size)} unpacked")
        for first, (name, size) in _marked(summary.bundled)
    ]
    rows += [
        ("stages" if first else "", f"{name:<12}{seconds:8.1f} s")
        for first, (name, seconds) in _marked(summary.durations)
    ]
    return [
        *rows,
        ("", f"{'together':<12}{total:8.1f} s"),
        ("peak memory", f"{show_size(summary.peak_memory)} in the build stage"),
        *([("cache", summary.cache)] if summary.cache else []),
    ]


def _marked(items: tuple[tuple[str, _Value], ...]) -> list[tuple[bool, tuple[str, _Value]]]:
    return [(position == 0, item) for position, item in enumerate(items)]
