"""The session `audit`: wheels of this project and of others, read and judged."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cuwheel.audit.findings import SEVERITIES
from cuwheel.audit.report import audit_document, counts_of, print_result, print_verdicts
from cuwheel.audit.verdict import audit_wheel, unreadable
from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.errors import AuditError, AuditWarningError, UnsafeArchiveError, UsageError
from cuwheel.model.link import MODES, mode_name
from cuwheel.model.target import Target
from cuwheel.system.output import github
from cuwheel.system.output.terminal import report_terminal
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from cuwheel.audit.verdict import AuditResult
    from cuwheel.cuda.toolkits import Toolkit
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.recipe import Recipe
    from cuwheel.system.console import Console


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """How wheels are audited.

    Attributes:
        archs: what the device code has to be for; empty: the recipe's list.
        excludes: patterns that the wheels' maker gave to auditwheel.
        ignores_recipes: judge every wheel as one of others.
        fails_on: the least severity that makes the session fail; `never`: none does.
        as_json: print data instead of text.
    """

    archs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    ignores_recipes: bool = False
    fails_on: str = "warning"
    as_json: bool = False


def audit_session(
    paths: Sequence[Path],
    entries: tuple[CatalogueEntry, ...],
    console: Console,
    options: AuditOptions,
) -> None:
    """Audit wheels and print what was found.

    Args:
        paths: wheels, or folders of wheels.
        entries: the catalogue; a wheel with the name and version of a recipe is held to that.
        console: for the progress, and how much is said; that goes to standard output.
        options: how.

    Raises:
        AuditError: a wheel has errors.
        AuditWarningError: none has errors, one has warnings.
        UsageError: a path is no wheel, or a folder without wheels.
    """
    wheels = _wheels(paths)
    made, terminal = [], report_terminal()
    for wheel in wheels:
        target = None if options.ignores_recipes else _target_of(wheel, entries, options.archs)
        with console.live(f"reading {wheel.name}"):
            found = _audit(wheel, target, options.excludes)
        made.append(found)
        _annotate(found, wheel, console)
        if not options.as_json:
            print_result(found, terminal, console)
    if options.as_json:
        console.answer(audit_document(made))
    elif len(made) > 1 and not console.is_quiet:
        print_verdicts(made, terminal)
    rows = {one.case.scan.file_name: counts_of(one) for one in made}
    github.add_to_summary(github.table(rows), os.environ)
    _end(made, options.fails_on)


def _annotate(result: AuditResult, wheel: Path, console: Console) -> None:
    """Show what is wrong beside the wheel, where a workflow's run shows such things."""
    for one in result.findings:
        if one.severity != "note":
            text = f"{one.file}: {one.fact}; TROUBLESHOOTING.md#{one.anchor}"
            console.annotate(one.severity, text, title=f"{wheel.name}: {one.rule}", file=wheel)


def _wheels(paths: Iterable[Path]) -> list[Path]:
    wheels, problems = [], []
    for path in paths:
        if path.is_dir():
            found = [one for one in sorted(path.glob("*.whl")) if one.is_file()]
            problems += [] if found else [f"{path} is a folder without wheels"]
            wheels += found
        elif path.is_file():
            wheels.append(path)
        else:
            problems.append(f"{path}: there is no such file")
    if problems:
        raise UsageError(
            "a given path is neither a wheel nor a folder with wheels",
            why="\n".join(problems),
            fix="give .whl files or a folder, relative to the folder in which nox was started",
        )
    return wheels


def _audit(wheel: Path, target: Target | None, excludes: tuple[str, ...]) -> AuditResult:
    """Whatever is wrong with one file doesn't keep the others from being read."""
    try:
        return audit_wheel(wheel, target=target, excludes=excludes)
    except UnsafeArchiveError as problem:
        return unreadable(wheel, problem.why)
    except OSError as problem:
        return unreadable(wheel, problem.strerror or str(problem))
    except Exception as problem:  # noqa: BLE001 - a fault of cuwheel, which ends no report
        where = traceback.extract_tb(problem.__traceback__)[-1]
        told = f"{type(problem).__name__} in {where.name}: {problem}"
        return unreadable(wheel, f"an internal error of cuwheel, please report it: {told}")


def _target_of(
    wheel: Path, entries: Iterable[CatalogueEntry], archs: tuple[str, ...]
) -> Target | None:
    """The target that a wheel says it is of: project, CUDA release and framework in its name."""
    try:
        project, version, _, tags = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        return None
    # `3.12` of cp312; the stable ABI and wheels for every Python say the oldest.
    minors = sorted(tag.interpreter.removeprefix("cp3") for tag in tags)
    kind = "t" if any(re.fullmatch(r"cp\d+t", tag.abi) for tag in tags) else ""
    python = f"3.{next(filter(str.isdigit, minors), '0')}{kind}"
    for entry in entries:
        recipe = entry.recipe
        for toolkit in TOOLKITS if recipe else ():
            if recipe and toolkit.release in recipe.toolkits:
                for target in _possible_targets(entry, recipe, toolkit, python, archs):
                    release = Version(recipe.version).public, target.local_version
                    named = canonicalize_name(target.project), *release
                    if (project, version.public, version.local or "") == named:
                        return target
    return None


def _possible_targets(
    entry: CatalogueEntry, recipe: Recipe, toolkit: Toolkit, python: str, archs: tuple[str, ...]
) -> Iterator[Target]:
    """One for each mode of linking; the recipe's own framework."""
    own = recipe.link.mode
    modes = [own, *(kind() for name, kind in MODES.items() if name != mode_name(own))]
    for mode in modes:
        yield Target(
            recipe=recipe,
            toolkit=toolkit,
            python=python,
            framework=recipe.framework_for(toolkit.release),
            archs=archs or recipe.archs_for(toolkit.release),
            provider=toolkit.provider,
            root=entry.root,
            mode=mode,
        )


def _end(made: list[AuditResult], fails_on: str) -> None:
    for severity, kind in (("error", AuditError), ("warning", AuditWarningError)):
        bad = [one for one in made if one.verdict == severity]
        if bad and fails_on in SEVERITIES[SEVERITIES.index(severity) :]:
            findings = [item for one in bad for item in one.findings if item.severity == severity]
            lets_pass = "; -- --fail-on error ignores warnings" if kind is AuditWarningError else ""
            raise kind(
                f"{len(bad)} of {plural(len(made), 'wheel')} {'have' if len(bad) > 1 else 'has'} "
                f"{plural(len(findings), severity)}",
                why=f"{', '.join(dict.fromkeys(item.rule for item in findings))}: listed above",
                fix="the entries after `more` say what to do" + lets_pass,
            )
