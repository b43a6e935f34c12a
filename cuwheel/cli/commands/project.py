"""Commands that the console script `cuwheel` has and nox doesn't: init, trust, help, completion."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import FileAccessError, UsageError
from cuwheel.base.paths import find_project, is_checkout
from cuwheel.base.project_trust import change_trust, is_public, trust_file
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.recipe.catalogue import load_catalogue, target_names
from cuwheel.build.recipe.nox_sessions import OF_CHECKOUT, VERBS, sessions_of
from cuwheel.cli.parser import Option, Parser, new_parser
from cuwheel.version import __version__

STARTER = Path(__file__).parents[1] / "starter"
FIRST_TARGET = "hello-cuda-130"
_EXAMPLE = "hello"  # begins the names of the first recipe, its lock and its source
_HIDDEN = {"gitignore": ".gitignore", "github": ".github"}  # by what they are called in the starter
_VERSION = "CUWHEEL_VERSION"  # a placeholder in the workflow
_KEPT = ".gitkeep"
_README = "README.md"
_SPARED = frozenset({".gitignore", _README})  # a new repository has them; they stay

_SCRIPTS = Path(__file__).parents[1] / "completions"  # cli/reference/completions writes them
_HOW = """how to use it:
  bash  cuwheel completion bash > ~/.local/share/bash-completion/completions/cuwheel
  zsh   cuwheel completion zsh > "${fpath[1]}/_cuwheel", before `compinit`
  fish  cuwheel completion fish > ~/.config/fish/completions/cuwheel.fish"""

_TITLES = {
    "report": "Inspect (needs no project)",
    "build": "Build",
    "target": "A built wheel, or any other",
    "maintain": "Maintain a project",
}
# Commands of the console script alone.
_OWN = {
    "init": "Make a project in a folder, with a first recipe: DIR.",
    "trust": "Let the recipes of a project folder run, which are Python: DIR.",
    "completion": "Print the completion script of a shell: bash|zsh|fish.",
}
_WIDTH = 14  # characters of the names' column


def init_parser() -> Parser:
    """Return the parser of the command."""
    return new_parser(
        "init",
        "Make a project: noxfile, recipes/, envs/, patches/, a workflow.",
        {
            "folder DIR?": Option("default: the current folder", default="."),
            "--bare": "without the first recipe, hello-cuda, and its source",
        },
    )


def run_init(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Write the files of a project; existing files aren't changed."""
    folder = caller.path(args.folder)
    files = _files(is_bare=args.bare)
    if folder.exists() and not folder.is_dir():
        raise FileAccessError(
            f"{folder} is not a folder", why="a file has this name", fix="use another folder"
        )
    there = [name for name in ("recipes", *files) if (folder / name).exists()]
    if refused := [name for name in there if name not in _SPARED]:
        raise UsageError(
            f"{folder} already has a project, or part of one",
            why=f"it contains {', '.join(refused[:3])}",
            fix="use another folder, `cuwheel init DIR`, or move them away",
        )
    due = {name: text for name, text in files.items() if name not in there}
    for name, text in due.items():
        write_atomically(folder / name, text)
    with contextlib.suppress(OSError):  # no home: the first command reports it
        change_trust(folder, caller.environ, trusts=True)
    console.note(f"{folder}: {len(due)} files, for cuwheel {__version__}")
    for name in there:
        console.note(f"{name} was left unchanged")
    console.note("next:")
    if args.folder != ".":
        console.note(f"  cd {shlex.quote(args.folder)}")
    if not args.bare:
        console.note(f"  cuwheel build {FIRST_TARGET}")
    console.note("  cuwheel new NAME   # drafts the recipe of a package of the index")


def _files(*, is_bare: bool) -> Mapping[str, str]:
    """Return the text of each file to write, by its path in the project."""
    texts = {}
    for path in sorted(STARTER.rglob("*")):
        first, *rest = path.relative_to(STARTER).parts
        is_example = any(part.startswith(_EXAMPLE) for part in (first, *rest))
        if path.is_file() and "__pycache__" not in (first, *rest) and not (is_bare and is_example):
            name = "/".join((_HIDDEN.get(first, first), *rest))
            texts[name] = read_text(path).replace(_VERSION, __version__)
    if not is_bare:
        return texts
    lines = texts[_README].splitlines(keepends=True)
    readme = "".join(line for line in lines if FIRST_TARGET not in line)
    return {**texts, _README: readme, f"recipes/{_KEPT}": "", f"envs/{_KEPT}": ""}


def trust_parser() -> Parser:
    """Return the parser of the command."""
    return new_parser(
        "trust",
        "Let the recipes of a project folder run: they are Python.",
        {
            "folder DIR?": Option("default: the current folder", default="."),
            "--remove": "no longer let them run",
        },
    )


def run_trust(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Change the user's list of trusted projects."""
    folder = caller.path(args.folder)
    if not args.remove and not (folder / "recipes").is_dir():
        raise UsageError(
            f"{folder} is not a project",
            why="it has no folder recipes/",
            fix="name the folder that contains recipes/: `cuwheel trust DIR`",
        )
    if not args.remove and is_public(folder):
        raise UsageError(
            f"{folder} can't be trusted",
            why="everybody can write into it, so anybody could have code run as you",
            fix=shlex.join(["chmod", "o-w", str(folder), str(folder / "recipes")]),
        )
    try:
        change_trust(folder, caller.environ, trusts=not args.remove)
    except OSError as error:
        raise FileAccessError(
            f"{trust_file(caller.environ)} can't be written",
            why=f"{error.strerror}: {error.filename}",
            fix=f"for one command, set CUWHEEL_PROJECT={shlex.quote(str(folder))}; or set "
            "XDG_STATE_HOME to a folder that you can write to",
        ) from error
    console.note(f"{folder} is {'no longer trusted' if args.remove else 'trusted'}")


def help_parser() -> Parser:
    """Return the parser of the command."""
    return new_parser(
        "help",
        "List the commands, and what can be built here.",
        {
            "command COMMAND?": "show this one's options, as its own --help does",
            "--targets": "print only the names of what can be built here",
        },
    )


def run_help(args: argparse.Namespace, _console: Console, caller: Caller) -> None:
    """Print the commands by their purpose, then the project's targets; or one command's help."""
    if args.command:
        from cuwheel.cli.dispatch import parser_of  # noqa: PLC0415 - it imports this module

        parser_of(args.command).print_help()
        return
    lines = target_names(load_catalogue(caller.roots)) if args.targets else _lines(caller)
    print(*lines, sep="\n")  # noqa: T201 - that's the answer


def _lines(caller: Caller) -> Iterator[str]:
    yield "usage: cuwheel COMMAND [ARGUMENTS]; `cuwheel COMMAND --help` shows its options"
    for tag, title in _TITLES.items():
        yield from ("", title)
        for verb in VERBS:
            if verb.tag == tag and (is_checkout() or verb.name not in OF_CHECKOUT):
                summary = re.sub(r"(?<=[ \[])-- ", "", verb.summary)  # nox's `--`
                yield f"  {verb.name:{_WIDTH}}{summary}"
    yield from (f"  {name:{_WIDTH}}{text}" for name, text in _OWN.items())
    yield ""
    yield from _targets(caller)


def _targets(caller: Caller) -> Iterator[str]:
    entries = load_catalogue(caller.roots)
    sessions = sessions_of(entries)
    builds = [build for build in sessions if build.tag == "build" and len(build.command) > 1]
    here = find_project()
    if here and here not in caller.roots:
        yield f"{here} isn't trusted, so its recipes are not loaded: `cuwheel trust {here}`"
        return
    if not builds:
        yield (
            f"{here} has no recipe yet"
            if here
            else "There is no project here: `cuwheel init` makes one"
        )
        return
    yield "What `cuwheel build` makes here"
    width = max(len(build.command[1]) for build in builds) + 2
    yield from (f"  {build.command[1]:{width}}{build.summary}" for build in builds)


def completion_parser() -> Parser:
    """Return the parser of the command."""
    parser = new_parser(
        "completion",
        "Print the shell completion of commands, options and targets.",
        {"shell {bash,zsh,fish}": "the shell"},
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HOW
    return parser


def run_completion(args: argparse.Namespace, _console: Console, _caller: Caller) -> None:
    """Print the script of a shell."""
    print(read_text(_SCRIPTS / f"cuwheel.{args.shell}"), end="")  # noqa: T201 - that's the answer
