"""Files that Python runs when it starts, where one of them ends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.process import run

_TIME_LIMIT = 15.0  # seconds
# What `python -v` prints of them (`site.py`, `importlib._bootstrap_external`).
_READ = re.compile(r"^(?:Processing \.pth file: |# code object from )'?(.*?)'?$", re.MULTILINE)
_NAMES = re.compile(r"\.pth$|(^|/)(sitecustomize|usercustomize)(\.|/)")
_COMPILED = re.compile(r"__pycache__/(\w+)\.[\w-]+\.pyc$")


def find_ending_file(python: Path, environ: Mapping[str, str]) -> str:
    """Return the startup file at which Python ends; empty if it starts, or fails without any."""
    if _run(python, environ, "-c", "")[0] or not _run(python, environ, "-S", "-c", "")[0]:
        return ""
    files = filter(_NAMES.search, _READ.findall(_run(python, environ, "-v", "-c", "")[1]))
    last = next(reversed(list(files)), "")
    return _COMPILED.sub(r"\1.py", last)


def _run(python: Path, environ: Mapping[str, str], *words: str) -> tuple[bool, str]:
    try:
        done = run([python, *words], env=environ, timeout=_TIME_LIMIT, check=False)
    except CommandFailedError as problem:
        return False, problem.why
    return done.status == 0, done.output
