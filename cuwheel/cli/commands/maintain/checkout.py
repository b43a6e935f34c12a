"""Sessions that write files of cuwheel's own repository: its pages, tables and package."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import file_lock, list_tree, naming_full_disk, new_file
from cuwheel.base.system.folders.output_folder import (
    FolderKind,
    check_files,
    check_output,
    check_writable,
    entries_of,
    shown,
    shown_names,
    write_files,
)
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import attach
from cuwheel.base.system.regular_files import open_file, read_bytes
from cuwheel.build.drafts.updates.torch_symbols import update_torch_symbols
from cuwheel.cli.parser import Parser, new_parser

DOCS_FOLDER = FolderKind(name="docs site", what="a site of `nox -s site`")


def docs_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser("docs", "Write the pages that are generated from the code.")


def run_docs(_: argparse.Namespace, console: Console, _caller: Caller) -> None:
    """Write the generated pages."""
    # The pages import every command.
    from cuwheel.cli.reference.write import write_documents  # noqa: PLC0415

    for path in write_documents(ROOT):
        console.note(f"wrote {path.relative_to(ROOT)}")


def completions_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "completions", "Write the bash, zsh and fish completions from the commands' options."
    )


def run_completions(_: argparse.Namespace, console: Console, _caller: Caller) -> None:
    """Write the completions."""
    from cuwheel.cli.reference.completions import write_completions  # noqa: PLC0415 - likewise

    for path in write_completions():
        console.note(f"wrote {path.relative_to(ROOT)}")


def site_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "site",
        "Write docs/ as a site and check its links.",
        {
            "folder DIR?": "an empty or new folder, a pages checkout, or an earlier site; default: "
            "public/docs",
            "--source DIR": argparse.SUPPRESS,
            "--built DIR": argparse.SUPPRESS,
        },
    )


def run_site(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Write the generator's source, or put its output in place."""
    folder = caller.path(args.folder) if args.folder else ROOT / "public" / "docs"
    if args.source:
        from cuwheel.cli.reference.site_source import write_site_source  # noqa: PLC0415 - likewise

        check_output(folder, DOCS_FOLDER)
        check_files(folder, DOCS_FOLDER)
        write_site_source(caller.path(args.source))
    elif args.built:
        put_site(caller.path(args.built), folder)
        console.note(f"wrote {folder / 'index.html'}")
    else:
        raise UsageError(
            "the site is built by nox alone",
            why="its generator has an environment of its own",
            fix="start it as a session of nox: `site`",
        )


def put_site(built: Path, folder: Path) -> None:
    """Put a site in place of an earlier one; other files stay.

    Raises:
        UsageError: the folder, or a file in the place of a page, isn't of `nox -s site`.
        DiskFullError: no space is left.
    """
    pages = {str(name): read_bytes(built / name) for name in list_tree(built)}
    check_output(folder, DOCS_FOLDER)
    with file_lock(folder / ".lock"), naming_full_disk(folder):
        write_files(folder, DOCS_FOLDER, (pages,))


def torch_symbols_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "torch-symbols",
        "Read the exported symbols of PyTorch releases, for the audit: downloads 430 to 820 MB "
        "per release.",
        {
            "releases 2.16.0*": "PyTorch releases; default: the newest of each minor release "
            "missing in the table"
        },
    )


def run_torch_symbols(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Write the table."""
    update_torch_symbols(args.releases, console, caller)


def package_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "package",
        "Build cuwheel's own sdist and wheel, and check both.",
        {"folder DIR?": "an empty or new folder; default: public/package"},
    )


def run_package(args: argparse.Namespace, console: Console, caller: Caller) -> int:
    """Write cuwheel's own package into an empty or new folder."""
    folder = caller.path(args.folder) if args.folder else ROOT / "public" / "package"
    check_writable(folder)
    if folder.is_dir() and (names := entries_of(folder)):
        raise UsageError(
            f"{shown(folder)} isn't empty",
            why=f"it holds {shown_names(names)}, and what is uploaded from there is one release",
            fix="remove them, or give another folder",
        )
    with temporary_folder() as scratch:
        status = _run(caller, "build", "--no-isolation", "--outdir", str(scratch), str(ROOT))
        files = sorted(map(str, scratch.iterdir()))
        wheels = [name for name in files if name.endswith(".whl")]
        status = status or _run(caller, "twine", "check", "--strict", *files)
        rules = ("--config", str(ROOT / "pyproject.toml"))
        status = status or _run(caller, "check_wheel_contents", *rules, *wheels)
        if status:
            return status
        for name in files:
            with open_file(name) as source, new_file(folder / Path(name).name) as written:
                shutil.copyfileobj(source, written)
            console.note(f"wrote {folder / Path(name).name}")
    return 0


def _run(caller: Caller, *argv: str) -> int:
    return attach([sys.executable, "-m", *argv], env=caller.environ)
