"""What the person at the terminal sees: stages, one live line, notes; plain text in a log."""

from __future__ import annotations

import contextlib
import io
import os
import time
from typing import TYPE_CHECKING

import rich.console
import rich.markup

from cuwheel.errors import CommandFailedError
from cuwheel.spelling import as_typed
from cuwheel.system.output import github
from cuwheel.system.output.documents import as_line
from cuwheel.system.output.live import Downloads, Live, new_bar
from cuwheel.system.output.terminal import is_live, make_terminal, visible
from cuwheel.system.quantities import describe_durations, show_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cuwheel.errors import CuwheelError
    from cuwheel.system.output.documents import Document


class Console:
    """Prints for a person.

    In a step of GitHub Actions, stages are groups that hold all of their output, and warnings are
    annotations.

    Args:
        terminal: where to; standard error unless given, so that standard output stays for data.

    Attributes:
        is_verbose: tables are printed whole; else what they come to.
        is_quiet: nothing is printed but warnings and errors.
        durations: of each stage that has ended, in seconds.
        has_answered: a document was printed.
    """

    def __init__(self, terminal: rich.console.Console | None = None) -> None:
        self.terminal = terminal or make_terminal(stderr=True)
        self.is_verbose = False
        self.is_quiet = False
        self.durations: dict[str, float] = {}
        self.has_answered = False
        self._is_github = github.is_github(os.environ)
        self._token = ""  # while the runner obeys nothing
        self._warnings: set[str] = set()

    def answer(self, document: Document) -> None:
        """Print a document for a program: to standard output, as one line of JSON."""
        self.has_answered = True
        print(as_line(document), flush=True)  # noqa: T201 - data

    def heading(self, text: str) -> None:
        """Begin a part, such as a build among several."""
        if not self.is_quiet:
            self.terminal.rule(f"[bold]{rich.markup.escape(text)}[/]", align="left")

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage, and remember how long it took."""
        started = time.monotonic()
        if self._is_github and not self.is_quiet:
            group: AbstractContextManager[None] = self._group(name)
        else:
            group = contextlib.nullcontext()
            self._say(f"[bold cyan]{rich.markup.escape(name)}[/]")
        try:
            with group:
                yield
        finally:
            self.durations[name] = time.monotonic() - started

    def print_durations(self) -> None:
        """Say how long the stages took that have ended since the last time."""
        if self.durations:
            self.note(f"done in {describe_durations(self.durations)}")
            self.durations.clear()

    def output(self, lines: Iterable[str]) -> None:
        """Take what a program wrote: shown where a group folds it, else it stands in its log."""
        if self._token:
            for line in lines:
                self._write(visible(line.rstrip("\n")))

    def error(self, text: str, *, title: str, file: str = "", line: str = "") -> None:
        """Print why something failed.

        Args:
            text: all of it; parts may be of other programs.
            title: what GitHub Actions shows beside the file.
            file: where the fault is, if it is in one, relative to the repository.
            line: of that file.
        """
        if self._is_github:
            self._command(github.command("error", title, file=file, line=line))
            with self._literally():
                self._write(visible(text))
        else:
            self.terminal.print(text, markup=False, style=None)

    def annotate(self, level: github.Level, text: str, *, title: str, file: Path) -> None:
        """Show a finding beside a file where GitHub Actions reads along; elsewhere nothing.

        Args:
            level: how bad it is.
            text: the finding; parts may be of other programs.
            title: what stands above it.
            file: that it is about.
        """
        if self._is_github:
            place = github.in_workspace(file, os.environ)
            self._command(github.command(level, text, title=title, file=place))

    @contextlib.contextmanager
    def _group(self, name: str) -> Iterator[None]:
        self._command(github.command("group", name))
        try:
            with self._literally():
                yield
        finally:
            self._command(github.command("endgroup"))

    @contextlib.contextmanager
    def _literally(self) -> Iterator[None]:
        """Keep the runner from obeying what the block prints."""
        token = github.new_token()
        self._command(github.stop_commands(token))
        self._token = token
        try:
            yield
        finally:
            self._token = ""
            self._command(github.resume_commands(token))

    def _command(self, text: str) -> None:
        """Say something to the runner, also where it obeys nothing."""
        if self._token:
            resume, stop = github.resume_commands(self._token), github.stop_commands(self._token)
            text = f"{resume}\n{text}\n{stop}"
        self._write(text)

    def _write(self, text: str) -> None:
        """Print it as it stands: the terminal itself lets no command through."""
        self.terminal.file.write(f"{text}\n")
        self.terminal.file.flush()

    def _say(self, markup: str) -> None:
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
        """Show a download's progress until the block ends.

        Args:
            name: of the file.
            total: bytes, None where the server didn't say.
            done: bytes that are there already.

        Yields:
            A function that takes the bytes that are there by now.
        """
        if self.is_quiet or not is_live(self.terminal):
            with self.live(name) as line:
                of_all = f" of {show_size(total)}" if total else ""
                yield lambda size: line.show(f"{show_size(size)}{of_all}")
            return
        with new_bar(self.terminal) as bar:
            row = bar.add_task(name, total=total, completed=done)
            yield lambda size: bar.update(row, completed=size)

    @contextlib.contextmanager
    def downloads(self, title: str, total: int | None, *, files: int) -> Iterator[Downloads]:
        """Show several downloads at once until the block ends; nothing else live goes in it.

        Args:
            title: names all of them together.
            total: bytes of all; None where they aren't known.
            files: how many there are.
        """
        shown = Downloads(self, title, total, files)
        shown.start()
        try:
            yield shown
        finally:
            shown.close()

    def note(self, text: str) -> None:
        """Say something that belongs to the stage now running."""
        self._say(f"  {rich.markup.escape(as_typed(text))}")

    def warn(self, text: str) -> None:
        """Say something that the reader should look at, though it stops nothing; once.

        Preflight, for one, is asked twice in a build.
        """
        text = as_typed(text)
        if text in self._warnings:
            return
        self._warnings.add(text)
        if self._is_github:
            self._command(github.command("warning", text))
        else:
            self.terminal.print(f"  [yellow]warning[/] {rich.markup.escape(text)}")


def silent_console() -> Console:
    """A console that nobody sees, for work whose messages come again from elsewhere."""
    return Console(rich.console.Console(file=io.StringIO()))


def print_error(error: CuwheelError, console: Console, explanation: str = "") -> None:
    """Print an error, and what is known of its cause.

    Args:
        error: what was raised.
        console: where to.
        explanation: what its log says.
    """
    first = error.first if isinstance(error, CommandFailedError) else None
    text = f"{error}\n\n{explanation}" if explanation else str(error)
    why = first.text if first else error.why
    file, line = (first.file, first.line) if first else ("", "")
    console.error(text, title=f"{error.what}: {why}", file=file, line=line)
    rows = {"failed": error.what, "because": why, "to fix": error.fix}
    said = github.block(explanation) if explanation else ()
    github.add_to_summary((*github.table(rows), *said), os.environ)
