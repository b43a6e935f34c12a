"""What moves while something runs: a line, bars of downloads; in a log a line now and then."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Protocol

import rich.console
import rich.progress
import rich.text

from cuwheel.system.output.terminal import is_live, one_line, spinner
from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_PLAIN_INTERVAL = 15.0  # seconds between two lines of progress where there is no terminal


class Screen(Protocol):
    """What something live is shown on: the console."""

    terminal: rich.console.Console
    is_quiet: bool

    def note(self, text: str) -> None:
        """Say something."""

    def warn(self, text: str) -> None:
        """Say something that the reader should look at."""


class Live:
    """One line that changes while something runs.

    On a terminal it is redrawn in place; elsewhere (a CI log) it is printed anew now and then.

    Args:
        console: what it is shown on.
        title: stands at the line's beginning.
    """

    def __init__(self, console: Screen, title: str) -> None:
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
            self._status.update(self._cut(f"{self._title}  {text}"))
        elif time.monotonic() - self._printed > _PLAIN_INTERVAL:
            self._printed = time.monotonic()
            self._terminal.print(f"  {self._title}  {text}", markup=False, highlight=False)

    def close(self) -> None:
        """Take the line away."""
        if self._status:
            self._status.stop()

    def _cut(self, text: str) -> rich.text.Text:
        """As much as fits beside the spinner: a line that wraps jumps up and down."""
        shown = rich.text.Text(one_line(text))
        shown.truncate(max(self._terminal.width - 2, 1), overflow="ellipsis")
        return shown


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

    def __init__(self, console: Screen, title: str, total: int | None, files: int) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._files = files
        self._here: dict[str, int] = {}  # bytes of each file, complete or not
        self._complete: set[str] = set()
        self._printed = time.monotonic()
        self._guard = threading.Lock()
        self._bar = new_bar(console.terminal)
        self._row = self._bar.add_task(self._named(), total=total)
        self._is_shown = is_live(console.terminal) and not console.is_quiet

    def start(self) -> None:
        """Show it."""
        if self._is_shown:
            self._bar.start()

    def close(self) -> None:
        """Take it away."""
        if self._is_shown:
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
        if self._is_shown or self._console.is_quiet or not is_due:
            return ""
        self._printed = time.monotonic()
        of_all = f" of {show_size(self._total)}" if self._total else ""
        return f"  {self._named()}, {show_size(done)}{of_all}"

    def _named(self) -> str:
        return f"{self._title}  {len(self._complete)} of {self._files} files"


def new_bar(terminal: rich.console.Console) -> rich.progress.Progress:
    """Rows of downloads, taken away at their end."""
    return rich.progress.Progress(
        rich.progress.TextColumn("  {task.description}", markup=False),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(binary_units=True),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
        console=terminal,
        transient=True,
    )
