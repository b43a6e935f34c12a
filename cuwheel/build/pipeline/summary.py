"""The summary of a build: the table at its end, and the record by which the next build knows it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich.console
import rich.markup
import rich.table
from rich.cells import cell_len

from cuwheel.base.system.console import Console
from cuwheel.base.system.output import github
from cuwheel.base.system.quantities import describe_durations, plural, show_size
from cuwheel.base.system.regular_files import read_json
from cuwheel.build.recipe.platform import PLATFORMS
from cuwheel.build.workspace.records import Audit, BuiltWheel, RepairedWheel
from cuwheel.build.workspace.workspace import Workspace

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
        durations: stage and seconds, in order, without stages kept from an earlier run; empty if
            there was nothing to do.
        peak_memory: bytes, of the build stage.
        bundled: file and bytes of each library that was copied in.
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


def summary_of(workspace: Workspace) -> Summary:
    """Summarise a finished build by the records of its stages."""
    wheel = workspace.load("repair", RepairedWheel)
    audit = workspace.load("audit", Audit)
    built = workspace.load("build", BuiltWheel)
    cache = ""
    if built.cache:
        cache = f"{built.cache}: {built.hits} of {built.compiles} compiles were in it"
    for count, source in (
        (built.shared, "a build for another platform"),
        (built.reused, "earlier compiles"),
    ):
        if cache and count:
            cache += f"; {plural(count, 'step')} of device code taken from {source}"
    suppliers = {soname: by for _, soname, by in audit.suppliers if soname in wheel.external}
    return Summary(
        wheel=wheel.path.name,
        size=wheel.size,
        sha256=wheel.sha256,
        archs=audit.archs,
        ptx_archs=audit.ptx_archs,
        platform_tag=wheel.platform_tag,
        external=tuple(sorted(suppliers.items())),
        bundled=wheel.bundled,
        durations=tuple(workspace.console.durations.items()),
        peak_memory=built.peak_memory,
        cache=cache,
    )


def summary_in(dist: Path) -> dict[str, Any]:
    """Return the recorded summary of the one wheel that was published into a folder, as JSON."""
    records = (read_json(path) or {} for path in (dist / ".cuwheel").glob("*.json"))
    [summary] = (record["summary"] for record in records if "summary" in record)
    return dict(summary)


def print_summary(summary: Summary, dist: Path, console: Console) -> None:
    """Print a summary, long where the console is verbose; in GitHub Actions in the step's too.

    Args:
        dist: as it is to be shown.
    """
    console.add_to_summary(github.table(dict(_rows(summary, dist, is_verbose=False))))
    if console.is_quiet:
        return
    console.terminal.print()
    for name, value in _rows(summary, dist, is_verbose=console.is_verbose):
        _print_row(name, value, console.terminal)


def _print_row(name: str, value: str, terminal: rich.console.Console) -> None:
    """Print a row of the table; values to be copied are never broken into lines."""
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
    wheel = str(dist / summary.wheel)
    yield "wheel", wheel
    if not summary.durations:  # nothing was done
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
    for platform in PLATFORMS.values():
        if platform.is_foreign and summary.platform_tag.endswith(platform.machine):
            return f"on a machine with {platform.machine}: pip install {shlex.quote(summary.wheel)}"
    return f"pip install {shlex.quote(path)}"


def _named_first(name: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    for position, value in enumerate(values):
        yield ("" if position else name), value
