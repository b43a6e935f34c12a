"""The session new: a recipe's draft from a project's name, and a report of what to check in it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rich.markup
from packaging.utils import canonicalize_name

from cuwheel.base.errors import DownloadError, FileAccessError, SourceError, UsageError
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.drafts.choices import ARCHS, PLACEHOLDER_HANDLE, TOOLKIT, draft_of
from cuwheel.build.drafts.draft import FIELDS, Call, Draft, Kind, render_draft
from cuwheel.build.drafts.readers.survey import Survey, survey_source
from cuwheel.build.drafts.upstream import Upstream, choose_release, releases_of, unpack_upstream
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe_check import is_handle
from cuwheel.build.workspace.workspace import Workspace

_WIDTH = 100  # columns


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """Options of the session.

    Attributes:
        version: the release; empty for the newest.
        maintainer: the author's handle; empty: not known.
    """

    project: str
    version: str = ""
    maintainer: str = ""
    overwrites: bool = False


def draft_recipe(
    options: DraftOptions, root: Path, entries: tuple[CatalogueEntry, ...], workspace: Workspace
) -> Path:
    """Write a recipe's draft, and print its guesses, its open questions and the next commands.

    Returns:
        The recipe's file.

    Raises:
        UsageError: the project's name or the handle is invalid, or the recipe exists.
        DownloadError: no index has the project, this release of it, or its source.
        SourceError: its source holds no CUDA code, or no Python package.
        DownloadError: the index can't be reached.
    """
    name = canonicalize_name(options.project)
    path = root / "recipes" / f"{name.replace('-', '_')}.py"
    _check_options(options)
    _refuse_existing(name, path, entries, overwrites=options.overwrites)
    with workspace.console.stage("new"):
        try:
            releases = releases_of(options.project, workspace)
        except DownloadError as error:
            if error.is_missing:
                error.fix = (
                    "look up the name on the index: it may differ from the module's name; pin a "
                    "package that is on no index with Archive(…) or GitCommit(…)"
                )
            raise
        upstream = choose_release(name, releases, options.version)
        with temporary_folder() as folder:
            tree = unpack_upstream(upstream, folder / "source", workspace)
            survey = survey_source(tree)
            _refuse_foreign(upstream, survey)
            draft = draft_of(upstream, survey, options.maintainer)
        # Another run may have written it meanwhile, and its author changed it since.
        _refuse_existing(name, path, entries, overwrites=options.overwrites)
        try:
            write_atomically(path, render_draft(draft))
        except OSError as problem:
            raise FileAccessError(
                f"{path} can't be written",
                why=str(problem.strerror),
                fix=f"see whose {path.parent} is and whether its file system is read-only",
            ) from problem
    workspace.console.print_durations()
    for line in _report(draft, upstream, survey, path, workspace.caller.project):
        report_terminal().print(line)
    return path


def _check_options(options: DraftOptions) -> None:
    handle, project = options.maintainer, options.project
    if handle and handle != PLACEHOLDER_HANDLE and not is_handle(handle):
        raise UsageError(
            f'--maintainer "{handle}" is no handle',
            why="it has letters, digits and single hyphens, as on GitHub",
            fix="write yours without @ and spaces, like octocat, or leave the option out",
        )
    if not canonicalize_name(project).replace("-", "").isalnum():
        raise UsageError(
            f'"{project}" is not a valid project name',
            why="a name consists of letters, digits and hyphens; a release is named by --version",
            fix="nox -s new -- torch-scatter --version 2.1.2",
        )


def _refuse_existing(
    name: str, path: Path, entries: tuple[CatalogueEntry, ...], *, overwrites: bool
) -> None:
    entry = next((entry for entry in entries if canonicalize_name(entry.name) == name), None)
    if overwrites or not (path.exists() or entry):
        return
    where = path if path.exists() or entry is None else entry.root / "recipes" / path.name
    raise UsageError(
        f"the recipe {name} already exists",
        why=f"it is in {where}",
        fix=f"`nox -s bump -- {name}` takes it to upstream's newest release; "
        "`--overwrite` replaces it with a new draft",
    )


def _refuse_foreign(upstream: Upstream, survey: Survey) -> None:
    name = f"{upstream.project} {upstream.version}"
    if not survey.has_setup and not (survey.tree / "pyproject.toml").is_file():
        raise SourceError(
            f"the source of {name} contains no Python package",
            why="neither pyproject.toml nor setup.py is at its top",
            fix="check what upstream publishes; a package in a subfolder needs a patch that "
            "moves it",
        )
    if not survey.has_cuda:
        raise SourceError(
            f"the source of {name} has no CUDA code",
            why="it has no .cu files, its build files mention neither nvcc options nor CUDA, and "
            "no file includes CUDA's headers"
            + ("" if upstream.is_newest else f"; {upstream.newer}"),
            fix="if upstream's wheels have CUDA libraries, their source is elsewhere: pin it with "
            "Archive(…) or GitCommit(…); if they have none, the package needs no recipe",
        )


def _report(
    draft: Draft, upstream: Upstream, survey: Survey, path: Path, project: Path
) -> Iterator[str]:
    file = path.relative_to(project) if path.is_relative_to(project) else path
    text = read_text(path)
    count = plural(len(text.splitlines()), "line")
    release = f"{upstream.project} {upstream.version}"
    yield f"[bold]{file}[/]: {count}, drafted from the source of {release}"
    if not upstream.is_newest:
        yield f"  {upstream.newer}"
    kernels = sum(name.endswith(".cu") for name in survey.device_files)
    parts = [
        f"build backend {survey.system.module}",
        plural(len(survey.facts), "fact") + " in its build files",
        plural(kernels, ".cu file"),
        plural(len(survey.variables()), "environment variable"),
    ]
    yield f"  read: {', '.join(parts)}"
    yield ""
    yield "[bold]Guessed[/] (each has its place in the draft; check it, then remove the comment)"
    yield from _listed(draft, "guess")
    yield ""
    yield "[bold]To find out[/]"
    yield from _listed(draft, "find out")
    yield ""
    yield "[bold]Next[/]"
    target = f"build-{draft.name}-{TOOLKIT.replace('.', '')}"
    if PLACEHOLDER_HANDLE in text:
        yield f"  write your handle into `maintainers` in {file}"
    smoke = draft.values["smoke"]
    has_smoke_lock = isinstance(smoke, Call) and "requires" in smoke.keywords
    locks = [f"build:{draft.name}", *([f"smoke:{draft.name}"] if has_smoke_lock else [])]
    yield as_typed(f"  nox -s lock -- {' '.join(locks)}")
    yield as_typed(f"  nox -s {target} -- --arch {ARCHS[1]} --until preflight")
    yield as_typed(f"  nox -s {target} -- --arch {ARCHS[1]}")


def _listed(draft: Draft, kind: Kind) -> Iterator[str]:
    notes = [(FIELDS.index(note[0]), note) for note in draft.notes if note[1] == kind]
    for _, (field, _, text) in sorted(notes, key=lambda note: note[0]):
        lines = textwrap.wrap(
            f"{field}: {text}",
            width=_WIDTH,
            initial_indent="  ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from map(rich.markup.escape, lines)
    if not notes:
        yield "  nothing"
