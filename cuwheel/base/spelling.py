"""Commands in messages, as the caller types them: through nox, or with the console script.

The sources have commands in nox's form, `nox -s lock -- build:NAME`; callers of the console script
(`cuwheel.entry` sets `CUWHEEL_ENTRY`) read `cuwheel lock build:NAME`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

ENTRY_VARIABLE = "CUWHEEL_ENTRY"

_UNSAFE_PATH = (  # -P is as old as Python 3.11
    "import sys; del sys.path[0]; import runpy; "
    "runpy.run_module('cuwheel', run_name='__main__', alter_sys=True)"
)
# A Python's options to run the package that PYTHONPATH names, not one in the working directory.
AS_MODULE = ("-P", "-m", "cuwheel") if sys.version_info >= (3, 11) else ("-c", _UNSAFE_PATH)

# The session of a build has its target in its name, and a recipe begins with no dash.
_SESSION = re.compile(r"\bnox -s (build(?=-))?-?([^\s`,;:)]+)( --(?![\w-]))?")
# An option without its command; after another option the dashes are another program's.
_OPTION = re.compile(r"(\s-[\w-]+ )?(?<![\w-])-- (?=--?\w)")
_PAGE = re.compile(
    r"(?<![\w./-])(?:docs/[\w./-]+|TROUBLESHOOTING|CONTRIBUTING)\.md(?:#[\w-]+)?"
    r"(?![\w#-]| in cuwheel's)"
)
_ENTRY = re.compile(r"(?<![\w./-])TROUBLESHOOTING\.md#([\w-]+)")  # `explain` prints it


def is_console_script(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if this command was typed as `cuwheel …`, not as a session of nox."""
    return environ.get(ENTRY_VARIABLE) == "cuwheel"


def as_typed(text: str) -> str:
    """Return a text with the commands in it as this caller types them."""
    if not is_console_script():
        return text
    text = _SESSION.sub(lambda match: f"cuwheel {'build ' if match[1] else ''}{match[2]}", text)
    text = _OPTION.sub(lambda match: match[0] if match[1] else "", text).replace(
        "nox -l", "cuwheel help"
    )
    if _has_pages():
        return text
    return _PAGE.sub(r"\g<0> in cuwheel's repository", _ENTRY.sub(r"cuwheel explain \1", text))


def _has_pages() -> bool:
    """Return True if this cuwheel is a checkout: the package has no pages."""
    root = f"{os.path.dirname(__file__)}/../.."  # noqa: PTH120 - before pathlib
    return os.path.exists(f"{root}/TROUBLESHOOTING.md")  # noqa: PTH110 - likewise
