"""Terminals and logs in which text from outside has no effect but to be read."""

from __future__ import annotations

import codecs
import io
import locale
import os
import re
import sys
from collections.abc import Iterable, Mapping

import rich.console
import rich.segment

from cuwheel.base.system.output import github

_PLAIN = "cuwheel-plain"  # an error handler of `codecs`
_PLAIN_FORMS = {"…": "...", "→": "->", "\u00d7": "x", "µ": "u", "─": "-"}
_LOG_WIDTH = 120  # characters, where there is no terminal
# C0 and C1 but for line feed and tabulator, and changes of the writing direction (UAX #9).
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def use_locale(environ: Mapping[str, str]) -> None:
    """Write to standard output and error in the terminal's encoding.

    cuwheel runs in Python's UTF-8 mode, so that files mean the same everywhere; a terminal or a log
    of another encoding would show two or three wrong characters for one.
    """
    codecs.register_error(_PLAIN, _in_plain_characters)
    encoding = None if environ.get("PYTHONIOENCODING") else locale.nl_langinfo(locale.CODESET)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding or stream.encoding, errors=_PLAIN)


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = "".join(_PLAIN_FORMS.get(character, character) for character in lacking)
    return plain.encode("ascii", "backslashreplace").decode(), error.end


def report_terminal() -> rich.console.Console:
    """Return standard output, for a report that is the result of a command."""
    return make_terminal(stderr=False)


def one_line(text: str) -> str:
    """Return a text from outside, such as a file's name, with its ends of lines escaped."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


class _Terminal(rich.console.Console):
    """Terminal that escapes control characters: a text may come from another user's file.

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


def plain(text: str) -> str:
    """Return a text without control characters, which XML can't hold."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)


def visible(text: str) -> str:
    """Return a text with its control characters escaped."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def make_terminal(*, stderr: bool) -> rich.console.Console:
    """Return standard output or standard error."""
    is_sized = os.environ.get("COLUMNS") or os.isatty(2 if stderr else 1)
    width = None if is_sized else _LOG_WIDTH
    terminal = _Terminal(stderr=stderr, highlight=False, width=width, soft_wrap=True)
    terminal.is_github = github.is_github(os.environ)
    return terminal


def printable(text: str) -> str:
    """Return a text for standard output: no workflow command in a step of GitHub Actions."""
    return github.without_commands(text) if github.is_github(os.environ) else text


def is_live(terminal: rich.console.Console) -> bool:
    """Return True if a line can be redrawn in place: not in a pipe, not on a dumb terminal."""
    return terminal.is_terminal and not terminal.is_dumb_terminal


def spinner(terminal: rich.console.Console) -> str:
    """Return the name of a spinner with characters that the terminal has."""
    return "dots" if terminal.encoding.startswith("utf") else "line"
