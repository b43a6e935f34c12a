"""`cuwheel init`: a project folder whose first recipe builds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.errors import FileAccessError, UsageError
from cuwheel.paths import given_path
from cuwheel.system.files import write_atomically
from cuwheel.system.whole_files import read_text
from cuwheel.version import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cuwheel.system.console import Console

STARTER = Path(__file__).parents[2] / "starter"
FIRST_TARGET = "hello-cuda-130"
_EXAMPLE = "hello"  # begins the names of the first recipe, its lock and its source
_HIDDEN = {"gitignore": ".gitignore", "github": ".github"}  # by what they are called in the starter
_VERSION = "CUWHEEL_VERSION"  # stands in the workflow
_KEPT = ".gitkeep"
_README = "README.md"
_SPARED = frozenset({".gitignore", _README})  # a new repository has them; they stay


def init_parser() -> Parser:
    """The command line of the command."""
    parser = new_parser("init", "Make a project: noxfile, recipes/, envs/, patches/, a workflow.")
    parser.add_argument(
        "folder", nargs="?", default=".", metavar="DIR", help="default: the current folder"
    )
    parser.add_argument(
        "--bare", action="store_true", help="without the first recipe, hello-cuda, and its source"
    )
    return parser


def run_init(given: argparse.Namespace, console: Console) -> None:
    """Write the files of a project; none that is there is changed.

    Raises:
        UsageError: some of them are there, beside those that every repository has.
        FileAccessError: a file stands where the folder should be.
    """
    folder = given_path(given.folder)
    files = _files(is_bare=given.bare)
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
    console.note(f"{folder}: {len(due)} files, for cuwheel {__version__}")
    for name in there:
        console.note(f"{name} was left unchanged")
    console.note("next:")
    if given.folder != ".":
        console.note(f"  cd {shlex.quote(given.folder)}")
    if not given.bare:
        console.note(f"  cuwheel build {FIRST_TARGET}")
    console.note("  cuwheel new NAME   # drafts the recipe of a package of the index")


def _files(*, is_bare: bool) -> Mapping[str, str]:
    """What is written: path in the project → text."""
    found = {_name(path): _text(path) for path in _starter(is_bare=is_bare)}
    if not is_bare:
        return found
    lines = found[_README].splitlines(keepends=True)
    readme = "".join(line for line in lines if FIRST_TARGET not in line)
    return {**found, _README: readme, f"recipes/{_KEPT}": "", f"envs/{_KEPT}": ""}


def _starter(*, is_bare: bool) -> list[Path]:
    paths = [path for path in sorted(STARTER.rglob("*")) if path.is_file()]
    inside = [path for path in paths if "__pycache__" not in path.parts]
    return [path for path in inside if not (is_bare and _is_example(path))]


def _is_example(path: Path) -> bool:
    return any(part.startswith(_EXAMPLE) for part in path.relative_to(STARTER).parts)


def _name(path: Path) -> str:
    first, *rest = path.relative_to(STARTER).parts
    return "/".join((_HIDDEN.get(first, first), *rest))


def _text(path: Path) -> str:
    return read_text(path).replace(_VERSION, __version__)
