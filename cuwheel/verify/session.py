"""The session `verify`: is the wheel the same bytes, however it is built; and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import rich.console
import rich.table

from cuwheel.errors import NotReproducibleError
from cuwheel.system.files import write_atomically
from cuwheel.system.output.documents import as_file
from cuwheel.verify.compare.differences import CAUSES
from cuwheel.verify.compare.diffoscope import keep_diffoscope
from cuwheel.verify.compare.report import (
    comparison_document,
    difference_lines,
    print_comparison,
)
from cuwheel.verify.compare.wheel import compare
from cuwheel.verify.published import PublishedWheel, read_published
from cuwheel.verify.rebuilds import Variation, rebuild, variations
from cuwheel.wheel.publication import statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cuwheel.system.console import Console
    from cuwheel.verify.compare.differences import Comparison
    from cuwheel.verify.rebuilds import Rebuilt


_SHA256_SHOWN = 16  # characters of a hash in the table


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What a verification found.

    Attributes:
        builds: all of them; the first is what the others are compared with.
        unequal: names of those that gave other bytes.
        causes: the known causes of what differs, in words; of unknown ones it says so.
    """

    builds: tuple[Rebuilt, ...]
    unequal: tuple[str, ...]
    causes: tuple[str, ...]


def verify(
    command: Sequence[str], folder: Path, cache: Path, console: Console, out: rich.console.Console
) -> Verified:
    """Build in several ways and compare the wheels.

    Args:
        command: recipe, toolkit and options of the `build` command.
        folder: everything of the verification goes there.
        cache: cuwheel's own.
        console: for the progress.
        out: for the report.

    Raises:
        RebuildFailedError: a build failed.
    """
    builds = []
    for how in variations(folder, cache):
        with console.stage(how.name):
            console.note(how.says)
            builds.append(rebuild(command, how, console))
    first = builds[0]
    unequal = [one for one in builds if one.sha256 != first.sha256]
    if console.is_quiet:
        same = "other bytes" if unequal else "the same bytes"
        out.print(f"{same}: sha256 {first.sha256}", soft_wrap=True, highlight=False)
    else:
        out.print(_table(builds, is_verbose=console.is_verbose))
    causes = [
        cause
        for one in unequal
        for cause in causes_of(
            compare_wheels(first.wheel, one.wheel, folder / one.variation.name, out)
        )
    ]
    return Verified(
        builds=tuple(builds),
        unequal=tuple(one.variation.name for one in unequal),
        causes=tuple(dict.fromkeys(causes)),
    )


def compare_wheels(a: Path, b: Path, folder: Path, out: rich.console.Console) -> Comparison:
    """Say in what two wheels differ and why, and keep that in a folder."""
    found = compare(a, b)
    print_comparison(found, out)
    write_atomically(folder / "comparison.json", as_file(comparison_document(found)))
    out.print(f"kept in {folder / 'comparison.json'}", soft_wrap=True, highlight=False)
    out.print(keep_diffoscope(a, b, folder).note, soft_wrap=True, highlight=False)
    return found


def causes_of(comparison: Comparison) -> Iterator[str]:
    """Why two wheels differ, in words; that causes are unknown, too."""
    causes = (CAUSES[key] for key, _ in comparison.causes)
    # What only follows from another difference has no remedy of its own.
    yield from (cause.text for cause in causes if cause.remedy)
    if comparison.unexplained:
        yield f"{len(comparison.unexplained)} differences of unknown cause"


@dataclass(frozen=True, kw_only=True)
class VerifiedAgainst:
    """What a comparison with a published wheel found.

    Attributes:
        theirs: what was published.
        build: ours.
        causes: the known causes of what differs, in words; empty where only the hash is known.
        materials: those that differ, in words.
        differences: members and kernels in which they differ; empty where only the hash is known.
    """

    theirs: PublishedWheel
    build: Rebuilt
    causes: tuple[str, ...] = ()
    materials: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether the bytes are the same."""
        return self.build.sha256 == self.theirs.sha256


def verify_against(
    command: Sequence[str],
    theirs: PublishedWheel,
    how: Variation,
    console: Console,
    out: rich.console.Console,
) -> VerifiedAgainst:
    """Build what somebody else has published, and compare.

    Args:
        command: recipe, toolkit and options of the `build` command.
        theirs: what they published.
        how: where to build.
        console: for the progress.
        out: for the report.

    Raises:
        RebuildFailedError: the build failed.
    """
    with console.stage(how.name):
        made = rebuild(command, how, console)
    causes: list[str] = []
    differences: tuple[str, ...] = ()
    if made.sha256 == theirs.sha256:
        out.print(f"the same bytes: sha256 {made.sha256}", soft_wrap=True, highlight=False)
    elif theirs.wheel:
        compared = compare_wheels(theirs.wheel, made.wheel, how.dist.parent, out)
        causes, differences = list(causes_of(compared)), difference_lines(compared)
    materials = tuple(_other_materials(theirs, read_published(statement_of(made.wheel))))
    for line in materials:
        out.print(f"another material: {line}", soft_wrap=True, highlight=False, markup=False)
    return VerifiedAgainst(
        theirs=theirs,
        build=made,
        causes=tuple(dict.fromkeys(causes)),
        materials=materials,
        differences=differences,
    )


def raise_if_other(found: VerifiedAgainst) -> None:
    """End a session whose build gave another wheel than the published one.

    Raises:
        NotReproducibleError: it did.
    """
    if found.is_equal:
        return
    raise NotReproducibleError(
        f"{found.build.wheel.name} does not have the SHA-256 that {found.theirs.named.name} states",
        why="\n".join((*found.causes, *found.materials)) or "none of the stated materials differs",
        fix="build with the same materials: the same locks, and a toolchain that brings its own "
        "host compiler (-- --toolchain conda)",
    )


def raise_if_unequal(found: Verified, name: str) -> None:
    """End a session whose builds gave several wheels.

    Raises:
        NotReproducibleError: they did.
    """
    if found.unequal:
        raise NotReproducibleError(
            f"{name} is not reproducible: {', '.join(found.unequal)} gave another wheel",
            why="\n".join(found.causes),
            fix="the report above lists members, kernels and a fix for each known cause; "
            "docs/reproducibility.md has more",
        )


def _table(builds: Sequence[Rebuilt], *, is_verbose: bool) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    varied = ("varied",) if is_verbose else ()
    for heading in ("build", "sha256", "seconds", "compile cache", *varied):
        table.add_column(heading, overflow="fold")
    for one in builds:
        seconds = f"{one.seconds:.0f}"
        shown = one.sha256 if is_verbose else one.sha256[:_SHA256_SHOWN]
        says = (one.variation.says,) if is_verbose else ()
        table.add_row(one.variation.name, shown, seconds, one.cache or "none", *says)
    return table


def _other_materials(theirs: PublishedWheel, ours: PublishedWheel) -> Iterator[str]:
    names = sorted({*theirs.materials, *ours.materials})
    for name in names if theirs.statement else ():
        pair = theirs.materials.get(name, "nothing"), ours.materials.get(name, "nothing")
        if pair[0] != pair[1]:
            yield f"{name}: {pair[0]} there, {pair[1]} here"
