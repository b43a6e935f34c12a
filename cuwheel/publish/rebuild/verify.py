"""The session `verify`: a wheel built in several ways, and the differences of their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import rich.console
import rich.table

from cuwheel.base.errors import NotReproducibleError
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.output.documents import Schema, as_file
from cuwheel.publish.rebuild.builds import BuiltAgain, Variation, rebuild
from cuwheel.publish.rebuild.compare.differences import WheelComparison
from cuwheel.publish.rebuild.compare.report import (
    difference_lines,
    keep_diffoscope,
    print_comparison,
)
from cuwheel.publish.rebuild.compare.wheel import compare
from cuwheel.publish.rebuild.published import PublishedWheel, read_published

BytesState = Literal["the same bytes", "other bytes"]
_SHA256_SHOWN = 16  # characters of a hash in the table


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A folder that stays.

    Attributes:
        path: of the folder.
        size: bytes that are free once it is removed; a file with a name elsewhere, such as a hard
            link into the cache, frees nothing.
    """

    path: Path
    size: int


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What `verify --json` prints, a line for each target.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        state: whether all builds gave the same.
        builds: all of them; the first is what the others are compared with.
        unequal: names of those that gave other bytes.
        causes: the known causes of what differs, in words; of unknown ones it says so.
        left: what stays on disk, the largest first.
    """

    SCHEMA: ClassVar[Schema] = Schema("verify", "1.0")

    target: str = ""
    state: BytesState = field(init=False)
    builds: tuple[BuiltAgain, ...]
    unequal: tuple[str, ...]
    causes: tuple[str, ...]
    left: tuple[Leftover, ...] = ()

    def __post_init__(self) -> None:
        """Derive the state from the builds that gave other bytes."""
        state: BytesState = "other bytes" if self.unequal else "the same bytes"
        object.__setattr__(self, "state", state)


def verify(
    command: Sequence[str],
    ways: Sequence[Variation],
    folder: Path,
    console: Console,
    out: rich.console.Console,
) -> Verified:
    """Build in several ways, by options of the `build` command, and compare the wheels."""
    builds = []
    for how in ways:
        with console.stage(how.name):
            console.note(how.description)
            builds.append(rebuild(command, how, console))
    first = builds[0]
    unequal = [build for build in builds if build.sha256 != first.sha256]
    if console.is_quiet:
        same = "other bytes" if unequal else "the same bytes"
        out.print(f"{same}: sha256 {first.sha256}", soft_wrap=True, highlight=False)
    else:
        out.print(_table(builds, is_verbose=console.is_verbose))
    causes = [
        cause
        for build in unequal
        for cause in causes_of(compare_wheels(first.wheel, build.wheel, folder / build.name, out))
    ]
    return Verified(
        builds=tuple(builds),
        unequal=tuple(build.name for build in unequal),
        causes=tuple(dict.fromkeys(causes)),
    )


def compare_wheels(a: Path, b: Path, folder: Path, out: rich.console.Console) -> WheelComparison:
    """Compare two wheels, print the differences, and keep the report in a folder."""
    comparison = compare(a, b)
    print_comparison(comparison, out)
    write_atomically(folder / "comparison.json", as_file(comparison))
    out.print(f"kept in {folder / 'comparison.json'}", soft_wrap=True, highlight=False)
    out.print(keep_diffoscope(a, b, folder), soft_wrap=True, highlight=False)
    return comparison


def causes_of(comparison: WheelComparison) -> Iterator[str]:
    """Yield the causes why two wheels differ, in words, and the number of unknown ones."""
    # What only follows from another difference has no remedy of its own.
    yield from (cause.text for cause in comparison.causes.values() if cause.remedy)
    if comparison.unexplained:
        yield f"{comparison.unexplained} differences of unknown cause"


@dataclass(frozen=True, kw_only=True)
class VerifiedAgainst:
    """The result of a comparison with a published wheel.

    Attributes:
        causes: the known causes of what differs, in words; empty where only the hash is known.
        differences: members and kernels in which they differ; empty where only the hash is known.
    """

    theirs: PublishedWheel
    build: BuiltAgain
    causes: tuple[str, ...] = ()
    materials: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if the bytes are the same."""
        return self.build.sha256 == self.theirs.sha256


def verify_against(
    command: Sequence[str],
    theirs: PublishedWheel,
    how: Variation,
    console: Console,
    out: rich.console.Console,
) -> VerifiedAgainst:
    """Build a published wheel again, by options of the `build` command, and compare."""
    with console.stage(how.name):
        build = rebuild(command, how, console)
    causes: list[str] = []
    differences: tuple[str, ...] = ()
    if build.sha256 == theirs.sha256:
        out.print(f"the same bytes: sha256 {build.sha256}", soft_wrap=True, highlight=False)
    elif theirs.wheel:
        compared = compare_wheels(theirs.wheel, build.wheel, how.dist.parent, out)
        causes, differences = list(causes_of(compared)), difference_lines(compared)
    stated, ours = theirs.materials, read_published(statement_of(build.wheel)).materials
    materials = tuple(
        f"{name}: {stated.get(name, 'nothing')} there, {ours.get(name, 'nothing')} here"
        for name in (sorted({*stated, *ours}) if theirs.statement else ())
        if stated.get(name) != ours.get(name)
    )
    for line in materials:
        out.print(f"another material: {line}", soft_wrap=True, highlight=False, markup=False)
    return VerifiedAgainst(
        theirs=theirs,
        build=build,
        causes=tuple(dict.fromkeys(causes)),
        materials=materials,
        differences=differences,
    )


def raise_if_other(result: VerifiedAgainst) -> None:
    """Raise a NotReproducibleError if the build isn't the published wheel."""
    if result.is_equal:
        return
    published = result.theirs.named.name
    raise NotReproducibleError(
        f"{result.build.wheel.name} does not have the SHA-256 that {published} states",
        why="\n".join((*result.causes, *result.materials))
        or "none of the stated materials differs",
        fix="build with the same materials: the same locks, and a toolchain that brings its own "
        "host compiler (-- --toolchain conda)",
    )


def raise_if_unequal(verified: Verified, name: str) -> None:
    """Raise a NotReproducibleError if the builds gave several wheels."""
    if verified.unequal:
        raise NotReproducibleError(
            f"{name} is not reproducible: {', '.join(verified.unequal)} gave another wheel",
            why="\n".join(verified.causes),
            fix="the report above lists members, kernels and a fix for each known cause; "
            "docs/reproducibility.md has more",
        )


def _table(builds: Sequence[BuiltAgain], *, is_verbose: bool) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    headings = ("build", "sha256", "seconds", "compile cache", "varied")
    for heading in headings if is_verbose else headings[:-1]:
        table.add_column(heading, overflow="fold")
    for build in builds:
        seconds = f"{build.seconds:.0f}"
        shown = build.sha256 if is_verbose else build.sha256[:_SHA256_SHOWN]
        varied = (build.varied,) if is_verbose else ()
        table.add_row(build.name, shown, seconds, build.cache or "none", *varied)
    return table
