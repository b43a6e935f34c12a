"""The sessions that fetch what builds need: `toolchain`, and `mirror` for builds elsewhere."""

from __future__ import annotations

import argparse

from cuwheel.base.caller import Caller
from cuwheel.base.errors import InterpreterNotFoundError, UsageError
from cuwheel.base.fetch.urls import MIRROR_VARIABLE
from cuwheel.base.system.console import Console
from cuwheel.base.system.pythons import Interpreter, find_python, own_python
from cuwheel.build.locks.mirror import mirror
from cuwheel.build.locks.mirror_folder import README, served_name
from cuwheel.build.pipeline.machine_checks import check_platform
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.workspace.problems import raise_problems
from cuwheel.build.workspace.request import OPTIONS
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.check.cuda.toolkits import TOOLKITS, toolkit_by_release
from cuwheel.cli.parser import Parser, new_parser, refuse_none
from cuwheel.cli.target_choice import (
    TARGETS,
    build_options,
    choose_target,
    named_targets,
    release_of,
    request_of,
)


def mirror_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "mirror",
        "Write everything that a target needs to a folder, for builds without a network.",
        {
            **TARGETS,
            "--to DIR": "folder of the mirror; an existing mirror is kept and completed",
            "--python 3.12...": "a Python to run nox with and to build for, repeatable; default: "
            "the one that runs nox here",
            **build_options("framework", "host_compiler"),
            "--toolchain {pypi,debian,conda,redist}": OPTIONS["toolchain"].metadata["help"],
            "--source FILE": "the archive that the recipe pins, if this machine can't download it",
            **build_options("platform", "target_root"),
        },
    )


def run_mirror(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Write a mirror."""
    named = named_targets("mirror", args.targets, caller)
    if not args.to:
        raise UsageError(
            "nox -s mirror --: --to is missing",
            why="it is the folder to write",
            fix=f"nox -s mirror -- {' '.join(args.targets)} --to DIR",
        )
    releases = [_release(python, caller) for python in args.python or [own_python().release]]
    source = caller.path(args.source) if args.source else None
    plain = request_of(args, caller, source=None)
    workspace = bare_workspace(console, caller)
    targets = [
        choose_target(entry, tag, release, plain, workspace)
        for entry, tag in named
        for release in releases
    ]
    raise_problems((fault for target in targets for fault in check_platform(target)), "mirror")
    with console.stage("mirror"):
        done = mirror(
            targets,
            caller.path(args.to),
            workspace,
            source=source,
            pythons=releases,  # a wheel of the stable ABI is built with another one
        )
    console.print_durations()
    console.note(f"{done.folder} has {done.files} files, {done.size / (1 << 30):.2f} GiB,")
    console.note(
        f"everything for {', '.join(done.targets)}; its {README} explains how to use it. To build:"
    )
    console.note(f"  export {MIRROR_VARIABLE}={done.folder.as_uri()}")
    for name in dict.fromkeys(map(served_name, targets)):
        console.note(f"  {done.targets[name].command}")


def _release(text: str, caller: Caller) -> str:
    python: Interpreter | InterpreterNotFoundError
    try:
        python = find_python(text, caller.environ)
    except InterpreterNotFoundError as missing:
        python = missing
    return release_of(text, python)


def toolchain_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "toolchain",
        "Make CUDA toolchains and print their folders.",
        {
            "toolkits 130*": "CUDA releases, as in target names",
            **build_options("toolchain", "offline"),
        },
    )


def run_toolchain(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Make toolchains."""
    refuse_none("toolchain", "toolkit", args.toolkits, [toolkit.tag for toolkit in TOOLKITS])
    toolkits = [toolkit_by_release(name) for name in args.toolkits]
    workspace = bare_workspace(console, caller)
    for toolkit in toolkits:
        provider = args.toolchain or toolkit.provider
        with console.stage("toolchain"):
            console.note(f"  CUDA {toolkit.release} from the provider {provider}")
            toolchain = provide_toolchain(
                toolkit, provider, workspace, offline=args.offline, reads_all=True
            )
        console.print_durations()
        print(toolchain.home)  # noqa: T201 - data, for scripts
