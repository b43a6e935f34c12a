"""The session `slim`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import rich.table

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError, naming_option
from cuwheel.base.formats.binaries.archs import describe_code, sort_archs
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.build.finish.slim import SlimLibrary, slim_wheel
from cuwheel.build.finish.slim_load import LoadResult, compare_loads
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.check.audit.verdict import audit_wheel
from cuwheel.check.diagnose.diagnose import callers_environment
from cuwheel.check.diagnose.facts.environment import PythonEnvironment, read_chosen_environment
from cuwheel.cli.parser import JSON_TEXT, Option, Parser, existing, new_parser


@dataclass(frozen=True, kw_only=True)
class SlimDocument:
    """What `slim --json` prints.

    Attributes:
        wheel: the new one.
        size: of it, bytes.
        size_before: of the original, bytes.
        libraries: those with device code.
        license: what the metadata say.
        loaded: by --python, as the original is; None: neither was loaded.
    """

    SCHEMA: ClassVar[Schema] = Schema("slim", "1.2")

    wheel: Path
    size: int
    size_before: int
    libraries: tuple[SlimLibrary, ...]
    license: str
    loaded: LoadResult | None = None


def slim_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "slim",
        "Write a wheel again without the device code of other GPUs, under a version that says so.",
        {
            "wheel WHEEL": "of any project",
            "--arch 90...": "compute capability of the GPUs that it is to serve, repeatable",
            "--python PYTHON": "interpreter with what the wheel requires: both wheels are imported "
            "by it, nothing is installed",
            "--to DIR": Option("folder for the new wheel; default: slim/ here", default="slim"),
            "--quiet": "print only the new wheel's path",
            "--verbose": "list libraries whose code stays as it is, too",
            "--json": JSON_TEXT,
        },
    )


def run_slim(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Reduce a wheel, and compare its audit with that of the original."""
    _check_archs(args.arch)
    wheel, folder = caller.path(args.wheel), caller.path(args.to)
    existing(wheel, "WHEEL", "check the name")
    if wheel.is_dir() or (folder.exists() and not folder.is_dir()):
        raise UsageError(
            f"{wheel} is a folder" if wheel.is_dir() else f"--to {folder} is a file",
            why="one wheel is read, and the new one is written into a folder",
            fix="name one .whl file, and with --to a folder",
        )
    environment = _environment(args, caller)
    with naming_option("--to", folder):
        slim = slim_wheel(wheel, sort_archs(args.arch), folder)
    loaded = _loaded(wheel, slim.path, environment, caller) if environment else None
    before, after = wheel.stat().st_size, slim.path.stat().st_size
    if args.json:
        document = SlimDocument(
            wheel=slim.path,
            size=after,
            size_before=before,
            libraries=slim.libraries,
            license=slim.license,
            loaded=loaded,
        )
        console.answer(document)
        return
    if not console.is_quiet:
        changed = [
            library
            for library in slim.libraries
            if library.kept < library.size or console.is_verbose
        ]
        console.terminal.print(_table(changed))
        console.note(f"{show_size(before)} → {show_size(after)}; as large as before when installed")
        console.note("compared, and the same: the code that stays, all that is no device code")
        for path in (wheel, slim.path):
            console.note(f"audit of {path.name}: {_findings(path)}")
        console.note(_load_line(loaded))
        console.note(f"licence: {slim.license}; check whether it allows a changed copy")
    print(slim.path)  # noqa: T201 - data, for scripts


def _environment(args: argparse.Namespace, caller: Caller) -> PythonEnvironment | None:
    """Return the environment of --python; None without it."""
    if not args.python:
        return None
    environ = callers_environment(caller.environ)
    return read_chosen_environment(args.python, environ, caller.path("."))[1]


def _loaded(wheel: Path, slim: Path, environment: PythonEnvironment, caller: Caller) -> LoadResult:
    """Import both wheels; one that loads otherwise than its original is removed."""
    log = caller.cache / "logs" / "slim.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        return compare_loads(wheel, slim, environment, choose_sandbox(), log)
    except BaseException:
        slim.unlink()
        raise


def _load_line(loaded: LoadResult | None) -> str:
    if loaded is None:
        return "not loaded: --python ENV/bin/python imports both wheels"
    if loaded.failure:
        return f"load proof: both fail alike: {loaded.failure}"
    return f"load proof: both import {', '.join(loaded.imported)}"


def _check_archs(archs: Sequence[str]) -> None:
    """Raise UsageError unless all are compute capabilities of GPUs; the fix is what was meant."""
    if archs and all(arch.isdecimal() for arch in archs):
        return
    meant = [text.replace(".", "") for text in re.findall(r"\d+(?:\.\d+)?", " ".join(archs))]
    raise UsageError(
        f"--arch {' '.join(archs)} is not the compute capability of a GPU"
        if archs
        else "slim needs the GPUs that the wheel is to serve",
        why="write it without dot and letters: 90 keeps sm_90 and sm_90a",
        fix=" ".join(f"--arch {arch}" for arch in meant or ["90"]),
    )


def _findings(wheel: Path) -> str:
    """Return the number of an audit's errors and warnings, `1 error, 0 warnings`."""
    severities = [finding.severity for finding in audit_wheel(wheel).findings]
    return ", ".join(plural(severities.count(kind), kind) for kind in ("error", "warning"))


def _table(libraries: Sequence[SlimLibrary]) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("library", "device code", "", "kept", ""):
        table.add_column(title, overflow="fold")
    for library in libraries:
        before, after = describe_code(library.before), describe_code(library.after)
        table.add_row(
            *(library.name, before, show_size(library.size)),
            *(after, show_size(library.kept)),
        )
    return table
