"""Workflow commands of GitHub Actions: groups, annotations of files, the summary of a step.

The log of a step is read by a runner that obeys lines such as `::error file=a.cu,line=3::text`
("Workflow commands for GitHub Actions", https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands).
So what other programs print has to be kept from being obeyed: `stop_commands` before a block that
stays as it is, `without_commands` for a text among ours.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


GITHUB_VARIABLE = "GITHUB_ACTIONS"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
WORKSPACE_VARIABLE = "GITHUB_WORKSPACE"
Level = Literal["error", "warning", "notice"]  # of an annotation
# `::name` at a line's start behind blanks, and the older `##[name]` anywhere in it (actions/runner,
# src/Runner.Common/ActionCommand.cs: TryParseV2, TryParse).
_COMMAND = re.compile(r"^(\s*):(?=:)|##(?=\[)", re.MULTILINE)


def is_github(environ: Mapping[str, str]) -> bool:
    """Whether this is a step of GitHub Actions, or of what calls itself so."""
    return environ.get(GITHUB_VARIABLE) == "true"


def command(name: str, message: str = "", **properties: str) -> str:
    """A workflow command as its line; values may hold anything.

    Args:
        name: `group`, `error`, …
        message: what stands behind the second `::`.
        properties: by name, such as `file`; empty ones are left out.
    """
    given = [f"{key}={_property(value)}" for key, value in properties.items() if value]
    return f"::{name}{' ' if given else ''}{','.join(given)}::{_data(message)}"


def in_workspace(path: Path, environ: Mapping[str, str]) -> str:
    """A file's name for annotations: relative to the workspace, where it lies in that."""
    workspace = environ.get(WORKSPACE_VARIABLE, "")
    if workspace and path.is_relative_to(workspace):
        return str(path.relative_to(workspace))
    return str(path)


def new_token() -> str:
    """What ends a block of text that the runner doesn't obey; no package can guess it."""
    return secrets.token_hex(16)


def stop_commands(token: str) -> str:
    """The line from which on the runner obeys nothing but `resume_commands` of this token."""
    return f"::stop-commands::{token}"


def resume_commands(token: str) -> str:
    """The line that ends what `stop_commands` began."""
    return f"::{token}::"


def without_commands(text: str) -> str:
    """A text that no runner obeys: a blank stands in each place where a command would begin."""
    return _COMMAND.sub(lambda found: f"{found[0]} ", text)


def add_to_summary(markdown: Iterable[str], environ: Mapping[str, str]) -> None:
    """Append lines to the summary of the step, where there is one.

    A summary that can't be written is no reason to fail.
    """
    if name := environ.get(SUMMARY_VARIABLE):
        with contextlib.suppress(OSError), Path(name).open("a", encoding="utf-8") as summary:
            summary.write("\n".join((*markdown, "", "")))


def table(rows: Mapping[str, str]) -> Iterator[str]:
    """A table of two columns in Markdown, without a heading; rows without a value are left out."""
    yield from ("| | |", "| --- | --- |")
    yield from (f"| {cell(name)} | {cell(value)} |" for name, value in rows.items() if value)


def block(text: str) -> Iterator[str]:
    """A text as it stands, behind a fence that it can't close."""
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    yield from ("", f"{fence}text", text, fence)


def cell(text: str) -> str:
    """A text as one cell of a table in Markdown, without markup of its own."""
    plain = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]<>|#!&~])", r"\\\1", plain)


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
