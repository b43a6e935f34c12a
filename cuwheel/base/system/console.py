"""Messages for the terminal: stages, live progress, notes; plain text in a log."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import rich.console
import rich.markup
import rich.progress
import rich.text

from cuwheel.base.spelling import as_typed
from cuwheel.base.system.output import github
from cuwheel.base.system.output.documents import Document, as_line
from cuwheel.base.system.output.terminal import (
    is_live,
    make_terminal,
    one_line,
    spinner,
    visible,
)
from cuwheel.base.system.quantities import describe_durations, show_size

_PLAIN_INTERVAL = 15.0  # seconds between two lines of progress where there is no terminal


class Listener(Protocol):
    """Receiver of a download's progress: the console, or the bar of many downloads."""

    def note(self, text: str) -> None:
        """Print a message."""

    def warn(self, text: str) -> None:
        """Print a warning."""

    def download(
        self, name: str, total: int | None, done: int
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Show one download; the block gets a function that takes the number of bytes so far."""


class Console:
    """Output for a person.

    In a step of GitHub Actions, stages are groups that hold all of their output, and warnings are
    annotations.

    Args:
        terminal: by default standard error, so that standard output stays for data.

    Attributes:
        is_verbose: tables are printed whole, not summarised.
        durations: seconds of each stage that has ended.
    """

    def __init__(self, terminal: rich.console.Console | None = None) -> None:
        self.terminal = terminal or make_terminal(stderr=True)
        self.is_verbose = False
        self.is_quiet = False
        self.durations: dict[str, float] = {}
        self.has_answered = False
        self._is_github = github.is_github(os.environ)
        self._token = ""  # set while the runner executes no commands
        self._warnings: set[str] = set()

    def answer(self, document: Document) -> None:
        """Print a document to standard output, as one line of JSON."""
        self.has_answered = True
        print(as_line(document), flush=True)  # noqa: T201 - data

    def heading(self, text: str) -> None:
        """Begin a part, such as a build among several."""
        if not self.is_quiet:
            self.terminal.rule(f"[bold]{rich.markup.escape(text)}[/]", align="left")

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage, and record its duration."""
        started = time.monotonic()
        is_group = self._is_github and not self.is_quiet
        if is_group:
            self._command(github.command("group", name))
        else:
            self._print(f"[bold cyan]{rich.markup.escape(name)}[/]")
        try:
            with self._literally() if is_group else contextlib.nullcontext():
                yield
        finally:
            if is_group:
                self._command(github.command("endgroup"))
            self.durations[name] = time.monotonic() - started

    def print_durations(self) -> None:
        """Print the durations of the stages that have ended since the last call."""
        if self.durations:
            self.note(f"done in {describe_durations(self.durations)}")
            self.durations.clear()

    def output(self, lines: Iterable[str]) -> None:
        """Print a program's output where a group folds it; elsewhere it is only in its log."""
        if self._token:
            for line in lines:
                self._write(visible(line.rstrip("\n")))

    def error(self, text: str, *, title: str, file: str = "", line: str = "") -> None:
        """Print an error, which may hold output of other programs; `file` is in the repository."""
        if self._is_github:
            self._command(github.command("error", title, file=file, line=line))
            with self._literally():
                self._write(visible(text))
        else:
            self.terminal.print(text, markup=False, style=None)

    def annotate(
        self, level: github.Level, text: str, *, title: str, file: Path | None = None, line: int = 0
    ) -> None:
        """Annotate the run, or a file, with a finding in GitHub Actions; elsewhere do nothing."""
        if self._is_github:
            place = github.in_workspace(file, os.environ) if file else ""
            number = str(line) if line else ""
            self._command(github.command(level, text, title=title, file=place, line=number))

    @property
    def has_summary(self) -> bool:
        """True in a step of GitHub Actions that has a summary."""
        return bool(os.environ.get(github.SUMMARY_VARIABLE))

    def add_to_summary(self, markdown: Iterable[str]) -> None:
        """Append lines to the summary of a step of GitHub Actions; elsewhere do nothing."""
        github.add_to_summary(markdown, os.environ)

    @contextlib.contextmanager
    def _literally(self) -> Iterator[None]:
        """Keep the runner from executing commands in what the block prints."""
        token = secrets.token_hex(16)  # no package can guess it
        self._command(github.stop_commands(token))
        self._token = token
        try:
            yield
        finally:
            self._token = ""
            self._command(github.resume_commands(token))

    def _command(self, text: str) -> None:
        """Send a command to the runner, also where it executes none."""
        if self._token:
            resume, stop = github.resume_commands(self._token), github.stop_commands(self._token)
            text = f"{resume}\n{text}\n{stop}"
        self._write(text)

    def _write(self, text: str) -> None:
        """Write a text unchanged: the terminal itself lets no command through."""
        self.terminal.file.write(f"{text}\n")
        self.terminal.file.flush()

    def _print(self, markup: str) -> None:
        if not self.is_quiet:
            self.terminal.print(markup)

    @contextlib.contextmanager
    def live(self, title: str) -> Iterator[Live]:
        """Show one changing line until the block ends."""
        line = Live(self, title)
        try:
            yield line
        finally:
            line.close()

    @contextlib.contextmanager
    def download(self, name: str, total: int | None, done: int) -> Iterator[Callable[[int], None]]:
        """Show a download's progress; the block gets a function that takes the bytes so far.

        Args:
            total: bytes; None where the server gives none.
            done: bytes that are already there.
        """
        if self.is_quiet or not is_live(self.terminal):
            with self.live(name) as line:
                of_all = f" of {show_size(total)}" if total else ""
                yield lambda size: line.show(f"{show_size(size)}{of_all}")
            return
        with _new_bar(self.terminal) as bar:
            row = bar.add_task(name, total=total, completed=done)
            yield lambda size: bar.update(row, completed=size)

    @contextlib.contextmanager
    def downloads(self, title: str, total: int | None, *, files: int) -> Iterator[Downloads]:
        """Show several downloads, `total` bytes, until the block ends; nothing else live in it."""
        downloads = Downloads(self, title, total, files)
        with downloads.bar if downloads.is_shown else contextlib.nullcontext():
            yield downloads

    def note(self, text: str) -> None:
        """Print a message that belongs to the running stage."""
        self._print(f"  {rich.markup.escape(as_typed(text))}")

    def warn(self, text: str) -> None:
        """Print a warning, once per text: preflight, for one, runs twice in a build."""
        text = as_typed(text)
        if text in self._warnings:
            return
        self._warnings.add(text)
        if self._is_github:
            self._command(github.command("warning", text))
        else:
            self.terminal.print(f"  [yellow]warning[/] {rich.markup.escape(text)}")


def silent_console() -> Console:
    """Return a console without output, for work whose messages are repeated elsewhere."""
    return Console(rich.console.Console(file=io.StringIO()))


class Live:
    """Line that changes while something runs.

    On a terminal it is redrawn in place; elsewhere (a CI log) it is printed anew now and then.
    """

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._terminal = terminal = console.terminal
        self._title = title
        self._printed = time.monotonic()
        is_shown = is_live(terminal) and not console.is_quiet
        self._status = terminal.status("", spinner=spinner(terminal)) if is_shown else None
        if self._status:
            self._status.start()

    def show(self, text: str) -> None:
        """Replace the line's text."""
        if self._console.is_quiet:
            return
        if self._status:
            # Cut next to the spinner: a line that wraps jumps up and down.
            line = rich.text.Text(one_line(f"{self._title}  {text}"))
            line.truncate(max(self._terminal.width - 2, 1), overflow="ellipsis")
            self._status.update(line)
        elif time.monotonic() - self._printed > _PLAIN_INTERVAL:
            self._printed = time.monotonic()
            self._terminal.print(f"  {self._title}  {text}", markup=False, highlight=False)

    def close(self) -> None:
        """Remove the line."""
        if self._status:
            self._status.stop()


class Downloads:
    """Several downloads at once under one bar; every method is safe in any thread.

    On a terminal there is a row for all of them together, then one for each running download;
    elsewhere (a CI log) a line is printed now and then.

    Args:
        total: bytes of all; None where they aren't known.
    """

    def __init__(self, console: Console, title: str, total: int | None, files: int) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._files = files
        self._here: dict[str, int] = {}  # bytes of each file, complete or not
        self._complete: set[str] = set()
        self._printed = time.monotonic()
        self._guard = threading.Lock()
        self.bar = _new_bar(console.terminal)
        self._row = self.bar.add_task(self._named(), total=total)
        self.is_shown = is_live(console.terminal) and not console.is_quiet

    @contextlib.contextmanager
    def download(self, name: str, total: int | None, done: int) -> Iterator[Callable[[int], None]]:
        """Show one of them until the block ends, as `Console.download` does."""
        row = self.bar.add_task(name, total=total, completed=done)

        def move(size: int) -> None:
            self.bar.update(row, completed=size)
            self._count(name, size)

        try:
            yield move
        finally:
            self.bar.remove_task(row)

    def finish(self, name: str, size: int) -> None:
        """Count a file of `size` bytes as complete, downloaded or already there."""
        with self._guard:
            self._complete.add(name)
        self._count(name, size)

    def note(self, text: str) -> None:
        """Print a message above the bar."""
        self._console.note(text)

    def warn(self, text: str) -> None:
        """Warn above the bar."""
        self._console.warn(text)

    def _count(self, name: str, size: int) -> None:
        with self._guard:
            self._here[name] = size
            done = sum(self._here.values())
            is_log = not (self.is_shown or self._console.is_quiet)
            is_due = is_log and time.monotonic() - self._printed > _PLAIN_INTERVAL
            if is_due:
                self._printed = time.monotonic()
        self.bar.update(self._row, completed=done, description=self._named())
        if is_due:
            of_all = f" of {show_size(self._total)}" if self._total else ""
            text = f"  {self._named()}, {show_size(done)}{of_all}"
            self._console.terminal.print(text, markup=False, highlight=False)

    def _named(self) -> str:
        return f"{self._title}  {len(self._complete)} of {self._files} files"


def _new_bar(terminal: rich.console.Console) -> rich.progress.Progress:
    """Return a progress display of downloads that is removed at its end."""
    return rich.progress.Progress(
        rich.progress.TextColumn("  {task.description}", markup=False),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(binary_units=True),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
        console=terminal,
        transient=True,
    )
