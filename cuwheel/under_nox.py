"""What a noxfile takes of cuwheel: a session for each build, and for each other command.

Called by the repository's `noxfile.py` and by those of the projects that `cuwheel init` makes, in
the Python that runs nox. Face: `add_sessions`, `tell_unknown`,
`run`, `run_command`.
"""

from __future__ import annotations

import functools
import logging
import os
import sys

import nox
import nox.registry

from cuwheel.model.catalogue import CatalogueEntry, load_catalogue, missing_roots
from cuwheel.model.nox_sessions import (
    OF_CHECKOUT,
    Session,
    requested_sessions,
    sessions_of,
    suggest_sessions,
)
from cuwheel.paths import ROOT, is_checkout, project_roots

_GRACE = 20.0  # seconds to end a build's processes and remove what is half made


def add_sessions() -> None:
    """Make the sessions of the project's recipes, and of all other commands."""
    # nox looks for uv in every session; these make no environment, and uv comes with the engine.
    logging.getLogger("nox").addFilter(lambda record: record.msg != "uv binary not found.")
    nox.options.default_venv_backend = "none"  # cuwheel.bootstrap makes hash-locked environments
    for one in sessions_of(_entries()):
        if is_checkout() or one.name not in OF_CHECKOUT:
            _add_session(one)


def tell_unknown() -> None:
    """Say what is near to the sessions that are asked for and aren't there; call it last."""
    asked = requested_sessions(sys.argv[1:])
    for line in (
        *missing_roots(project_roots()),
        *suggest_sessions(asked, nox.registry.get(), _entries()),
    ):
        print(f"cuwheel: {line}", file=sys.stderr)  # noqa: T201 - nox itself only says "not found"


def run(session: nox.Session, environment: str, *command: str, **variables: str) -> None:
    """Run Python in one of the hash-locked environments, with variables of its own."""
    session.run(
        *(sys.executable, "-P" if sys.version_info >= (3, 11) else "-s"),
        *("-m", "cuwheel.bootstrap", environment, *command),
        env={"PYTHONPATH": str(ROOT), **variables},
        external=True,
        log=False,
        stderr=None,  # nox would put it into standard output, which is for data and reports
        interrupt_timeout=_GRACE,
        terminate_timeout=_GRACE,
    )


def run_command(session: nox.Session, *command: str, environment: str = "engine") -> None:
    """Run one of the engine's commands with what stands behind `--`."""
    run(
        session,
        *(environment, "-m", "cuwheel", *command, *session.posargs),
        CUWHEEL_CALLERS_PYTHONPATH=os.environ.get("PYTHONPATH", ""),
        CUWHEEL_INVOKED_FROM=session.invoked_from,
        CUWHEEL_PARENT=str(os.getpid()),
    )


@functools.cache
def _entries() -> tuple[CatalogueEntry, ...]:
    return load_catalogue(project_roots())


def _add_session(made: Session) -> None:
    def body(session: nox.Session) -> None:
        run_command(session, *made.command, environment=made.environment)

    body.__doc__ = made.summary
    nox.session(name=made.name, tags=[made.tag])(body)
