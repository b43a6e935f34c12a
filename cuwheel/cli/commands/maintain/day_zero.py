"""The session `day-zero`."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import StepsFailedError, UsageError, suggest
from cuwheel.base.system.console import Console
from cuwheel.base.system.folders.output_folder import check_output_file
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.pythons import own_python
from cuwheel.build.recipe.catalogue import CatalogueEntry, find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.workspace.job import Job, Machine
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.cli.parser import Parser, check_archs, new_parser
from cuwheel.cli.target_choice import (
    build_options,
    framework_of,
    output_folders,
    request_of,
    requested_job,
)
from cuwheel.lab.day_zero.day_zero import DayZero, new_frameworks, read_release
from cuwheel.lab.day_zero.report import print_verdicts, summary_of, write_reports
from cuwheel.lab.day_zero.verdict import DayZeroDocument, Verdict

_FOLDER = "day-zero"  # below the work folder: work folders of the trials, and their wheels


def day_zero_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "day-zero",
        "Try recipes with a release of their framework: lock, preflight, a compile of the smallest "
        "and of the heaviest CUDA file. The recipes' files stay as they are.",
        {
            "names FRAMEWORK|RECIPE*": "a release such as torch==2.15.0, and recipes; default: "
            "all recipes with that framework, and the newest release that none of them names",
            "--build": "also build, check and test each wheel",
            "--quick": "compile no file of a package, only the framework's headers",
            "--json FILE": "write the verdicts as JSON",
            "--page FILE": "write a page: Markdown for a name in .md, else HTML",
            "--quiet": "print only warnings, and the last line of the result",
            "--verbose": "print each log",
            **build_options("python", "arch", "work", "jobs", "sandbox"),
        },
        excludes={("--build", "--quick"): "a build compiles every file"},
    )


def run_day_zero(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Try the release that is named, or the newest that no recipe names."""
    entries = load_catalogue(caller.roots)
    pins = [name for name in args.names if "=" in name]
    names = [name for name in args.names if "=" not in name]
    known = {each.name for entry in entries if entry.recipe for each in entry.recipe.frameworks}
    _check_names(args, pins, names, known)
    chosen = [find_recipe(name, entries) for name in names]
    if not pins:
        pins = [*new_frameworks(chosen or entries, bare_workspace(console, caller))]
        for pin in pins[1:]:
            console.note(f"{pin} is new too: `nox -s day-zero -- {pin}`")
    framework = framework_of(pins[0]) if pins else None
    if framework is None:
        console.note("the recipes name the newest release of each framework: nothing to do")
        return
    found = [entry for entry in chosen or entries if _is_for(entry, framework)]
    _check_framework(framework, known, chosen, found)
    _try_release(args, framework, found, console, caller)


def _check_names(
    args: argparse.Namespace, pins: Sequence[str], names: Sequence[str], known: Collection[str]
) -> None:
    """Raise UsageError for more than is tried at once, and for what isn't a release or an arch."""
    if len(pins) > 1 or len(args.python) > 1:
        raise UsageError(
            "day-zero tries one release of a framework with one Python",
            why=f"given are {', '.join([*pins, *args.python])}",
            fix="run it once for each",
        )
    if frameworks := {*known}.intersection(names):
        raise UsageError(
            f"{min(frameworks)} is named without a release",
            why="one release is tried",
            fix=f"nox -s day-zero -- {min(frameworks)}==VERSION; without it, the newest release "
            "that no recipe names",
        )
    check_archs(args.arch, "--arch 90")


def _check_framework(
    framework: Framework,
    known: Collection[str],
    chosen: Sequence[CatalogueEntry],
    found: Sequence[CatalogueEntry],
) -> None:
    """Raise UsageError for recipes without this framework; `known` are those that recipes have."""
    if framework.name not in known:
        raise UsageError(
            f"no recipe is compiled against {framework.name}",
            why=suggest(framework.name, known),
            fix="name a release of one of these: nox -s day-zero -- torch==2.15.0",
        )
    if lost := [entry.name for entry in chosen if entry not in found]:
        raise UsageError(
            f"{', '.join(lost)} can't be tried with {framework.pin}",
            why=f"not compiled against {framework.name}",
            fix=f"name recipes with {framework.name}, or none for all of them",
        )


def _is_for(entry: CatalogueEntry, framework: Framework) -> bool:
    """Return True for a recipe with this framework, and for one that can't be loaded."""
    if entry.recipe is None:
        return True
    return framework.name in {each.name for each in entry.recipe.frameworks}


def _report_files(args: argparse.Namespace, caller: Caller) -> tuple[Path | None, Path | None]:
    """Return the files of `--json` and `--page`; raise UsageError before anything is tried."""
    json, page = (
        check_output_file(caller.path(name), option) if name else None
        for name, option in ((args.json, "--json"), (args.page, "--page"))
    )
    return json, page


def _try_release(
    args: argparse.Namespace,
    framework: Framework,
    found: Sequence[CatalogueEntry],
    console: Console,
    caller: Caller,
) -> None:
    """Try all recipes that were found; without names none that is held back."""
    files = _report_files(args, caller)
    has_names = any("=" not in name for name in args.names)
    held_back = [
        entry for entry in found if not has_names and entry.recipe and entry.recipe.held_back
    ]
    workspace = bare_workspace(console, caller)
    python = next(iter(args.python), own_python().release)
    release = read_release(framework, python, workspace)
    day = DayZero(
        release=release,
        make_job=_job_maker(args, python, console, caller),
        workspace=workspace,
        builds=args.build,
        is_quick=args.quick,
    )
    verdicts: list[Verdict] = []
    document = DayZeroDocument(
        framework=framework.pin,
        cuda=release.cuda,
        python=python,
        archs=tuple(args.arch),
        date=datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        verdicts=(),
        held_back=tuple(entry.name for entry in held_back),
    )
    try:
        for verdict in day.verdicts([entry for entry in found if entry not in held_back]):
            verdicts.append(verdict)
            console.note(f"{verdict.recipe}: {verdict.state} {verdict.why}".rstrip())
    finally:  # Ctrl-C among them
        if verdicts:
            document = replace(document, verdicts=tuple(verdicts))
            _report(document, files, console)
    _raise_failure(document)


def _job_maker(
    args: argparse.Namespace, python: str, console: Console, caller: Caller
) -> Callable[[CatalogueEntry, str], Job]:
    """Return a maker of jobs whose work and wheels are in a folder of the trial's own."""
    request = request_of(args, caller, python=(python,), targets=(), json=False)
    work = output_folders(request, caller)[0] / _FOLDER
    request = replace(request, work=work, dist=work / "dist", any_driver=True)
    machines: dict[tuple[str, ...], Machine] = {}

    def make(entry: CatalogueEntry, tag: str) -> Job:
        return requested_job(entry, tag, request, console, caller, machines=machines)

    return make


def _report(
    document: DayZeroDocument, files: tuple[Path | None, Path | None], console: Console
) -> None:
    write_reports(document, *files)
    console.has_answered = True  # an error adds nothing to the file
    if console.is_quiet:
        report_terminal().print(summary_of(document), soft_wrap=True)
    else:
        print_verdicts(document, report_terminal())


def _raise_failure(document: DayZeroDocument) -> None:
    for state, anchor in (("broken", "day-zero"), ("unknown", "day-zero-unknown")):
        bad = [verdict for verdict in document.verdicts if verdict.state == state]
        if bad:
            raise StepsFailedError(
                f"{document.framework}: {', '.join(verdict.recipe for verdict in bad)} "
                f"{'does not work' if state == 'broken' else 'could not be tried'}",
                why="\n".join(f"{verdict.recipe}: {verdict.why}" for verdict in bad),
                fix="read the logs that the table names"
                if state == "broken"
                else "do what the table says of each, then run the same command again",
                anchor=anchor,
            )
