"""The session `pick`."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.urls import is_local, local_path
from cuwheel.base.system.console import Console
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.cli.parser import ENVIRONMENT, JSON_TEXT, Option, Parser, existing, new_parser

if TYPE_CHECKING:
    from cuwheel.check.pick.machine import TargetMachine


def pick_parser() -> Parser:
    """Return the parser of the session."""
    why = "one describes another machine, the other selects an environment of this one"
    return new_parser(
        "pick",
        "Show which wheel of a package fits this machine, or why none does; install nothing.",
        {
            "package PACKAGE": "its name; 'flash-attn>=2.8' limits the versions, 'jax[cuda13]' "
            "adds an extra",
            **ENVIRONMENT,
            "--for MACHINE": Option(
                "another machine, described as python=3.12,torch=2.11,cuda=13.0,arch=90, also "
                "with glibc=, driver=, platform=, jax=; what isn't named counts as unknown",
                default="",
            ),
            **index_option(),
            "--pre": "also consider pre-releases",
            "--quiet": "print only the wheel and the install command, or why none fits",
            "--verbose": "list each index with what it has",
            "--json": JSON_TEXT,
        },
        excludes={("--for", "--python"): why},
    )


def index_option(first: str = "") -> dict[str, str]:
    """Return `--index`."""
    return {
        "--index ADDRESS...": "where to look, repeatable: an index, a site of `nox -s index`, a "
        f"page with wheels, a release's page or GitHub API URL, a folder; default: {first}"
        "CUWHEEL_INDEXES, and the indexes configured for pip and uv"
    }


def run_pick(args: argparse.Namespace, console: Console, caller: Caller) -> int:
    """Find the wheel; return the exit code."""
    # What reads indexes and wheels loads slowly, and a wrong option needs none of it.
    from cuwheel.check.diagnose.diagnose import callers_environment  # noqa: PLC0415
    from cuwheel.check.pick.pick import PickOptions, pick_session  # noqa: PLC0415

    options = PickOptions(
        wanted=read_requirement(args.package, pre=args.pre),
        python=args.python,
        paper=getattr(args, "for"),
        indexes=tuple(given_address(caller, text) for text in args.index),
        listed=listed_addresses(caller, console),
        start=caller.path("."),
        as_json=args.json,
    )
    advise = partial(_advise, caller)
    return pick_session(options, console, callers_environment(caller.environ), advise)


def _advise(caller: Caller, wanted: Requirement, machine: TargetMachine) -> str:
    from cuwheel.build.pipeline.build_advice import build_advice  # noqa: PLC0415 - slow, and seldom needed

    return build_advice(load_catalogue(caller.roots), caller.project / "dist", wanted, machine)


def read_requirement(text: str, *, pre: bool) -> Requirement:
    """Return a package's name, with versions if there are any."""
    try:
        wanted = Requirement(text)
    except InvalidRequirement as problem:
        raise UsageError(
            f'"{text}" is not a package name',
            why=str(problem).splitlines()[0],
            fix=_requirement_fix(text),
        ) from None
    if wanted.url or wanted.marker:
        raise UsageError(
            f'"{text}" is more than a package and its versions',
            why="URLs and markers are not supported here",
            fix=f"write {wanted.name}",
        )
    wanted.name = canonicalize_name(wanted.name)
    if pre:
        wanted.specifier.prereleases = True
    return wanted


def _requirement_fix(text: str) -> str:
    """Return how to write what a text means: a release of a package, or its build for a CUDA."""
    name, _, rest = re.sub(r"[\s@=:]+", " ", text.strip()).partition(" ")
    if re.fullmatch(r"v?\d+(\.\d+)+\S*", rest):
        return f"write {name}=={rest.removeprefix('v')}"
    if cuda := re.fullmatch(r"(?:cu|cuda)[\s-]?(\d\d)\.?(\d)", rest):
        return (
            f"write {name}, and the CUDA in the machine: --for python=3.12,cuda={cuda[1]}.{cuda[2]}"
        )
    return "write flash-attn, or 'flash-attn>=2.8'"


def as_address(caller: Caller, text: str) -> str:
    """Return an address; a path becomes one."""
    return text if "://" in text else caller.path(text).as_uri()


def listed_addresses(caller: Caller, console: Console) -> tuple[str, ...]:
    """Return the addresses in `CUWHEEL_INDEXES` without missing folders of this machine."""
    from cuwheel.check.pick.pick import INDEXES_VARIABLE  # noqa: PLC0415 - as in `run_pick`

    paths = caller.environ.get(INDEXES_VARIABLE, "").split()
    addresses = []
    for number, path in enumerate(paths, 1):
        address = as_address(caller, path)
        if is_local(address) and not local_path(address).exists():
            console.warn(
                f"{INDEXES_VARIABLE} names {path} (entry {number} of {len(paths)}), a folder that "
                "doesn't exist: it is skipped. Mount or create it, or remove it from the variable; "
                "URLs start with https://"
            )
        else:
            addresses.append(address)
    return tuple(addresses)


def given_address(caller: Caller, text: str) -> str:
    """Return an `--index` as an address; raise a UsageError for a missing folder."""
    address = as_address(caller, text)
    if is_local(address):
        fix = "give the folder with the wheels, or an index with http:// or https://"
        existing(local_path(address), "--index", fix)
    return address
