"""The table at the end of a build, and the record from which the next run shows it again."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rich.console
import rich.markup
import rich.table
from rich.cells import cell_len

from cuwheel.model.platform import PLATFORMS
from cuwheel.paths import shown_path
from cuwheel.system.output import github
from cuwheel.system.quantities import describe_durations, plural, show_size
from cuwheel.system.regular_files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.system.console import Console

_NAMES = 13  # columns of a terminal for the names of the rows, with what keeps them from the values
_COPIED = frozenset({"wheel", "sha256", "next"})


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary of a finished wheel.

    Attributes:
        wheel: file name.
        size: bytes.
        sha256: of the file.
        archs: compute capabilities of its machine code.
        ptx_archs: compute capabilities of its PTX.
        platform_tag: e.g. `manylinux_2_34_x86_64`.
        external: soname and supplier of each external library.
        bundled: file and bytes of each library that was copied in.
        durations: stage and seconds, in order, without stages kept from an earlier run; empty if
            there was nothing to do.
        peak_memory: bytes, of the build stage.
        cache: what the compile cache did, in words; empty without one.
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


def summary_in(dist: Path) -> dict[str, Any]:
    """What is recorded of the one wheel that was published into a folder, as JSON has it.

    Args:
        dist: the folder; beside the record of a target the index keeps its own.
    """
    records = (read_json(path) or {} for path in (dist / ".cuwheel").glob("*.json"))
    [summary] = (record["summary"] for record in records if "summary" in record)
    return dict(summary)


def print_summary(summary: Summary, dist: Path, console: Console) -> None:
    """Print what a person wants to copy; all of it where the console is verbose.

    In GitHub Actions it is the step's summary too.

    Args:
        summary: of the wheel.
        dist: the folder that it lies in.
        console: where to.
    """
    github.add_to_summary(github.table(dict(_rows(summary, dist, is_verbose=False))), os.environ)
    if console.is_quiet:
        return
    console.terminal.print()
    for name, value in _rows(summary, dist, is_verbose=console.is_verbose):
        _print_row(name, value, console.terminal)


def _print_row(name: str, value: str, terminal: rich.console.Console) -> None:
    """A row of the table; what is to be copied is never broken into lines."""
    if name in _COPIED and _NAMES + cell_len(value) > terminal.width:
        terminal.print(f"[bold]{name}[/]")
        terminal.print(value, markup=False, soft_wrap=True)
        return
    row = rich.table.Table.grid()
    row.add_column(width=_NAMES)
    row.add_column(overflow="fold")
    row.add_row(f"[bold]{name}[/]", rich.markup.escape(value))
    terminal.print(row)


def _rows(summary: Summary, dist: Path, *, is_verbose: bool) -> Iterator[tuple[str, str]]:
    archs = [f"sm_{arch}" for arch in summary.archs]
    archs += [f"compute_{arch} (PTX)" for arch in summary.ptx_archs]
    wheel = shown_path(dist / summary.wheel)
    yield "wheel", wheel
    if not summary.durations:  # nothing was done, so there is nothing to tell of it
        yield "sha256", summary.sha256
        yield "next", _install_command(wheel, summary)
        return
    yield "size", f"{show_size(summary.size)} ({summary.size} bytes)"
    yield "sha256", summary.sha256
    yield "archs", " ".join(archs) or "no device code"
    yield "platform", summary.platform_tag
    if is_verbose:
        yield from _named_first("external", [f"{name} from {by}" for name, by in summary.external])
    elif summary.external:
        projects = dict.fromkeys(by.partition(" ")[0] for _, by in summary.external)
        yield "external", f"{plural(len(summary.external), 'library')} from {', '.join(projects)}"
    bundled = [f"{name}, {show_size(size)} unpacked" for name, size in summary.bundled]
    yield from _named_first("bundled", bundled)
    if is_verbose:
        stages = [f"{name:<12}{seconds:8.1f} s" for name, seconds in summary.durations]
        yield from _named_first("stages", stages)
    yield "time", describe_durations(dict(summary.durations))
    yield "peak memory", f"{show_size(summary.peak_memory)} in the build stage"
    if summary.cache:
        yield "cache", summary.cache
    yield "next", _install_command(wheel, summary)


def _install_command(path: str, summary: Summary) -> str:
    others = (one.machine for one in PLATFORMS.values() if one.is_foreign)
    if machine := next((one for one in others if summary.platform_tag.endswith(one)), ""):
        return f"on a machine with {machine}: pip install {shlex.quote(summary.wheel)}"
    return f"pip install {shlex.quote(path)}"


def _named_first(name: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    for position, value in enumerate(values):
        yield ("" if position else name), value
