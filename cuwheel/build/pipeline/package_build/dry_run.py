"""Dry runs of a package's build, for its command lines: nothing of the package is compiled.

The build runs with a launcher that makes empty objects (`build/compile/launcher/standin.py`): that
lists its compiles in seconds, whatever its build system is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel.base import limits
from cuwheel.base.errors import BuildFailedError
from cuwheel.base.system.regular_files import parse_json, read_regular
from cuwheel.build.compile.launcher_setup import links_listed, listing_variables
from cuwheel.build.pipeline.package_build.build_commands import BuildCommands, run_command
from cuwheel.build.workspace.job import Job

_FAILED = "the package's own build failed while its compiles were listed"


@dataclass(frozen=True, kw_only=True)
class ListedCompile:
    """A compile as the launcher has listed it; its paths are those that the build sees.

    Attributes:
        name: of the compiler, `nvcc` or `g++`.
        file: the source, by the name that it has on every machine.
        path: the same, by its own name.
        archs: compute capabilities that it compiles for, `90`.
        is_by_arch: True if the device code of each arch can be compiled alone.
        variables: each as `NAME=value`, without those of the dry run.
    """

    name: str
    arguments: tuple[str, ...]
    folder: str
    file: str
    path: str
    output: str
    archs: tuple[str, ...]
    variables: tuple[str, ...]
    is_by_arch: bool = False


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """The result of a dry run.

    Attributes:
        compiles: in the order in which the build has started them.
        programs: by path, the objects of each program that the build links.
        called: those of these programs that the build then runs; they had no content.
        failure: why the build ended early; None: it didn't.
    """

    compiles: tuple[ListedCompile, ...]
    programs: Mapping[str, tuple[str, ...]]
    called: tuple[str, ...]
    failure: BuildFailedError | None

    @property
    def needed(self) -> frozenset[str]:
        """Programs that the build runs and their sources, which a further dry run has to make.

        Nothing where a program is linked from a library: its sources aren't known.
        """
        sources = {compile_.output: compile_.path for compile_ in self.compiles}
        paths: set[str] = set()
        for program in self.called:
            inputs = self.programs.get(program, ())
            if inputs and all(item in sources for item in inputs):
                paths |= {program, *(sources[item] for item in inputs)}
        return frozenset(paths)


def run_dry(job: Job, commands: BuildCommands, log: str, real: frozenset[str]) -> DryRun:
    """Run the package's build with empty objects; return its compiles.

    Args:
        log: name of its log.
        real: sources that are compiled, and programs that are linked, all the same.

    Raises:
        DiskFullError: a disk ran full.
    """
    inputs = commands.inputs
    job.workspace.log(log).unlink(missing_ok=True)
    variables = listing_variables(inputs, commands.path_map)
    (inputs.events / "real").write_text("\n".join(sorted(real)), errors="surrogateescape")
    failure = None
    try:
        with (
            links_listed(inputs, commands.path_map),
            job.workspace.console.live("listing the compiles"),
        ):
            for step in commands.steps(job.target, job.workspace.folder("built")):
                run_command(job, commands, step, log, variables=variables, what=_FAILED)
    except BuildFailedError as error:  # objects without content may not be enough for it
        failure = error
    compiles: list[ListedCompile] = []
    programs: dict[str, tuple[str, ...]] = {}
    for content in _logged(inputs.commands_log):
        if "program" in content:
            programs[str(content["program"])] = _texts(content.get("inputs"))
        elif compile_ := _read(content, tuple(variables)):
            compiles.append(compile_)
    called = _lines(inputs.called_log)
    return DryRun(
        compiles=tuple(compiles),
        programs=programs,
        called=tuple(sorted({line.decode(errors="surrogateescape") for line in called})),
        failure=failure,
    )


def _lines(path: Path) -> list[bytes]:
    """Return the lines of a file that a build has written; none where there is no such file."""
    with suppress(OSError):
        return read_regular(path, limit=limits.EVENTS).splitlines()
    return []


def _logged(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a log: the launcher writes it, but the package's code can."""
    for line in _lines(path):
        with suppress(ValueError):
            content = parse_json(line)
            if isinstance(content, dict):
                yield content


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _read(content: Mapping[str, Any], listing: tuple[str, ...]) -> ListedCompile | None:
    """Parse a compile; None for what the launcher hasn't written.

    Args:
        listing: names of the variables that only a dry run has.
    """
    names = ("name", "folder", "file", "path", "output")
    if not all(isinstance(content.get(name), str) for name in names):
        return None
    variables = _texts(content.get("variables"))
    return ListedCompile(
        **{name: content[name] for name in names},
        arguments=_texts(content.get("arguments")),
        archs=_texts(content.get("archs")),
        is_by_arch=bool(content.get("is_by_arch")),
        variables=tuple(text for text in variables if text.partition("=")[0] not in listing),
    )
