"""Why compiles of the last build ran: what differs from the nearest one in the compile cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cuwheel.base.errors import UsageError
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.quantities import plural
from cuwheel.build.compile.events import EVENTS_LOG, Compile, Events, read_events

_SHOWN = 6  # differences of a compile, without --verbose
# docs/adr/0016
_OF_ARCHS = ": CUB and Thrust put the list of archs into names, so each arch is compiled anew"


@dataclass(frozen=True, kw_only=True)
class InputDifference:
    """An input of a compile that differs from the nearest kept one.

    Attributes:
        kind: `compiler`, `Python` (its version, or one of its headers), `packages`, `archs` (of
            a source that includes CUB or Thrust), `flag`, `variable`, `source` or `header`.
        change: `added`, `removed` or `changed`.
        name: the option, the variable's name, the file's path, a version, or whose it is.
    """

    kind: str
    change: str
    name: str


@dataclass(frozen=True, kw_only=True)
class RunCompile:
    """A compile that ran.

    Attributes:
        file: the source.
        programs: those that ran, with the arch of device code, `cicc 90`.
        state: `first`: the source was never compiled before; `differs`; `same`: its result isn't
            kept any more; `unknown`: it failed, or the compile cache was off.
        differences: the first 50.
        count: of all differences.
    """

    file: str
    programs: tuple[str, ...]
    state: str
    differences: tuple[InputDifference, ...] = ()
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class CacheWhyDocument:
    """What `cache --json why` prints.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        compiles: of the last build.
        hits: how many of them ran no program.
        reused: PTX files and cubins that other compiles had made.
        ran: the others.
    """

    SCHEMA: ClassVar[Schema] = Schema("cache-why", "1.0")

    target: str
    compiles: int
    hits: int
    reused: int
    ran: tuple[RunCompile, ...]


def explain_misses(work: Path, target: str) -> CacheWhyDocument:
    """Return why the compiles of the last build ran.

    Args:
        work: the folder of all work folders.
        target: `causal-conv1d-130`, or with more of its work folder's name; empty: any.

    Raises:
        UsageError: there is no record of such a build.
        OSError: its event log can't be read.
    """
    logs = [
        path
        for path in work.glob(f"*/logs/{EVENTS_LOG}")
        if path.is_file() and f"{path.parent.parent.name}-".startswith(f"{target}-" * bool(target))
    ]
    if not logs:
        raise UsageError(
            f"there is no record of the compiles of {target or 'a build'}",
            why=f"no folder in {work} has one: nothing was built there, or nothing was compiled",
            fix=f"nox -s build-{target or 'TARGET'}, or --work with the folder of its build",
        )
    log = max(logs, key=lambda path: path.stat().st_mtime)
    events = read_events(log)
    hits = events.hits()
    sources = [compile_ for compile_ in events.compiles if compile_.file]
    return CacheWhyDocument(
        target=log.parent.parent.name,
        compiles=len(sources),
        hits=len(hits),
        reused=events.reused + events.shared,
        ran=tuple(_explained(each, events) for each in sources if each.id not in hits),
    )


def describe_misses(document: CacheWhyDocument, *, is_verbose: bool) -> Iterator[str]:
    """Yield the lines that say why compiles ran."""
    for compile_ in document.ran:
        yield f"{compile_.file}: {', '.join(compile_.programs) or 'no program'} ran"
        yield from (f"  {line}" for line in _reasons(compile_, is_verbose=is_verbose))
    yield describe_count(document)


def describe_count(document: CacheWhyDocument) -> str:
    """Return the line with the numbers."""
    taken = f", {plural(document.reused, 'step')} of device code taken" if document.reused else ""
    compiles = plural(document.compiles, "compile")
    return f"{document.target}: {len(document.ran)} of {compiles} ran{taken}"


def _explained(compile_: Compile, events: Events) -> RunCompile:
    tools = [tool for tool in events.tools if tool.compile == compile_.id]
    programs = tuple(dict.fromkeys(f"{tool.name} {tool.arch}".strip() for tool in tools))
    inputs = events.inputs.get(compile_.id)
    if inputs is None:
        return RunCompile(file=compile_.file, programs=programs, state="unknown")
    state = "first" if not inputs.known else "differs" if inputs.count else "same"
    return RunCompile(
        file=compile_.file,
        programs=programs,
        state=state,
        differences=tuple(map(_difference, inputs.differences)),
        count=inputs.count,
    )


def _difference(text: str) -> InputDifference:
    kind, change, name = (*text.split(" ", 2), "", "")[:3]
    return InputDifference(kind=kind, change=change, name=name)


def _reasons(compile_: RunCompile, *, is_verbose: bool) -> Iterator[str]:
    if compile_.state == "first":
        yield "never compiled before"
    elif compile_.state == "same":
        yield "nothing differs: its result isn't kept any more (CUWHEEL_COMPILE_CACHE_SIZE)"
    elif compile_.state == "unknown":
        yield "it failed, or the compile cache was off"
    shown = compile_.differences if is_verbose else compile_.differences[:_SHOWN]
    for each in shown:
        why = _OF_ARCHS if each.kind == "archs" and each.change == "added" else ""
        yield f"{each.kind} {each.name} {each.change}{why}"
    if more := compile_.count - len(shown):
        yield f"and {more} more"
