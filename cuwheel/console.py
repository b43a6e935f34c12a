"""What the person at the terminal sees: stages, one live line, notes; plain text in a log."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import rich.console
import rich.markup
import rich.progress

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME_WIDTH = 12  # characters, the longest stage name and a space
_PLAIN_INTERVAL = 15.0  # seconds between two lines of progress where there is no terminal


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


class Console:
    """Prints for a person.

    Args:
        terminal: where to; standard error unless given, so that standard output stays for data.
    """

    def __init__(self, terminal: rich.console.Console | None = None) -> None:
        width = None if os.environ.get("COLUMNS") or os.isatty(2) else 120
        self.terminal = terminal or rich.console.Console(
            stderr=True, highlight=False, width=width, soft_wrap=True
        )
        self.durations: dict[str, float] = {}

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
    def download(self, name: str, total: int | None, done: int) -> Iterator[rich.progress.Progress]:
        """Show a download's progress bar.

        Args:
            name: of the file.
            total: bytes, None where the server didn't say.
            done: bytes that are there already.

        Yields:
            The bar; `bar.update(bar.task_ids[0], completed=bytes)` moves it.
        """
        bar = rich.progress.Progress(
            rich.progress.TextColumn("  {task.description}"),
            rich.progress.BarColumn(),
            rich.progress.DownloadColumn(binary_units=True),
            rich.progress.TransferSpeedColumn(),
            rich.progress.TimeRemainingColumn(),
            console=self.terminal,
            transient=True,
        )
        with bar:
            bar.add_task(name, total=total, completed=done)
            yield bar

    def note(self, text: str) -> None:
        """Say something that belongs to the stage now running."""
        self.terminal.print(f"  {rich.markup.escape(text)}")

    def warn(self, text: str) -> None:
        """Say something that the reader should look at, though it stops nothing."""
        self.terminal.print(f"  [yellow]warning[/] {rich.markup.escape(text)}")
