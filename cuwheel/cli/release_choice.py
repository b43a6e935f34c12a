"""A release that a recipe doesn't pin: `flash-attn-130==2.7.4.post1` on a command line."""

from __future__ import annotations

from dataclasses import replace

from packaging.version import InvalidVersion, Version

from cuwheel.base.caller import Caller
from cuwheel.base.errors import LockError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.build.recipe.source import Sdist
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.serialization import read_record, to_json
from cuwheel.build.workspace.workspace import Workspace, bare_workspace

_FIX = "pass the source with `-- --source FILE`"


def at_release(
    entry: CatalogueEntry, version: str, request: BuildRequest, console: Console, caller: Caller
) -> tuple[CatalogueEntry, BuildRequest]:
    """Return a recipe for another release, and the request with a source of it.

    The source is that of `--source`, else the sdist by the hash that the index states; like the
    former it isn't pinned, and the wheel's version and statement name it so.

    Args:
        version: empty: the recipe's own release.

    Raises:
        UsageError: it is no version, or the recipe's source isn't an sdist.
        LockError: the index was never read for it, and the build is offline.
        DownloadError: the index has no sdist of it, or can't be reached.
    """
    recipe = entry.recipe
    if recipe is None or not version or version == recipe.version:
        return entry, request
    try:
        Version(version)
    except InvalidVersion:
        raise UsageError(
            f"{version} is not a version",
            why="a version of a Python package looks like 1.2.3 or 2.8.3.post2",
            fix=f"name one, such as {recipe.name}=={recipe.version}",
        ) from None
    path = request.source
    if path is None:
        workspace = bare_workspace(console, caller)
        sdist = _find_sdist(recipe, version, workspace, offline=request.offline)
        from cuwheel.build.inputs.pinned import fetch_pinned  # noqa: PLC0415 - it loads slowly

        path = fetch_pinned(sdist, workspace, _FIX, offline=request.offline)
        console.note(f"{recipe.name} {version}: {path.name}, SHA-256 {sdist.sha256} by the index")
    console.warn(
        f"{recipe.module} pins {recipe.version}, not {version}: its patches, requirements and "
        "settings are tried with that"
    )
    return replace(entry, recipe=replace(recipe, version=version)), replace(request, source=path)


def _find_sdist(recipe: Recipe, version: str, workspace: Workspace, *, offline: bool) -> Sdist:
    if not isinstance(recipe.source, Sdist):
        raise UsageError(
            f"{recipe.name} {version} can't be fetched",
            why=f"`source` in {recipe.module} is no Sdist, so no index is known to have it",
            fix="pass a checkout or an archive of it: -- --source DIR",
        )
    project = recipe.source.project
    file = workspace.cache / "releases" / f"{project}-{version}.json"
    if known := read_record(file, Sdist):
        return known
    if offline:
        raise LockError(
            f"which sdist {project} {version} has is not known",
            why="only the package index knows it, and --offline is set",
            fix="run once without --offline, or pass the source: -- --source FILE",
        )
    # They load slowly, and most builds need neither.
    from cuwheel.build.drafts.upstream import choose_release, releases_of  # noqa: PLC0415

    sdist = choose_release(project, releases_of(project, workspace), version).sdist
    write_atomically(file, to_json(sdist))
    return sdist
