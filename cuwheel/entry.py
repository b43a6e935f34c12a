"""The console script `cuwheel`: the commands of the nox sessions, without nox.

What only reads and reports runs in the environment that cuwheel is installed in; all else in the
engine's, which bootstrap makes from the lock that travels in the wheel: docs/adr/0036.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Literal

from cuwheel.errors import CuwheelError, ProjectError
from cuwheel.paths import find_project, is_checkout, project_roots
from cuwheel.spelling import ENTRY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Commands that read and report, and the packages, as they are imported, that each needs beside
# those that cuwheel is always installed with. The extras of pyproject.toml bring them.
PACKAGES = {
    "audit": ("abi3info", "auditwheel", "lz4", "readme_renderer", "zlib_ng", "zstandard"),
    "completion": (),
    "diagnose": (),
    "explain": (),
    "help": (),
    "init": (),
    "pick": (
        *("filelock", "google.protobuf", "in_toto_attestation", "pypi_simple", "requests"),
        *("truststore", "zlib_ng", "zstandard"),
    ),
}
# Those that need no project.
_ANYWHERE = frozenset({*PACKAGES, "attestations", "cache", "index", "rebuild", "toolchain"})

# Runs the package that PYTHONPATH names, whatever lies in the working directory.
_UNSAFE_PATH = (  # -P is as old as Python 3.11
    "import sys; del sys.path[0]; import runpy; "
    "runpy.run_module('cuwheel', run_name='__main__', alter_sys=True)"
)
_AS_MODULE = ("-P", "-m", "cuwheel") if sys.version_info >= (3, 11) else ("-c", _UNSAFE_PATH)

Environment = Literal["", "report", "engine", "perf"]


def main() -> int:
    """Run the command that stands on the command line.

    Returns:
        Its exit code; where another environment takes over, it doesn't return.
    """
    arguments = sys.argv[1:]
    if arguments[:1] in (["--version"], ["-V"]):
        from cuwheel.version import __version__  # noqa: PLC0415

        print(f"cuwheel {__version__}")  # noqa: T201 - that's the answer
        return 0
    os.environ[ENTRY_VARIABLE] = "cuwheel"
    os.environ["PATH"] = path_of_caller(os.environ)
    command = command_of(arguments)
    try:
        check_place(command, arguments)
    except CuwheelError as error:
        print(error, file=sys.stderr)  # noqa: T201 - nothing has started that prints better
        if "--json" in arguments:
            from cuwheel.system.output.documents import (  # noqa: PLC0415 - seldom needed
                ErrorDocument,
                as_line,
            )

            print(as_line(ErrorDocument.of(error)))  # noqa: T201 - likewise
        return error.exit_code
    environment = environment_of(command, arguments)
    if not environment:
        from cuwheel.__main__ import main as run  # noqa: PLC0415 - after all that is quicker

        return run([command, *arguments[1:]])
    from cuwheel import bootstrap  # noqa: PLC0415 - likewise

    os.environ.setdefault("CUWHEEL_CALLERS_PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return bootstrap.main([environment, *_AS_MODULE, *arguments])


def path_of_caller(environ: Mapping[str, str]) -> str:
    """`PATH` without what `uvx` puts in front of it: its environment for cuwheel.

    The `python3` there isn't the one that `diagnose` and `pick` are asked about.
    """
    path = environ.get("PATH", os.defpath)
    own = os.path.join(sys.prefix, "bin")  # noqa: PTH118 - as PATH has it
    first, _, rest = path.partition(os.pathsep)
    is_tool = "UV" in environ and environ.get("VIRTUAL_ENV") != sys.prefix
    return rest if is_tool and first == own and rest else path


def command_of(arguments: Sequence[str]) -> str:
    """The command that a command line names; `help` where it names none."""
    is_help = not arguments or arguments[0] in {"--help", "-h"}
    return "help" if is_help else arguments[0]


def environment_of(command: str, arguments: Sequence[str]) -> Environment:
    """The environment that a command runs in; empty for the one that this process has."""
    packages = PACKAGES.get(command)
    if packages is None:  # one that there isn't is refused at once
        from cuwheel.model.nox_sessions import VERBS  # noqa: PLC0415 - readers start without

        return next((one.environment for one in VERBS if one.name == command), "")
    if command == "diagnose" and "--targets" in arguments:  # what a build needs, of all recipes
        return "engine"
    return "" if all(map(_is_installed, packages)) else "report"


def check_place(command: str, arguments: Sequence[str]) -> None:
    """See that a command is started where it can work, before anything is installed for it.

    Raises:
        ProjectError: it needs a project, or cuwheel's own repository.
    """
    if command in PACKAGES:
        return
    from cuwheel.model.nox_sessions import OF_CHECKOUT, VERBS  # noqa: PLC0415 - as above

    if command in OF_CHECKOUT and not is_checkout():
        raise ProjectError(
            f"cuwheel {command} only works in cuwheel's own repository",
            why="it reads or writes files that an installed cuwheel doesn't have",
            fix="clone the repository, and run the nox session of this name there",
        )
    is_asked_for_help = not {"--help", "-h"}.isdisjoint(arguments)
    if command in _ANYWHERE or is_asked_for_help or command not in {v.name for v in VERBS}:
        return
    if find_project() is None and len(project_roots()) == 1:
        raise ProjectError(
            f"cuwheel {command} needs a project, and there is none here",
            why=f"neither {os.getcwd()} nor a folder above it has recipes/",  # noqa: PTH109
            fix="change to a project's folder, or make one here: `cuwheel init`; audit, diagnose, "
            "explain and pick work without a project",
        )


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of what a dotted name begins with
        return False


if __name__ == "__main__":
    sys.exit(main())
