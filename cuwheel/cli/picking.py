"""What `pick`, `get` and `install` look for, and where; the answers of `pick`."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError, naming_option
from cuwheel.base.fetch.urls import check_url, is_local, is_web, local_path, redact_url
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.base.system.folders.output_folder import check_output_file, check_writable
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.build.pipeline.build_advice import build_advice, can_build
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.check.diagnose.diagnose import callers_environment
from cuwheel.check.pick.known_sources import Sources, read_sources
from cuwheel.check.pick.pick import INDEXES_VARIABLE, NONE_FITS, PickOptions, pick_session
from cuwheel.check.pick.requirement_files import quoted, read_requirement_file
from cuwheel.check.pick.stack_report import stack_lines
from cuwheel.cli.parser import existing
from cuwheel.publish.stack.lock import check_lock_name, write_lock
from cuwheel.publish.stack.stack import StackRequest, search_stack


def pick_wheels(args: argparse.Namespace, console: Console, caller: Caller) -> int:
    """Find the wheels; return the exit code."""
    request = stack_request(args, console, caller, papers=getattr(args, "for"))
    entries = load_catalogue(caller.roots)
    is_stack = len(request.wanted) > 1 or bool(args.requirement or args.lock)
    if request.more_papers and not args.lock:
        raise UsageError(
            "--for is given more than once",
            why="only a lock can be for several machines",
            fix="add --lock pylock.toml, or ask for each machine by itself",
        )
    if is_stack:
        return _pick_stack(args, request, console, caller, entries)
    [wanted] = request.wanted.values()
    options = PickOptions(
        wanted=wanted,
        python=args.python,
        paper=request.paper,
        indexes=request.indexes,
        listed=request.listed,
        sources=request.sources,
        start=request.start,
        as_json=args.json,
    )
    advise = partial(build_advice, entries, caller.project / "dist")
    return pick_session(options, console, callers_environment(caller.environ), advise)


def stack_request(
    args: argparse.Namespace, console: Console, caller: Caller, *, papers: Sequence[str] = ()
) -> StackRequest:
    """Return what the options want, for which machine, and from where."""
    named = [text for text in args.packages if not _is_file(text, caller)]
    files = [text for text in args.packages if text not in named]
    wanted = [read_requirement(text, pre=args.pre) for text in named]
    contents = []
    for text in (*files, *args.requirement):
        path = existing(caller.path(text), "--requirement", "name a requirements.txt")
        contents.append(read_requirement_file(path))
    wanted += [requirement for content in contents for requirement in content.requirements]
    if not wanted:
        raise UsageError(
            "no package is named",
            why="neither a name nor a file with requirements was given",
            fix="name packages, a requirements.txt or a pyproject.toml",
        )
    return StackRequest(
        wanted=_merged(wanted, pre=args.pre),
        constraints=tuple(line for content in contents for line in content.constraints),
        python=args.python,
        paper=papers[0] if papers else "",
        more_papers=tuple(papers[1:]),
        indexes=tuple(given_address(caller, text) for text in args.index),
        listed=listed_addresses(caller, console),
        more_indexes=tuple(address for content in contents for address in content.indexes),
        sources=chosen_sources(args, caller),
        start=caller.path("."),
    )


def chosen_sources(args: argparse.Namespace, caller: Caller) -> Sources:
    """Return the known sources to query; none where only `--index` says where to look."""
    if args.index and not args.sources:
        return Sources()
    return read_sources(args.sources, caller.environ)


def _is_file(text: str, caller: Caller) -> bool:
    """Return True for a name of a file; raise UsageError where there is no such file."""
    if not text.endswith((".toml", ".txt")):
        return False
    existing(caller.path(text), text, "give a requirements.txt, a pyproject.toml, or a package")
    return True


def _merged(wanted: Iterable[Requirement], *, pre: bool) -> dict[str, Requirement]:
    """Return requirements by project, each with all its limits and extras."""
    merged: dict[str, Requirement] = {}
    for requirement in wanted:
        known = merged.setdefault(requirement.name, requirement)
        if known is not requirement:
            known.specifier &= requirement.specifier
            known.extras |= requirement.extras
        if pre:
            known.specifier.prereleases = True
    return merged


def _pick_stack(
    args: argparse.Namespace,
    request: StackRequest,
    console: Console,
    caller: Caller,
    entries: tuple[CatalogueEntry, ...],
) -> int:
    path = lock_file(args, caller) if args.lock else None
    environ = callers_environment(caller.environ)
    advise = partial(build_advice, entries, caller.project / "dist")
    builds = partial(can_build, entries)
    with console.live("examining machine and indexes"):
        found = search_stack(request, environ, caller.cache, advise, builds)
    report = found.report
    if path and found.lock:
        with naming_option("--lock", path):
            write_lock(found.lock, path)
        report = replace(report, lock=caller.shown(path))
    if args.json:
        console.answer(report)
        return 0 if report.is_complete else NONE_FITS
    command = "" if report.lock or request.paper else get_command(args)
    amount = {"is_quiet": console.is_quiet, "is_verbose": console.is_verbose}
    terminal = report_terminal()
    for line in stack_lines(report, command, **amount):
        terminal.print(line, soft_wrap=True, markup=False, highlight=False)
    return 0 if report.is_complete else NONE_FITS


def lock_file(args: argparse.Namespace, caller: Caller) -> Path:
    """Return the file of `--lock`; raise UsageError for one that can't be it."""
    path = check_output_file(caller.path(args.lock), "--lock")
    existing(path.parent, "--lock", "make its folder first", is_folder=True)
    check_lock_name(path)
    with naming_option("--lock", path):
        check_writable(path.parent)
    return path


def get_command(args: argparse.Namespace) -> str:
    """Return the command that makes an environment of what was looked for, without passwords."""
    words = [*args.packages]
    for option in ("requirement", "index", "sources"):
        for value in getattr(args, option):
            words += [f"--{option}", redact_url(value) if "://" in value else value]
    return as_typed(f"nox -s get -- {shlex.join(words)}" + " --pre" * args.pre)


def read_requirement(text: str, *, pre: bool) -> Requirement:
    """Return a package's name, with versions if there are any."""
    try:
        wanted = Requirement(text)
    except InvalidRequirement as problem:
        raise UsageError(
            f'"{quoted(text)}" is not a package name',
            why=quoted(str(problem).partition("\n")[0]),
            fix=_requirement_fix(text),
        ) from None
    if wanted.url or wanted.marker:
        raise UsageError(
            f'"{quoted(text)}" is more than a package and its versions',
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


def _check_address(address: str, named: str) -> None:
    """Raise UsageError for an address that isn't read: malformed, or of another kind."""
    check_url(address, named)
    if not (is_local(address) or is_web(address)):
        raise UsageError(
            f"{named} is {redact_url(address)}, which can't be read",
            why=f"it begins with {address.partition('://')[0]}://; indexes are read by http and "
            "https, and from folders",
            fix="write https://HOST/PATH, or the path of a folder",
        )


def listed_addresses(caller: Caller, console: Console) -> tuple[str, ...]:
    """Return the addresses in `CUWHEEL_INDEXES` without missing folders of this machine."""
    paths = caller.environ.get(INDEXES_VARIABLE, "").split()
    addresses = []
    for number, path in enumerate(paths, 1):
        address = as_address(caller, path)
        _check_address(address, INDEXES_VARIABLE)
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
    _check_address(address, "--index")
    if is_local(address):
        fix = "give the folder with the wheels, or an index with http:// or https://"
        existing(local_path(address), "--index", fix)
    return address
