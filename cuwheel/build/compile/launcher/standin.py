"""Objects without content in place of a package's own, and the commands that would compile them.

A dry run of a package's build (`build/pipeline/package_build/dry_run.py`) is for its command lines:
every file of the source becomes an empty object, so that all of them are listed in seconds. A
program that is linked from such objects becomes a script that notes that the build has run it.
"""

from __future__ import annotations

import os

from cuwheel.build.compile.launcher import command_line, kept_files
from cuwheel.build.compile.memory_gate import child, event_log

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from typing import NoReturn

    from cuwheel.build.compile.launcher.rewrite import CompilerCommand, Settings

COMMANDS = "CUWHEEL_COMMANDS"  # variable: the file that gets the commands; `child` has no other
TREE = "CUWHEEL_TREE"  # variable: the folders of the package's sources, with colons between them
REAL = "CUWHEEL_REAL"  # variable: a file with the sources and programs that are made all the same
CALLED = "called"  # file next to that of the commands: the stand-ins of programs that were run
# Folders of a package's configuration: what it finds out depends on whether they compile.
_OF_CONFIGURATION = ("/conftest", "/meson-private/")
_CMAKES_OWN, _OF_TARGET = "/CMakeFiles/", ".dir/"
_SHARED = {"-shared", "--shared"}
_OBJECT_LINKS = {"-dlink", "--device-link", "-r"}
_NO_LINK = {"-c", "--compile", "-E", "--preprocess", "-M", "-MM", "-S", "-dryrun", "--dryrun"}
_NO_LINK |= {"-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin", "-lib", "--lib", "-###"}
_INPUTS = (".o", ".obj", ".a")
# Lines of a gated compiler's script in a dry run: links go through the launcher, once.
LISTED_LINK = """\
case " $* " in
*" -c "*|*" -E "*|*" -shared "*) ;;
*.o" "*) [ -n "$CUWHEEL_LINKS" ] || {{ export CUWHEEL_LINKS=1; exec {program} "$@"; }} ;;
esac"""
_PROGRAM = """\
#!/bin/sh
echo {program} >> {called}
echo cuwheel: {program} has no content, as nothing is compiled while compiles are listed >&2
exit 127
"""


def is_own(command: CompilerCommand) -> bool:
    """Return True if a dry run lists this compile: it makes an object from a file of the source."""
    if not os.environ.get(COMMANDS) or not command.output:
        return False
    path = os.path.realpath(command.source_path)
    return _is_in_package(path) and not _is_real(path)


def _is_in_package(path: str) -> bool:
    """Return True for a file of the package or of its build, but not of its configuration."""
    folders = os.environ[TREE].split(":")
    if not any(path.startswith(f"{os.path.realpath(folder)}/") for folder in folders):
        return False
    return not any(map(_is_of_configuration, (path, f"{os.getcwd()}/")))  # noqa: PTH109


def _is_of_configuration(path: str) -> bool:
    """Return True for what a build system compiles to learn about the compiler.

    CMake does so in its own folder, where it also keeps a folder for each target.
    """
    inner = path.partition(_CMAKES_OWN)[2]
    is_cmakes = bool(inner) and _OF_TARGET not in inner
    return is_cmakes or any(part in path for part in _OF_CONFIGURATION)


def _is_real(path: str) -> bool:
    try:
        real = kept_files.read(os.environ.get(REAL, ""))
    except OSError:
        return False
    return path.encode("utf-8", "surrogateescape") in real.split(b"\n")


def own_variables() -> tuple[str, ...]:
    """Return this process's variables, which a dry run lists; nothing in a build."""
    if not os.environ.get(COMMANDS):
        return ()
    return tuple(f"{key}={value}" for key, value in os.environ.items())


def stand_in(
    name: str,
    arguments: list[str],
    variables: tuple[str, ...],
    command: CompilerCommand,
    settings: Settings,
) -> NoReturn:
    """Log the compiler's arguments, folder and variables; become a compile of an empty file."""
    fields: dict[str, object] = {
        "name": name,
        "arguments": tuple(arguments),
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes long to import
        "file": command.source,
        "path": os.path.realpath(command.source_path),
        "output": os.path.realpath(command.output),
        "archs": command.archs,
        "is_by_arch": int(command.is_by_arch),
        "variables": variables,
    }
    event_log.append(os.environ[COMMANDS], fields)
    if command.depfile:
        with open(command.depfile, "w", encoding="utf-8") as rule:  # noqa: PTH123 - as above
            rule.write(f"{command.output}:\n")
    _become_empty(command.output, settings)


def _become_empty(output: str, settings: Settings, *options: str) -> NoReturn:
    words = options or ("-c",)
    child.become([settings.host["cc"], *words, "-x", "c", "/dev/null", "-o", output])


def stand_in_for_link(name: str, arguments: list[str], settings: Settings) -> bool:
    """Make an empty library or a script for what can't be linked from objects without content.

    A shared library of such objects can be linked, and is.

    Returns:
        True if the output is made; False: the linker is to run.
    """
    if not os.environ.get(COMMANDS):
        return False
    words, sources = _read(name, arguments)
    names = {word.name for word in words}
    outputs = [word.value for word in words if word.name in {"-o", "--output-file"}]
    inputs = [word.value for word in words if not word.name and word.value.endswith(_INPUTS)]
    output = os.path.realpath(outputs[-1]) if outputs else ""
    if not output or names & _NO_LINK or not _is_in_package(output) or _is_real(output):
        return False
    is_shared = bool(names & _SHARED)
    if is_shared and sources:
        _become_empty(output, settings, "-shared", "-nostdlib")
    if is_shared or not inputs:
        return False
    if names & _OBJECT_LINKS:
        _become_empty(output, settings)
    _write_program(output, inputs)
    return True


def _read(name: str, arguments: list[str]) -> tuple[list[command_line.Word], list[str]]:
    """Return the words of a command line, and the sources among them."""
    if name == "nvcc":
        words = command_line.read_nvcc(command_line.with_nvcc_files(arguments))
        return words, command_line.nvcc_sources(words)
    words = command_line.read_host(command_line.with_host_files(arguments))
    return words, command_line.host_sources(words)


def _write_program(output: str, inputs: list[str]) -> None:
    """Write a script in a program's place, and log the objects that the program is made of."""
    commands = os.environ[COMMANDS]
    fields: dict[str, object] = {
        "program": output,
        "inputs": tuple(map(os.path.realpath, inputs)),
    }
    event_log.append(commands, fields)
    called = os.path.join(os.path.dirname(commands), CALLED)  # noqa: PTH118, PTH120
    text = _PROGRAM.format(program=_quoted(output), called=_quoted(called))
    if os.path.lexists(output):
        os.unlink(output)  # noqa: PTH108
    with open(output, "w", encoding="utf-8", errors="surrogateescape") as stream:  # noqa: PTH123
        stream.write(text)
    os.chmod(output, 0o755)  # noqa: PTH101, S103 - a program


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"
