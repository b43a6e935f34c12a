"""What the person at the terminal sees: stages, one live line, notes; plain text in a log."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Protocol

import rich.console
import rich.filesize
import rich.markup
import rich.progress
import rich.segment

from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

_NAME_WIDTH = 12  # characters, the longest stage name and a space
_LOG_WIDTH = 120  # characters, where there is no terminal that has one
# C0 and C1 but for line feed and tabulator, and what turns the direction of writing (UAX #9).
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_PLAIN_INTERVAL = 15.0  # seconds between two lines of progress where there is no terminal


def report_terminal() -> rich.console.Console:
    """Standard output, for a report that is the very thing a session was asked for."""
    return _terminal(stderr=False)


def one_line(text: str) -> str:
    """A text from outside, such as a file's name, that must not look like more than one line."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


class _Terminal(rich.console.Console):
    """Shows control characters of a text and lets none through: it may be of a stranger's file.

    They could clear the screen, set the window's title, or turn the direction of writing.
    """

    def render(
        self,
        renderable: rich.console.RenderableType,
        options: rich.console.ConsoleOptions | None = None,
    ) -> Iterable[rich.segment.Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            is_ours = control or text.isprintable()
            yield segment if is_ours else rich.segment.Segment(_visible(text), style)


def _visible(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _terminal(*, stderr: bool) -> rich.console.Console:
    is_sized = os.environ.get("COLUMNS") or os.isatty(2 if stderr else 1)
    width = None if is_sized else _LOG_WIDTH
    return _Terminal(stderr=stderr, highlight=False, width=width, soft_wrap=True)


class Live:
    """One line that changes while something runs.

    On a terminal it is redrawn in place; elsewhere (a CI log) it is printed anew now and then.
    """

    def __init__(self, terminal: rich.console.Console, title: str) -> None:
        self._terminal = terminal
        self._title = title
        self._printed = time.monotonic()
        self._status = terminal.status("") if terminal.is_terminal else None
        if self._status:
            self._status.start()

    def show(self, text: str) -> None:
        """Replace the line's text."""
        if self._status:
            self._status.update(rich.markup.escape(f"{self._title}  {text}"))
        elif time.monotonic() - self._printed > _PLAIN_INTERVAL:
            self._printed = time.monotonic()
            self._terminal.print(f"  {self._title}  {text}", markup=False, highlight=False)

    def close(self) -> None:
        """Take the line away."""
        if self._status:
            self._status.stop()


class Listener(Protocol):
    """Where a download reports its progress: the console itself, or the bar of many downloads."""

    def download(
        self, name: str, total: int | None, done: int
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Show one download; what the block gets takes the bytes that are there by now."""

    def note(self, text: str) -> None:
        """Say something."""

    def warn(self, text: str) -> None:
        """Say something that the reader should look at."""


class Downloads:
    """Several downloads at once under one bar; all of it may be called from any thread.

    On a terminal there is a row for all of them together, then one for each that is on its way;
    elsewhere (a CI log) a line is printed now and then.

    Args:
        console: what it is shown on.
        title: names all of them together.
        total: bytes of all; None where they aren't known.
        files: how many there are.
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
        self._bar = _bar(console.terminal)
        self._row = self._bar.add_task(self._named(), total=total)

    def start(self) -> None:
        """Show it."""
        if self._console.terminal.is_terminal:
            self._bar.start()

    def close(self) -> None:
        """Take it away."""
        if self._console.terminal.is_terminal:
            self._bar.stop()

    @contextlib.contextmanager
    def download(self, name: str, total: int | None, done: int) -> Iterator[Callable[[int], None]]:
        """Show one of them until the block ends, as `Console.download` does."""
        row = self._bar.add_task(name, total=total, completed=done)

        def move(size: int) -> None:
            self._bar.update(row, completed=size)
            self._count(name, size)

        try:
            yield move
        finally:
            self._bar.remove_task(row)

    def finish(self, name: str, size: int) -> None:
        """Count a file as complete, whether it was downloaded or was there: its size in bytes."""
        with self._guard:
            self._complete.add(name)
        self._count(name, size)

    def note(self, text: str) -> None:
        """Say something above the bar."""
        self._console.note(text)

    def warn(self, text: str) -> None:
        """Warn above the bar."""
        self._console.warn(text)

    def _count(self, name: str, size: int) -> None:
        with self._guard:
            self._here[name] = size
            done = sum(self._here.values())
            text = self._due_line(done)
        self._bar.update(self._row, completed=done, description=self._named())
        if text:
            self._console.terminal.print(text, markup=False, highlight=False)

    def _due_line(self, done: int) -> str:
        """The line for a log without terminal, when it is time for one."""
        is_due = time.monotonic() - self._printed > _PLAIN_INTERVAL
        if self._console.terminal.is_terminal or not is_due:
            return ""
        self._printed = time.monotonic()
        of_all = f" of {show_size(self._total)}" if self._total else ""
        return f"  {self._named()}, {show_size(done)}{of_all}"

    def _named(self) -> str:
        return f"{self._title}  {len(self._complete)} of {self._files} files"


class Console:
    """Prints for a person.

    Args:
        terminal: where to; standard error unless given, so that standard output stays for data.

    Attributes:
        is_verbose: tables are printed whole; else what they come to.
    """

    def __init__(self, terminal: rich.console.Console | None = None) -> None:
        self.terminal = terminal or _terminal(stderr=True)
        self.is_verbose = False
        self.durations: dict[str, float] = {}
        self._warnings: set[str] = set()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage, then say how long it took, in seconds."""
        started = time.monotonic()
        in_ci = os.environ.get("GITHUB_ACTIONS") == "true"
        self.terminal.print(f"[bold cyan]{name:<{_NAME_WIDTH}}[/]")
        if in_ci:
            self.terminal.print(f"::group::{name}")
        try:
            yield
        finally:
            self.durations[name] = time.monotonic() - started
            if in_ci:
                self.terminal.print("::endgroup::")
        self.terminal.print(f"  [green]done[/] in {self.durations[name]:.1f} s")

    @contextlib.contextmanager
    def live(self, title: str) -> Iterator[Live]:
        """Show one changing line until the block ends."""
        line = Live(self.terminal, title)
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
        if not self.terminal.is_terminal:
            with self.live(name) as line:
                of_all = f" of {show_size(total)}" if total else ""
                yield lambda size: line.show(f"{show_size(size)}{of_all}")
            return
        with _bar(self.terminal) as bar:
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
        self.terminal.print(f"  {rich.markup.escape(text)}")

    def warn(self, text: str) -> None:
        """Say something that the reader should look at, though it stops nothing; once.

        Preflight, for one, is asked twice in a build.
        """
        if text in self._warnings:
            return
        self._warnings.add(text)
        self.terminal.print(f"  [yellow]warning[/] {rich.markup.escape(text)}")


def _bar(terminal: rich.console.Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("  {task.description}", markup=False),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(binary_units=True),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
        console=terminal,
        transient=True,
    )
