"""The sessions `verify-…`: is the wheel the same bytes, however it is built; and if not, why."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich.console
import rich.table

from cuwheel.diffoscope import keep_diffoscope
from cuwheel.diffreport import as_data, print_comparison
from cuwheel.errors import NotReproducibleError, UnsafeArchiveError, UsageError
from cuwheel.files import sha256_of_file, write_atomically
from cuwheel.rebuilds import Variation, rebuild, variations
from cuwheel.wheeldiff import compare
from cuwheel.wheelfile import open_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cuwheel.console import Console
    from cuwheel.rebuilds import Rebuilt

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


@dataclass(frozen=True, kw_only=True)
class Published:
    """What somebody else has published.

    Attributes:
        named: the file that was named: a wheel, or the statement beside one.
        sha256: of their wheel.
        wheel: it; None where there is only the statement.
        statement: the in-toto statement; empty where there is only the wheel.
    """

    named: Path
    sha256: str
    wheel: Path | None
    statement: dict[str, Any]

    @property
    def options(self) -> list[str]:
        """What a build's command line has to say to do the same."""
        asked = self.parameters
        words = [word for arch in asked.get("archs", ()) for word in ("--arch", arch)]
        for name, option in _OPTIONS.items():
            words += [option, asked[name]] if asked.get(name) else []
        return words

    @property
    def parameters(self) -> dict[str, Any]:
        """What was asked for, as `provenance` states it; empty without a statement."""
        return dict(self._definition.get("externalParameters", {}))

    @property
    def materials(self) -> dict[str, str]:
        """Name of each thing that went in, and its hash or version."""
        found = self._definition.get("resolvedDependencies", ())
        return {one["name"]: _identity(one) for one in found}

    @property
    def _definition(self) -> dict[str, Any]:
        return dict(self.statement.get("predicate", {}).get("buildDefinition", {}))


_OPTIONS = {
    "python": "--python",
    "framework": "--framework",
    "link": "--link",
    "provider": "--toolchain",
}


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
    out.print(_table(builds))
    causes = [
        cause
        for one in unequal
        for cause in explain(first.wheel, one.wheel, folder / one.variation.name, out)
    ]
    return Verified(
        builds=tuple(builds),
        unequal=tuple(one.variation.name for one in unequal),
        causes=tuple(dict.fromkeys(causes)),
    )


def explain(a: Path, b: Path, folder: Path, out: rich.console.Console) -> Iterator[str]:
    """Say in which two wheels differ and why, and keep it; gives back the causes in words."""
    found = compare(a, b)
    print_comparison(found, out)
    write_atomically(folder / "comparison.json", json.dumps(as_data(found), indent=2) + "\n")
    out.print(f"kept in {folder / 'comparison.json'}", soft_wrap=True, highlight=False)
    out.print(keep_diffoscope(a, b, folder).note, soft_wrap=True, highlight=False)
    data = as_data(found)
    # What only follows from another difference has no remedy of its own.
    yield from (cause["text"] for cause in data["causes"].values() if cause["remedy"])
    if data["unexplained"]:
        yield f"{data['unexplained']} differences of unknown cause"


def verify_against(
    command: Sequence[str],
    theirs: Published,
    how: Variation,
    console: Console,
    out: rich.console.Console,
) -> Rebuilt:
    """Build what somebody else has published, and compare.

    Args:
        command: recipe, toolkit and options of the `build` command.
        theirs: what they published.
        how: where to build.
        console: for the progress.
        out: for the report.

    Raises:
        NotReproducibleError: the bytes differ.
        RebuildFailedError: the build failed.
    """
    with console.stage(how.name):
        made = rebuild(command, how, console)
    if made.sha256 == theirs.sha256:
        out.print(f"the same bytes: sha256 {made.sha256}", soft_wrap=True, highlight=False)
        return made
    causes: list[str] = []
    if theirs.wheel:
        causes = list(explain(theirs.wheel, made.wheel, how.dist.parent, out))
    beside = made.wheel.with_name(f"{made.wheel.name}.provenance.json")
    differing = list(_other_materials(theirs, read_published(beside)))
    for line in differing:
        out.print(f"another material: {line}", soft_wrap=True, highlight=False, markup=False)
    raise NotReproducibleError(
        f"{made.wheel.name} is not what {theirs.named.name} says",
        why="\n".join(dict.fromkeys([*causes, *differing])) or "nothing is stated that differs",
        fix="build with the same materials: the same locks, and a toolchain that brings its own "
        "host compiler (-- --toolchain conda)",
    )


def read_published(path: Path) -> Published:
    """Read what `--against` names: a wheel, or the provenance of one.

    Raises:
        UsageError: it is neither, or wheel and provenance are not of each other.
    """
    try:
        if path.suffix == ".whl":
            beside = path.with_name(f"{path.name}.provenance.json")
            stated = json.loads(beside.read_text()) if beside.is_file() else {}
            with open_wheel(path):  # before an hour of building
                pass
            found = Published(named=path, sha256=sha256_of_file(path), wheel=path, statement=stated)
        else:
            found = _of_statement(path)
        _check_statement(found)
    except UnsafeArchiveError as problem:
        raise UsageError(
            f"--against {path} is no wheel that can be read",
            why=problem.why,
            fix="get the file again from whoever published it",
        ) from problem
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(
            f"--against {path} is neither a wheel nor the provenance of one",
            why=f"it has no {problem}" if isinstance(problem, KeyError) else str(problem),
            fix="name a .whl, or the .provenance.json that cuwheel writes beside it",
        ) from problem
    return found


def check_meant(theirs: Published, recipe: str, tag: str) -> None:
    """See that what was published is of the session's recipe and toolkit.

    Raises:
        UsageError: it is of another one.
    """
    asked = theirs.parameters
    stated = (asked.get("recipe", recipe), asked.get("toolkit", tag).replace(".", ""))
    if stated != (recipe, tag):
        raise UsageError(
            f"{theirs.named.name} is not of {recipe} for toolkit {tag}",
            why=f"its provenance says {stated[0]}, toolkit {stated[1]}",
            fix=f"nox -s verify-{stated[0]}-{stated[1]} -- --against {theirs.named}",
        )


def _of_statement(path: Path) -> Published:
    stated = json.loads(path.read_text())
    [subject] = stated["subject"]
    beside = path.with_name(Path(subject["name"]).name)
    return Published(
        named=path,
        sha256=subject["digest"]["sha256"],
        wheel=beside if beside.is_file() else None,
        statement=stated,
    )


def _check_statement(found: Published) -> None:
    """What a statement says becomes a command line, so nothing in it is taken on trust.

    Raises:
        ValueError: it isn't one of ours, or isn't of this wheel.
        TypeError: a value is of another kind.
    """
    for name in (*_OPTIONS, "recipe", "toolkit"):
        value = found.parameters.get(name, "")
        if not isinstance(value, str) or value.startswith("-") or "/" in value:
            raise ValueError(f"its {name} is {value!r}")
    archs = found.parameters.get("archs", [])
    if not isinstance(archs, list):
        raise TypeError(f"its archs are {archs!r}")
    for arch in archs:
        if not re.fullmatch(r"[0-9]+[af]?", arch):
            raise ValueError(f"one of its archs is {arch!r}")
    _ = found.materials
    if found.wheel and found.statement:
        [subject] = found.statement["subject"]
        if sha256_of_file(found.wheel) != subject["digest"]["sha256"]:
            raise ValueError(f"{found.wheel.name} is not the wheel that the provenance is of")


def raise_if_unequal(found: Verified, name: str) -> None:
    """End a session whose builds gave several wheels.

    Raises:
        NotReproducibleError: they did.
    """
    if found.unequal:
        raise NotReproducibleError(
            f"{name} is not the same bytes: {', '.join(found.unequal)} gave another wheel",
            why="\n".join(found.causes),
            fix="the report above names members and kernels, and a remedy for each known cause; "
            "docs/reproducibility.md tells more",
        )


def _table(builds: Sequence[Rebuilt]) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("build", "sha256", "seconds", "compile cache"):
        table.add_column(heading)
    for one in builds:
        seconds = f"{one.seconds:.0f}"
        shown = one.sha256[:_SHA256_SHOWN]
        table.add_row(one.variation.name, shown, seconds, one.cache or "none")
    return table


def _other_materials(theirs: Published, ours: Published) -> Iterator[str]:
    names = sorted({*theirs.materials, *ours.materials})
    for name in names if theirs.statement else ():
        pair = theirs.materials.get(name, "nothing"), ours.materials.get(name, "nothing")
        if pair[0] != pair[1]:
            yield f"{name}: {pair[0]} there, {pair[1]} here"


def _identity(material: dict[str, Any]) -> str:
    digest = material.get("digest", {}).get("sha256", "")
    version = material.get("annotations", {}).get("version", "")
    return f"{version} {digest[:_SHA256_SHOWN]}".strip()
