"""Workflow commands of GitHub Actions: groups, annotations of files, the summary of a step.

The runner executes lines of a step's log such as `::error file=a.cu,line=3::text`
("Workflow commands for GitHub Actions", https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands).
It must not execute output of other programs: `stop_commands` before a block that stays unchanged,
`without_commands` for a text among cuwheel's own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

GITHUB_VARIABLE = "GITHUB_ACTIONS"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
WORKSPACE_VARIABLE = "GITHUB_WORKSPACE"
Level = Literal["error", "warning", "notice"]  # of an annotation
# `::name` at a line's start behind blanks, and the older `##[name]` anywhere in it (actions/runner,
# src/Runner.Common/ActionCommand.cs: TryParseV2, TryParse).
_COMMAND = re.compile(r"^(\s*):(?=:)|##(?=\[)", re.MULTILINE)


def is_github(environ: Mapping[str, str]) -> bool:
    """Return True in a step of GitHub Actions, or of a compatible runner."""
    return environ.get(GITHUB_VARIABLE) == "true"


def command(name: str, message: str = "", **properties: str) -> str:
    """Return a workflow command as its line; values may hold anything, empty ones are left out."""
    pairs = ",".join(
        f"{key}={_data(value).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
        if value
    )
    return f"::{name}{' ' if pairs else ''}{pairs}::{_data(message)}"


def in_workspace(path: Path, environ: Mapping[str, str]) -> str:
    """Return a file's name for annotations: relative to the workspace, where it lies in that."""
    workspace = environ.get(WORKSPACE_VARIABLE, "")
    if workspace and path.is_relative_to(workspace):
        return str(path.relative_to(workspace))
    return str(path)


def stop_commands(token: str) -> str:
    """Return the line from which on the runner executes only `resume_commands` of this token."""
    return f"::stop-commands::{token}"


def resume_commands(token: str) -> str:
    """Return the line that ends the effect of `stop_commands`."""
    return f"::{token}::"


def without_commands(text: str) -> str:
    """Return a text without commands: a blank is added in each place where one would begin."""
    return _COMMAND.sub(lambda match: f"{match[0]} ", text)


def add_to_summary(markdown: Iterable[str], environ: Mapping[str, str]) -> None:
    """Append lines to the summary of the step, where there is one; failing to write is no error."""
    if name := environ.get(SUMMARY_VARIABLE):
        with contextlib.suppress(OSError), Path(name).open("a", encoding="utf-8") as summary:
            summary.write("\n".join((*markdown, "", "")))


def table(rows: Mapping[str, str]) -> Iterator[str]:
    """Yield a Markdown table of two columns, without a heading and without empty values."""
    yield from ("| | |", "| --- | --- |")
    yield from (f"| {cell(name)} | {cell(value)} |" for name, value in rows.items() if value)


def block(text: str) -> Iterator[str]:
    """Yield a text unchanged, behind a fence that it can't close."""
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    yield from ("", f"{fence}text", text, fence)


def cell(text: str) -> str:
    """Return a text as one cell of a Markdown table, without markup of its own."""
    plain = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]<>|#!&~])", r"\\\1", plain)


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
