"""An error on the terminal, and in the summary of a step of GitHub Actions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from cuwheel.base.errors import CommandFailedError, CuwheelError
from cuwheel.base.system.output import github

if TYPE_CHECKING:
    from cuwheel.base.system.console import Console


def print_error(error: CuwheelError, console: Console, explanation: str = "") -> None:
    """Print an error, and the explanation of its cause."""
    first = error.first if isinstance(error, CommandFailedError) else None
    text = f"{error}\n\n{explanation}" if explanation else str(error)
    why = first.text if first else error.why
    file, line = (first.file, first.line) if first else ("", "")
    console.error(text, title=f"{error.what}: {why}", file=file, line=line)
    if console.has_summary:
        _add_to_summary(
            console, {"failed": error.what, "because": why, "to fix": error.fix}, explanation
        )


def _add_to_summary(console: Console, rows: dict[str, str], explanation: str) -> None:
    """Mask secrets: GitHub doesn't find one of its own that Markdown has escaped."""
    with contextlib.suppress(ImportError):  # the error may be that a package is missing
        from cuwheel.build.workspace.masking import PublicText  # noqa: PLC0415 - its rules take time to load

        text = PublicText({}, names=False)
        public = {name: text.of(value) for name, value in rows.items()}
        block = github.block(text.of(explanation)) if explanation else ()
        console.add_to_summary((*github.table(public), *block))
