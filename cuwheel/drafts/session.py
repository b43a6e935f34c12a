"""The session new: from a project's name to a recipe's draft in the project folder."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.drafts.choices import NOBODY, draft_of
from cuwheel.drafts.readers.survey import survey_source
from cuwheel.drafts.render import render_draft
from cuwheel.drafts.report import print_draft
from cuwheel.drafts.upstream import choose_release, releases_of, unpack_upstream
from cuwheel.errors import FileAccessError, SourceError, UnknownProjectError, UsageError
from cuwheel.model.recipe_check import is_handle
from cuwheel.system.files import write_atomically

if TYPE_CHECKING:
    from cuwheel.drafts.readers.survey import Survey
    from cuwheel.drafts.upstream import Upstream
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.pypi.indexes import Release
    from cuwheel.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """What the session was asked for.

    Attributes:
        project: its name on the index.
        version: the release; empty for the newest.
        maintainer: the handle of who writes the recipe; empty: not said.
        overwrites: whether a recipe that is there may be replaced.
    """

    project: str
    version: str = ""
    maintainer: str = ""
    overwrites: bool = False


def draft_recipe(
    options: DraftOptions, root: Path, entries: tuple[CatalogueEntry, ...], workspace: Workspace
) -> Path:
    """Write a recipe's draft, and say what was guessed, what is unknown, and how to go on.

    Args:
        options: which package.
        root: the project folder that gets the recipe.
        entries: the recipes that are there.
        workspace: its cache gets the source.

    Raises:
        UsageError: the name or the handle is none, or there is a recipe of it already.
        UnknownProjectError: no index has the project, this release of it, or its source.
        SourceError: its source holds no CUDA code, or no Python package.
        DownloadError: the index can't be asked.

    Returns:
        The recipe's file.
    """
    name = canonicalize_name(options.project)
    path = root / "recipes" / f"{name.replace('-', '_')}.py"
    _refuse_handle(options.maintainer)
    _refuse_existing(options.project, path, entries, overwrites=options.overwrites)
    with workspace.console.stage("new"):
        upstream = choose_release(name, _releases(options.project, workspace), options.version)
        with tempfile.TemporaryDirectory() as folder:
            tree = unpack_upstream(upstream, Path(folder) / "source", workspace)
            survey = survey_source(tree)
            _refuse_foreign(upstream, survey)
            draft = draft_of(upstream, survey, options.maintainer)
        # Another run may have made it meanwhile, and somebody changed it since.
        _refuse_existing(options.project, path, entries, overwrites=options.overwrites)
        _write(path, render_draft(draft))
    workspace.console.print_durations()
    print_draft(draft, upstream, survey, path)
    return path


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as problem:
        raise FileAccessError(
            f"{path} can't be written",
            why=str(problem.strerror),
            fix=f"see whose {path.parent} is and whether its file system is read-only",
        ) from problem


def _refuse_handle(name: str) -> None:
    if name and name != NOBODY and not is_handle(name):
        raise UsageError(
            f'--maintainer "{name}" is no handle',
            why="it has letters, digits and single hyphens, as on GitHub",
            fix="write yours without @ and spaces, like octocat, or leave the option out",
        )


def _releases(project: str, workspace: Workspace) -> tuple[Release, ...]:
    try:
        return releases_of(project, workspace)
    except UnknownProjectError as error:
        error.fix = (
            "look up the name on the index: it may differ from the module's name; pin a package "
            "that is on no index with Archive(…) or GitCommit(…)"
        )
        raise


def _refuse_existing(
    project: str, path: Path, entries: tuple[CatalogueEntry, ...], *, overwrites: bool
) -> None:
    name = canonicalize_name(project)
    plain, pin, version = project.partition("==")
    if pin and version.strip():
        raise UsageError(
            f'"{project}" is no name of a project',
            why="a release is named by an option",
            fix=f"nox -s new -- {plain.strip()} --version {version.strip()}",
        )
    if not name.replace("-", "").isalnum():
        raise UsageError(
            f'"{project}" is not a valid project name',
            why="a name consists of letters, digits and hyphens",
            fix="nox -s new -- torch-scatter",
        )
    known = {str(canonicalize_name(entry.name)): entry for entry in entries}
    if overwrites or not (path.exists() or name in known):
        return
    entry = known.get(name)
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
