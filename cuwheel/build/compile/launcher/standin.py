"""Objects without content in place of a package's own, and the commands that would compile them.

A trial of single files (`build/pipeline/package_build/trial.py`) runs a package's build for its
command lines: every file of the source becomes an empty object, so that all of them are listed.
"""

from __future__ import annotations

import os

from cuwheel.build.compile.memory_gate import child, event_log

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from cuwheel.build.compile.launcher.rewrite import CompilerCommand, Settings

COMMANDS = "CUWHEEL_COMMANDS"  # variable: the file that gets the commands; `child` has no other
TREE = "CUWHEEL_TREE"  # variable: the folder of the package's source
# Files of a package's configuration: what it finds out depends on whether they compile.
_OF_CONFIGURATION = ("/CMakeFiles/", "/conftest", "/meson-private/")


def is_own(command: CompilerCommand) -> bool:
    """Return True if a trial lists this compile: it makes an object from a file of the source."""
    if not os.environ.get(COMMANDS) or not command.output:
        return False
    path = os.path.realpath(command.source_path)
    is_inside = path.startswith(f"{os.path.realpath(os.environ[TREE])}/")
    return is_inside and not any(part in path for part in _OF_CONFIGURATION)


def stand_in(name: str, arguments: list[str], command: CompilerCommand, settings: Settings) -> None:
    """Log the compiler's arguments, folder and variables; become a compile of an empty file."""
    fields: dict[str, object] = {
        "name": name,
        "arguments": tuple(arguments),
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes long to import
        "file": command.source,
        "path": os.path.realpath(command.source_path),
        "archs": command.archs,
        "variables": tuple(f"{key}={value}" for key, value in os.environ.items()),
    }
    event_log.append(os.environ[COMMANDS], fields)
    if command.depfile:
        with open(command.depfile, "w", encoding="utf-8") as rule:  # noqa: PTH123 - as above
            rule.write(f"{command.output}:\n")
    compiler = settings.host["cc"]
    child.become([compiler, "-c", "-x", "c", "/dev/null", "-o", command.output])
