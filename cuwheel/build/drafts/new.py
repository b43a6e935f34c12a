"""The session new: a recipe's draft from a project's name, and a report of what to check in it."""

from __future__ import annotations

import functools
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
from cuwheel.build.drafts.choices import ARCHS, PLACEHOLDER_HANDLE, draft_of
from cuwheel.build.drafts.draft import Call, Draft, Kind, render_draft
from cuwheel.build.drafts.given_source import is_given, read_given
from cuwheel.build.drafts.readers.survey import Survey, survey_source
from cuwheel.build.drafts.upstream import Upstream, choose_release, releases_of, unpack_upstream
from cuwheel.build.environments.framework_release import newest_allowed
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe_check import is_handle
from cuwheel.build.workspace.workspace import Workspace

_WIDTH = 100  # columns
_TITLES: dict[Kind, str] = {
    "stops the build": "Stops the build",
    "find out": "To find out",
    "guess": "Guessed (each has its place in the draft; check it, then remove the comment)",
}


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
    _check_options(options)
    with workspace.console.stage("new"), temporary_folder() as folder:
        if is_given(options.project):
            upstream, tree = read_given(
                options.project, options.version, root, folder / "source", workspace
            )
        else:
            _refuse_existing(options, root, entries, canonicalize_name(options.project))
            upstream = _choose_upstream(options, workspace)
            tree = unpack_upstream(upstream, folder / "source", workspace)
        survey = survey_source(tree)
        _refuse_foreign(upstream, survey)
        find_torch = functools.partial(newest_allowed, "torch", workspace=workspace)
        draft = draft_of(upstream, survey, options.maintainer, find_torch)
        # Another run may have written it meanwhile, and its author changed it since.
        path = _refuse_existing(options, root, entries, draft.name)
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
    if not is_given(project) and not canonicalize_name(project).replace("-", "").isalnum():
        raise UsageError(
            f'"{project}" is not a valid project name',
            why="a name consists of letters, digits and hyphens; a release is named by --version",
            fix="nox -s new -- torch-scatter --version 2.1.2",
        )


def _choose_upstream(options: DraftOptions, workspace: Workspace) -> Upstream:
    try:
        releases = releases_of(options.project, workspace)
    except DownloadError as error:
        if error.is_missing:
            error.fix = (
                "look up the name on the index: it may differ from the module's name; a package "
                "that is on no index is drafted from its repository, "
                "`nox -s new -- git+https://…@COMMIT`, or an archive"
            )
        raise
    return choose_release(canonicalize_name(options.project), releases, options.version)


def _refuse_existing(
    options: DraftOptions, root: Path, entries: tuple[CatalogueEntry, ...], name: str
) -> Path:
    """Return the path of the recipe to write."""
    path = root / "recipes" / f"{name.replace('-', '_')}.py"
    entry = next((entry for entry in entries if canonicalize_name(entry.name) == name), None)
    if options.overwrites or not (path.exists() or entry):
        return path
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
    for kind, title in _TITLES.items():
        if kind != "stops the build" or draft.notes_of(kind):
            yield from ("", f"[bold]{title}[/]", *_listed(draft, kind))
    yield from ("", "[bold]Next[/]", *_next_steps(draft, survey, upstream, file))


def _next_steps(draft: Draft, survey: Survey, upstream: Upstream, file: Path) -> Iterator[str]:
    """Yield the commands that lead on; none that can't work as the draft is."""
    if survey.missing_sources and upstream.given is None:
        page = str(draft.values["homepage"]) or "https://…"
        yield "  draft it from a source that has these files: upstream's repository,"
        yield as_typed(f"  nox -s new -- git+{page}@COMMIT --overwrite")
        return
    if survey.compiles_nothing:
        yield f"  remove {file} if the package compiles its kernels when it is used: that needs no"
        yield "  recipe; else write into `build` what compiles them"
        return
    if stops := draft.notes_of("stops the build"):
        fields = ", ".join(dict.fromkeys(f"`{note.partition(':')[0]}`" for note in stops))
        yield f"  settle what stops the build ({fields} in {file}); then"
    target = f"build-{draft.name}-{draft.toolkit.replace('.', '')}"
    smoke = draft.values["smoke"]
    has_smoke_lock = isinstance(smoke, Call) and "requires" in smoke.keywords
    locks = [f"build:{draft.name}", *([f"smoke:{draft.name}"] if has_smoke_lock else [])]
    yield as_typed(f"  nox -s lock -- {' '.join(locks)}")
    yield as_typed(f"  nox -s {target} -- --arch {ARCHS[1]} --until preflight")
    yield as_typed(f"  nox -s {target} -- --arch {ARCHS[1]}")


def _listed(draft: Draft, kind: Kind) -> Iterator[str]:
    notes = draft.notes_of(kind)
    for note in notes:
        lines = textwrap.wrap(
            note,
            width=_WIDTH,
            initial_indent="  ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from map(rich.markup.escape, lines)
    if not notes:
        yield "  nothing"
