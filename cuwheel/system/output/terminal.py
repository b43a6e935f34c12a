"""Where text goes: a terminal or a log, in which nothing from outside does more than be read."""

from __future__ import annotations

import codecs
import io
import locale
import os
import re
import sys
from typing import TYPE_CHECKING

import rich.console
import rich.segment

from cuwheel.system.output import github

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PLAIN = "cuwheel-plain"  # an error handler of `codecs`
_PLAIN_FORMS = {"…": "...", "→": "->", "\u00d7": "x", "µ": "u", "─": "-"}
_LOG_WIDTH = 120  # characters, where there is no terminal that has one
# C0 and C1 but for line feed and tabulator, and what turns the direction of writing (UAX #9).
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def use_locale(environ: Mapping[str, str]) -> None:
    """Write to standard output and error in the encoding that the terminal has.

    cuwheel runs in Python's UTF-8 mode, so that files mean the same everywhere; a terminal or a log
    of another encoding would show two or three wrong characters for one.
    """
    codecs.register_error(_PLAIN, _in_plain_characters)
    encoding = None if environ.get("PYTHONIOENCODING") else locale.nl_langinfo(locale.CODESET)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding or stream.encoding, errors=_PLAIN)


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = "".join(_PLAIN_FORMS.get(one, one) for one in lacking)
    return plain.encode("ascii", "backslashreplace").decode(), error.end


def report_terminal() -> rich.console.Console:
    """Standard output, for a report that is the very thing a session was asked for."""
    return make_terminal(stderr=False)


def one_line(text: str) -> str:
    """A text from outside, such as a file's name, that must not look like more than one line."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


class _Terminal(rich.console.Console):
    """Shows control characters of a text and lets none through: it may be of a stranger's file.

    They could clear the screen, set the window's title, or turn the direction of writing. In a step
    of GitHub Actions, nothing that it prints is a workflow command.
    """

    is_github = False

    def render(
        self,
        renderable: rich.console.RenderableType,
        options: rich.console.ConsoleOptions | None = None,
    ) -> Iterable[rich.segment.Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or (text.isprintable() and not self.is_github):
                yield segment
            else:
                shown = visible(text)
                harmless = github.without_commands(shown) if self.is_github else shown
                yield rich.segment.Segment(harmless, style)


def visible(text: str) -> str:
    """A text with its control characters written out."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def make_terminal(*, stderr: bool) -> rich.console.Console:
    """Standard output or standard error."""
    is_sized = os.environ.get("COLUMNS") or os.isatty(2 if stderr else 1)
    width = None if is_sized else _LOG_WIDTH
    made = _Terminal(stderr=stderr, highlight=False, width=width, soft_wrap=True)
    made.is_github = github.is_github(os.environ)
    return made


def is_live(terminal: rich.console.Console) -> bool:
    """Whether a line can be redrawn in place: not in a pipe, not on a dumb terminal."""
    return terminal.is_terminal and not terminal.is_dumb_terminal


def spinner(terminal: rich.console.Console) -> str:
    """A spinner of characters that the terminal has."""
    return "dots" if terminal.encoding.startswith("utf") else "line"
