"""The commands behind the sessions, by name; those of one target stand in `buildcommand`."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from cuwheel.audit.session import AuditOptions, audit_session
from cuwheel.binaries.archs import is_arch, sorted_archs
from cuwheel.cli import target_commands
from cuwheel.cli.options import maintain
from cuwheel.cli.options import report as report_options
from cuwheel.cli.reference.write import write_documents
from cuwheel.cli.target_choice import choose_target, framework_of, release_of
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.diagnose.rules.target_fit import fit_targets
from cuwheel.diagnose.session import DiagnoseOptions, diagnose_session
from cuwheel.errors import InterpreterNotFoundError, UsageError
from cuwheel.explain.session import explain_lines, explain_session
from cuwheel.fetch.mirrors import MIRRORS_VARIABLE
from cuwheel.locks.jobs import conda_jobs, lock_jobs
from cuwheel.locks.mirror import mirror
from cuwheel.locks.mirror_folder import README
from cuwheel.locks.resolve import check_locks, resolve_locks, verify_locks
from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.model.nox_sessions import check_builds
from cuwheel.paths import ROOT, given_path, project_roots
from cuwheel.system.pythons import Interpreter, find_python, own_python
from cuwheel.toolchains.provide import provide_toolchain
from cuwheel.wheel.index import write_index
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.target import Target
    from cuwheel.system.console import Console


def _lock(console: Console, arguments: Sequence[str]) -> None:
    given = maintain.parse_lock(arguments)
    entries = load_catalogue(project_roots())
    jobs = lock_jobs(given.names, entries, framework_of(given.framework))
    resolve_locks(jobs, bare_workspace(console), cooldown=given.cooldown, note=given.note)


def _lock_verify(console: Console, arguments: Sequence[str]) -> None:
    given = maintain.parse_lock_verify(arguments)
    jobs = conda_jobs(given.names, project_roots())
    verify_locks(jobs, bare_workspace(console), offline=given.offline)


def _lock_check(console: Console, arguments: Sequence[str]) -> None:
    maintain.parse_nothing("lock-check", arguments)
    jobs = lock_jobs(["all"], load_catalogue(project_roots()))
    check_locks(jobs)
    console.note(f"{len(jobs)} locks match their inputs")


def _toolchain(console: Console, arguments: Sequence[str]) -> None:
    tag, *rest = arguments
    given = maintain.parse_toolchain(f"toolchain-{tag}", rest)
    with console.stage("toolchain"):
        toolkit = toolkit_by_release(tag)
        provider = given.toolchain or toolkit.provider
        made = provide_toolchain(toolkit, provider, bare_workspace(console), offline=given.offline)
    print(made.home)  # noqa: T201 - data, for scripts


def _mirror(console: Console, arguments: Sequence[str]) -> None:
    given = maintain.parse_mirror(arguments)
    entries = load_catalogue(project_roots())
    check_builds(given.names, entries)
    pythons = given.python or [own_python().release]
    targets = [
        _mirrored_target(entries, name, asked, given) for name in given.names for asked in pythons
    ]
    source = given_path(given.source) if given.source else None
    with console.stage("mirror"):
        made = mirror(targets, given_path(given.to), bare_workspace(console), source=source)
    console.note(f"{made.folder} holds {made.files} files, {made.size / (1 << 30):.2f} GiB,")
    console.note(f"everything for {', '.join(made.commands)}; its {README} tells more. To build:")
    console.note(f"  export {MIRRORS_VARIABLE}={made.folder.as_uri()}")
    for name in given.names:
        console.note(f"  {made.commands[name]}")


def _mirrored_target(
    entries: tuple[CatalogueEntry, ...], name: str, asked: str, given: argparse.Namespace
) -> Target:
    recipe_name, _, tag = name.rpartition("-")
    plain = argparse.Namespace(**{**vars(given), "arch": [], "source": None, "link": None})
    found: Interpreter | InterpreterNotFoundError
    try:
        found = find_python(asked, os.environ)
    except InterpreterNotFoundError as missing:
        found = missing
    release = release_of(asked, found)
    return choose_target(find_recipe(recipe_name, entries), tag, release, plain)


def _index(console: Console, arguments: Sequence[str]) -> None:
    given = maintain.parse_index(arguments)
    dist = given_path(given.dist) if given.dist else ROOT / "dist"
    if given.dist and not dist.is_dir():
        raise UsageError(
            f"there is no folder {dist}",
            why="--dist names it, as seen from the folder in which nox was started",
            fix="name the folder that holds the wheels",
        )
    console.note(f"wrote {write_index(dist)}")


def _audit(console: Console, arguments: Sequence[str]) -> None:
    given = report_options.parse_audit(arguments)
    for arch in given.arch:
        if not is_arch(arch):
            raise UsageError(
                f"--arch {arch} is no compute capability",
                why="it is written without dot and without sm_: 90, 90a, 100f",
                fix="nox -s audit -- --arch 90 --arch 100 WHEEL",
            )
    asked = AuditOptions(
        archs=sorted_archs(given.arch),
        excludes=tuple(given.exclude),
        ignores_recipes=given.any_wheel,
        fails_on=given.fail_on,
        as_json=given.json,
    )
    wheels = [given_path(text) for text in given.wheels]
    audit_session(wheels, load_catalogue(project_roots()), console, asked)


def _explain(_: Console, arguments: Sequence[str]) -> None:
    given = report_options.parse_explain(arguments)
    folder = given_path(".")
    if given.jsonl:
        explain_lines(given.logs, folder)
    else:
        explain_session(given.logs, folder, as_json=given.json)


def _diagnose(console: Console, arguments: Sequence[str]) -> int:
    given = report_options.parse_diagnose(arguments)
    asked = DiagnoseOptions(
        packages=tuple(given.packages),
        python=given.python,
        start=given_path("."),
        as_json=given.json,
    )
    entries, workspace = load_catalogue(project_roots()), bare_workspace(console)
    fit = partial(fit_targets, entries, workspace) if given.targets else None
    return diagnose_session(asked, console, fit)


def _docs(console: Console, arguments: Sequence[str]) -> None:
    maintain.parse_nothing("docs", arguments)
    for path in write_documents(ROOT):
        console.note(f"wrote {path.relative_to(ROOT)}")


def unknown(_: Console, __: Sequence[str]) -> None:
    """Refuse a command that there isn't."""
    raise UsageError(
        "this command is not one of cuwheel's",
        why=f"known are: {', '.join(sorted(COMMANDS))}",
        fix="start it through nox: `nox -l` lists the sessions",
    )


# What a command gives back, where it gives something, is the exit code.
COMMANDS: dict[str, Callable[[Console, Sequence[str]], int | None]] = {
    "audit": _audit,
    "explain": _explain,
    "build": target_commands.build_target,
    "diagnose": _diagnose,
    "docs": _docs,
    "index": _index,
    "lock": _lock,
    "lock-check": _lock_check,
    "lock-verify": _lock_verify,
    "mirror": _mirror,
    "profile": target_commands.profile,
    "toolchain": _toolchain,
    "verify": target_commands.verify_many,
    "verify-target": target_commands.verify_one,
}
