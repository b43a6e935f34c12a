"""The console script `cuwheel`: the commands of the nox sessions, without nox.

Commands that only read and report run in the environment that cuwheel is installed in; all others
in the engine's, which bootstrap makes from the lock in the wheel: docs/adr/0036.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from cuwheel.base.caller import Caller
from cuwheel.base.errors import CuwheelError, UsageError
from cuwheel.base.fetch.urls import is_web
from cuwheel.base.last_resort import check_folder, check_open_files, report_limits
from cuwheel.base.paths import find_project, is_checkout
from cuwheel.base.project_trust import TRUSTED_VARIABLE, change_trust, is_public, is_trusted
from cuwheel.base.spelling import AS_MODULE, ENTRY_VARIABLE

# Commands that read and report, and the packages, as they are imported, that each needs in addition
# to cuwheel's own requirements. The extras of pyproject.toml bring them.
PACKAGES = {
    "audit": ("abi3info", "auditwheel", "lz4", "readme_renderer", "zlib_ng", "zstandard"),
    "completion": (),
    "diagnose": (),
    "explain": (),
    "help": (),
    "init": (),
    "trust": (),
    "pick": (
        *("filelock", "google.protobuf", "in_toto_attestation", "pypi_simple", "requests"),
        *("truststore", "zlib_ng", "zstandard"),
    ),
}
_OF_DOWNLOADS = ("requests", "truststore")
# Commands that need no project.
_ANYWHERE = frozenset(
    {*PACKAGES, "attestations", "cache", "get", "index", "mcp", "rebuild", "slim", "toolchain"}
)
# Of `pick`: those that need uv, and others with a value.
_OPTIONS_OF_STACKS = frozenset({"--lock", "--requirement", "-r"})
_VALUED_OPTIONS = frozenset({"--for", "--index", "--python", "--sources"})

Environment = Literal["", "dev", "engine", "mcp", "perf", "report"]


def main() -> int:
    """Run the command of the command line; return its exit code, if no environment takes over."""
    report_limits()
    arguments = sys.argv[1:]
    if arguments[:1] in (["--version"], ["-V"]):
        from cuwheel.version import __version__  # noqa: PLC0415

        print(f"cuwheel {__version__}")  # noqa: T201 - that's the answer
        return 0
    os.environ[ENTRY_VARIABLE] = "cuwheel"
    os.environ["PATH"] = path_of_caller(os.environ)
    command = command_of(arguments)
    try:
        check_open_files()
        check_folder()
        check_place(command, arguments)
    except CuwheelError as error:
        _print(error)
        if "--json" in arguments:
            from cuwheel.base.system.output.documents import (  # noqa: PLC0415 - seldom needed
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
    return bootstrap.main([environment, *AS_MODULE, *arguments])


def path_of_caller(environ: Mapping[str, str]) -> str:
    """Return `PATH` without the environment for cuwheel that `uvx` puts in front of it.

    The `python3` there isn't the one that `diagnose` and `pick` are to examine.
    """
    path = environ.get("PATH", os.defpath)
    tool_folder = os.path.join(sys.prefix, "bin")  # noqa: PTH118 - as PATH has it
    first, _, rest = path.partition(os.pathsep)
    is_tool = "UV" in environ and environ.get("VIRTUAL_ENV") != sys.prefix
    return rest if is_tool and first == tool_folder and rest else path


def command_of(arguments: Sequence[str]) -> str:
    """Return the command of a command line; `help` where there is none."""
    return "help" if not arguments or arguments[0] in {"--help", "-h"} else arguments[0]


def environment_of(command: str, arguments: Sequence[str]) -> Environment:
    """Return the environment that a command runs in; empty for the one of this process."""
    helped = _helped_command(command, arguments)
    if helped and _has_parser(helped):
        return ""
    if command == "help" and helped:
        command = helped
    packages = PACKAGES.get(command)
    if packages is None:  # an unknown command is refused at once
        from cuwheel.build.recipe.nox_sessions import VERBS  # noqa: PLC0415 - readers start without

        return next((verb.environment for verb in VERBS if verb.name == command), "")
    if command == "diagnose" and "--targets" in arguments:  # reads recipes
        return "engine"
    if command == "pick" and _is_stack(arguments[1:]):  # runs uv
        return "engine"
    if command == "audit" and any(map(is_web, arguments)):
        packages += _OF_DOWNLOADS
    return "" if all(map(_is_installed, packages)) else "report"


def _helped_command(command: str, arguments: Sequence[str]) -> str:
    """Return the command whose help is printed; empty where none is."""
    if command == "help":
        return next((word for word in arguments[1:] if not word.startswith("-")), "")
    return "" if {"--help", "-h"}.isdisjoint(arguments) else command


def _has_parser(command: str) -> bool:
    """Return True if a command's options can be read with the packages that are here."""
    from cuwheel.cli.dispatch import parser_of  # noqa: PLC0415 - readers start without

    try:
        parser_of(command)
    except ModuleNotFoundError:
        return False
    except CuwheelError:  # an unknown command is refused at once
        pass
    return True


def check_place(command: str, arguments: Sequence[str]) -> None:
    """Raise UsageError where a command can't work here, before anything is installed for it."""
    if command in PACKAGES:
        return
    from cuwheel.build.recipe.nox_sessions import OF_CHECKOUT, VERBS  # noqa: PLC0415 - as above

    if command in OF_CHECKOUT and not is_checkout():
        raise UsageError(
            f"cuwheel {command} only works in cuwheel's own repository",
            why="it reads or writes files that an installed cuwheel doesn't have",
            fix="clone the repository, and run the nox session of this name there",
        )
    is_help = not {"--help", "-h"}.isdisjoint(arguments)
    if is_help or command not in {verb.name for verb in VERBS}:
        return
    if command not in _ANYWHERE and find_project() is None and len(Caller(os.environ).roots) == 1:
        raise UsageError(
            f"cuwheel {command} needs a project, and there is none here",
            why=f"neither {os.getcwd()} nor a folder above it has recipes/",  # noqa: PTH109
            fix="change to a project's folder, or make one here: `cuwheel init`; audit, diagnose, "
            "explain and pick work without a project",
        )
    check_trust(command)


def check_trust(command: str) -> None:
    """Raise UsageError where the project's recipes may not run; at a terminal, prompt once.

    Commands that need no project run without it.
    """
    project = find_project()
    if project is None or is_checkout():
        return
    if not is_trusted(project, os.environ) and command in _ANYWHERE:
        _print(f"cuwheel: {project} isn't trusted, so its recipes and locks are not used")
        return
    if not is_trusted(project, os.environ) and not _is_allowed(project):
        raise UsageError(
            f"{project} isn't trusted, so its recipes don't run",
            why="recipes are Python, and cuwheel has never run those of this folder for this user; "
            "or the folder was replaced, or everybody can write into it",
            fix=f"read them, then run `cuwheel trust {shlex.quote(str(project))}`; for one "
            f"command, as in CI, set CUWHEEL_PROJECT={shlex.quote(str(project))}",
        )
    os.environ[TRUSTED_VARIABLE] = os.path.realpath(project)


def _is_allowed(project: Path) -> bool:
    """Prompt for permission to run the recipes, and record it; False without a terminal."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        return False
    if is_public(project):
        return False
    _print(f"cuwheel: the recipes in {project} are Python, and have never been run for you.")
    print("Trust this folder and run them? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201 - as _print
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        return False
    with contextlib.suppress(OSError):  # no home: it is valid for this run
        change_trust(project, os.environ, trusts=True)
    return True


def _print(text: object) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - there is no console yet


def _is_stack(arguments: Sequence[str]) -> bool:
    """Return True if `pick` gets several packages, a file of them, or is to write a lock."""
    if any(word.partition("=")[0] in _OPTIONS_OF_STACKS for word in arguments):
        return True
    before = ("", *arguments)
    names = [
        word
        for option, word in zip(before, arguments, strict=False)
        if not word.startswith("-") and option not in _VALUED_OPTIONS
    ]
    return len(names) > 1 or any(name.endswith((".toml", ".txt")) for name in names)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the parent of a dotted name
        return False


if __name__ == "__main__":
    sys.exit(main())
