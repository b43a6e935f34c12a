"""The session `explain`."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError, suggest
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.check.explain.explain import explain_lines, explain_session
from cuwheel.cli.parser import ENVIRONMENT, JSON_TEXT, Parser, new_parser


def explain_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "explain",
        "Explain what went wrong in logs, of any tool.",
        {
            "logs LOG|DIR|-|NAME+": "log files, folders with log files, or - for standard input; "
            "or the name of an entry of TROUBLESHOOTING.md, which is printed",
            "--here": "the logs were written on this machine: read its toolkit, driver and torch",
            **ENVIRONMENT,
            "--quiet": "print one line for each cause, with its fix",
            "--verbose": "show every log line that indicates a cause, and links",
            "--json": JSON_TEXT,
            "--jsonl": 'read one {"id": …, "log": …} per line, print one {"id": …, "causes": […]} '
            "per line",
        },
        needs={("--python", "--here"): "a log that is read alone needs no environment"},
        excludes={("--json", "--jsonl"): "they are two forms of the same answer"},
    )


def _entries(names: list[str], folder: Path) -> list[str]:
    """Return the entries that have these names; none if one is a path.

    Raises:
        UsageError: there is neither an entry nor a file of a name.
    """
    if any(name == "-" or "/" in name or (folder / name).exists() for name in names):
        return []
    from cuwheel.cli.reference.troubleshooting import (  # noqa: PLC0415 - logs need none
        entry_names,
        entry_of,
    )

    entries = [entry_of(name) for name in names]
    for name, entry in zip(names, entries, strict=True):
        if entry is None and not name.endswith((".log", ".txt")):
            raise UsageError(
                f"there is no entry and no file {name}",
                why=suggest(name, entry_names()),
                fix="give a log, or the name of an entry: TROUBLESHOOTING.md lists them",
            )
    return [entry for entry in entries if entry] if all(entries) else []


def run_explain(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Explain logs, or print entries of TROUBLESHOOTING.md."""
    folder = caller.path(".")
    entries = _entries(args.logs, folder)
    if entries and not (args.jsonl or args.json):
        print(as_typed("\n\n".join(entries)))  # noqa: T201 - that's the answer
        return
    if args.jsonl:
        explain_lines(args.logs, folder, console)
    else:
        known = _facts_here(args.python, caller) if args.here or args.python else None
        explain_session(args.logs, folder, console, known=known, as_json=args.json)


def _facts_here(python: str | None, caller: Caller) -> dict[str, str]:
    from cuwheel.check.diagnose.diagnose import callers_environment  # noqa: PLC0415 - for --here
    from cuwheel.check.diagnose.log_facts import facts_for_logs  # noqa: PLC0415 - for --here

    return facts_for_logs(python, callers_environment(caller.environ), caller.path("."))
