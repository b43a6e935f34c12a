"""How messages write a command: as it is typed by whoever started this one.

The sources have commands as nox takes them, `nox -s lock -- build:NAME`. Whoever came by the
console script (`cuwheel.entry` says so in `CUWHEEL_ENTRY`) reads `cuwheel lock build:NAME`.
"""

from __future__ import annotations

import os
import re

ENTRY_VARIABLE = "CUWHEEL_ENTRY"

# The session of a build has its target in its name, and a recipe begins with no dash.
_SESSION = re.compile(r"\bnox -s (build(?=-))?-?([^\s`,;:)]+)( --(?![\w-]))?")
_OPTION = re.compile(r"(^|[:;,] )-- (?=--\w)")  # one that stands alone
_PHRASES = (
    ("`nox -l` lists after `build-`", "`cuwheel help` lists after `build`"),
    ("nox -l", "cuwheel help"),
    ("start it through nox: ", ""),
    ("lists the sessions", "lists the commands"),
    ("put --help after `--` to see", "add --help to see"),
    ("with the same options after `--`", "with the same options"),
    ("nox was started", "cuwheel was started"),
    ("that runs nox", "that runs cuwheel"),
    ("the session supports", "the command supports"),
)


def is_console_script() -> bool:
    """Whether this command was typed as `cuwheel …`, not as a session of nox."""
    return os.environ.get(ENTRY_VARIABLE) == "cuwheel"


def as_typed(text: str) -> str:
    """A text of cuwheel's, with the commands in it as this caller types them."""
    if not is_console_script():
        return text
    for of_nox, ours in _PHRASES:
        text = text.replace(of_nox, ours)
    return _SESSION.sub(_command, _OPTION.sub(r"\1", text))


def _command(found: re.Match[str]) -> str:
    build, name, _ = found.groups()
    return f"cuwheel build {name}" if build else f"cuwheel {name}"
