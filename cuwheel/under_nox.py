"""Sessions of a noxfile: one for each build, and one for each other command.

Called by the repository's `noxfile.py` and by those of the projects that `cuwheel init` makes, in
the Python that runs nox.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from pathlib import Path

import nox
import nox.registry

from cuwheel.base.caller import Caller
from cuwheel.base.paths import ROOT, is_checkout
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue, missing_roots
from cuwheel.build.recipe.nox_sessions import (
    OF_CHECKOUT,
    Session,
    misplaced_python,
    requested_sessions,
    sessions_of,
    suggest_sessions,
)

_FAILED = re.compile(r"^Command .* -m cuwheel\.bootstrap .*(exit code -?\d+.*)", re.DOTALL)
_GRACE = 20.0  # seconds to end a build's processes and remove incomplete files


def add_sessions(*excluded: str) -> None:
    """Add the sessions of the project's recipes and of all other commands."""
    logging.getLogger("nox").addFilter(_shorten)
    nox.options.default_venv_backend = "none"  # cuwheel.bootstrap makes hash-locked environments
    for session in sessions_of(_entries()):
        if session.name not in excluded and (is_checkout() or session.name not in OF_CHECKOUT):
            _add_session(session)


def tell_unknown() -> None:
    """Print suggestions for unknown sessions on the command line; to be called last."""
    names = requested_sessions(sys.argv[1:])
    # nox has changed to the project's folder; the shell's variable still names the user's.
    folder = Path(os.environ.get("PWD", "."))
    files = [name for name in names if (folder / name).exists()]
    for line in (
        *missing_roots(Caller(os.environ).roots),
        *suggest_sessions(names, nox.registry.get(), _entries(), files=files),
        *misplaced_python(sys.argv[1:]),
    ):
        print(f"cuwheel: {line}", file=sys.stderr)  # noqa: T201 - nox itself only reports "not found"


def shows_help(session: nox.Session, usage: str) -> bool:
    """Print a session's usage and return True, if `--help` is its first argument."""
    is_help = not {"-h", "--help"}.isdisjoint(session.posargs[:1])
    if is_help:
        print(f"usage: nox -s {session.name} -- {usage}")  # noqa: T201 - as argparse does
    return is_help


def run(session: nox.Session, environment: str, *command: str, **variables: str) -> None:
    """Run Python in one of the hash-locked environments, with additional variables."""
    session.run(
        *(sys.executable, "-P" if sys.version_info >= (3, 11) else "-s"),
        *("-m", "cuwheel.bootstrap", environment, *command),
        env={"PYTHONPATH": str(ROOT), "PYTHONHOME": None, **variables},
        external=True,
        log=False,
        stderr=None,  # nox would put it into standard output, which is for data and reports
        interrupt_timeout=_GRACE,
        terminate_timeout=_GRACE,
    )


def run_command(session: nox.Session, *command: str, environment: str = "engine") -> None:
    """Run one of the engine's commands with the arguments behind `--`."""
    if not {"--help", "-h"}.isdisjoint(session.posargs):  # which needs no framework
        environment = "engine"
    run(
        session,
        *(environment, "-m", "cuwheel", *command, *session.posargs),
        CUWHEEL_CALLERS_PYTHONPATH=os.environ.get("PYTHONPATH", ""),
        CUWHEEL_CALLERS_PYTHONHOME=os.environ.get("PYTHONHOME", ""),
        CUWHEEL_INVOKED_FROM=session.invoked_from,
        CUWHEEL_PARENT=str(os.getpid()),
    )


@functools.cache
def _entries() -> tuple[CatalogueEntry, ...]:
    return load_catalogue(Caller(os.environ).roots)


def _shorten(record: logging.LogRecord) -> bool:
    """Leave out nox's line about uv, and cuwheel's own command line from the one about its failure.

    nox looks for uv in every session; these make no environment, and uv comes with the engine.
    """
    text = record.getMessage()
    if failed := _FAILED.search(text):
        record.msg, record.args = failed[1], ()
    return text != "uv binary not found."


def _add_session(declaration: Session) -> None:
    def body(session: nox.Session) -> None:
        run_command(session, *declaration.command, environment=declaration.environment)

    body.__doc__ = declaration.summary
    nox.session(name=declaration.name, tags=[declaration.tag])(body)
