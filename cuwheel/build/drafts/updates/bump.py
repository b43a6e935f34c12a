"""The session bump: a recipe changed to another release of upstream, as one change to review."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import RecipeError, SourceError, UsageError
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.build.drafts.updates.file_changes import (
    diff_of,
    edit_recipe,
    read_if_there,
    refuse_uncommitted,
    replace_files,
)
from cuwheel.build.drafts.updates.framework_change import (
    FrameworkChange,
    changed_project,
    replaced_requirements,
)
from cuwheel.build.drafts.updates.outdated import show_state
from cuwheel.build.drafts.updates.source_check import (
    changes_of_source,
    check_patches_of,
    patch_folder,
)
from cuwheel.build.drafts.upstream import Upstream, choose_release, releases_of, unpack_upstream
from cuwheel.build.environments.framework_release import read_framework_release
from cuwheel.build.environments.lock_file import parse_pins
from cuwheel.build.inputs.patch_health import PatchHealth
from cuwheel.build.locks.framework_fit import fit_specs
from cuwheel.build.locks.lock_jobs import lock_jobs
from cuwheel.build.locks.resolve import resolve_locks
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.build.recipe.recipe_lock import RecipeLock, locks_of
from cuwheel.build.recipe.source import Sdist
from cuwheel.build.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class BumpOptions:
    """Options of the session.

    Attributes:
        version: upstream's release; empty for the newest.
        cxx_standard: for a framework's release, the oldest C++ from that on, `20`; empty:
            unchanged.
        requires: for a framework's release, requirements that replace those of the same name.
    """

    version: str = ""
    cxx_standard: str = ""
    requires: tuple[str, ...] = ()
    keeps_broken: bool = False
    takes_uncommitted: bool = False
    is_trial: bool = False
    cooldown: int


@dataclass(frozen=True, kw_only=True)
class Bump:
    """A change.

    Attributes:
        before: content of the files that change; None: there was none.
        changes: content of the same files afterwards; None: the file is removed.
        details: differences of upstream's build, one a line.
        toolkit: the CUDA release to build next, `13.0`.
    """

    recipe: Recipe
    version: str
    toolkit: str
    root: Path
    before: dict[Path, bytes | None]
    changes: dict[Path, bytes | None]
    patches: tuple[PatchHealth, ...]
    details: tuple[str, ...]


def bump_recipe(entry: CatalogueEntry, options: BumpOptions, workspace: Workspace) -> Bump | None:
    """Change a recipe to another release: version, hash, patches, locks.

    The new files are made in a temporary folder; the project's change at the very end, together.

    Returns:
        The change; None where the recipe pins that release already.

    Raises:
        UsageError: its source has no releases on an index, or its files have changes.
        DownloadError: there is no such release, or it has no source.
        SourceError: a patch doesn't apply to it any more.
        RecipeError: the recipe's text can't be edited.
        CuwheelError: the source can't be downloaded, or the locks can't be resolved.
    """
    recipe, source = _changeable(entry)
    release = choose_release(
        source.project, releases_of(source.project, workspace), options.version
    )
    if release.version == recipe.version:
        return None
    _refuse_uncommitted(entry, recipe, options, workspace)
    with temporary_folder() as aside:
        tree = unpack_upstream(release, aside / "new", workspace)
        health = check_patches_of(entry, tree)
        _refuse_broken(entry, release, health, keeps_broken=options.keeps_broken)
        pinned = dataclasses.replace(source, version=recipe.version)
        details = changes_of_source(recipe, pinned, tree, aside / "old", workspace)
        changes = _change_recipe(entry, recipe, release, health, aside / "project")
        changes |= _change_locks(entry, aside / "project", options, workspace)
    version, newest = release.version, recipe.toolkits[-1]
    return _made(
        Bump(
            recipe=recipe,
            version=version,
            toolkit=newest,
            root=entry.root,
            before={},
            changes=changes,
            patches=health,
            details=details,
        ),
        options,
    )


def bump_framework(
    entry: CatalogueEntry, framework: Framework, options: BumpOptions, workspace: Workspace
) -> Bump | None:
    """Change a recipe to a release of its framework: pin, toolkit, options of `BumpOptions`, lock.

    Returns:
        The change; None where the recipe has all of it.

    Raises:
        UsageError: it is compiled against another framework, or its files have changes.
        RecipeError: there is no such release, or the recipe's text can't be edited.
        CuwheelError: the index can't be reached, or the lock can't be resolved.
    """
    recipe = entry.recipe
    if recipe is None or framework.name not in {each.name for each in recipe.frameworks}:
        raise UsageError(
            f"{entry.name} isn't compiled against {framework.name}",
            why=entry.fault or "its `framework` names another one, or none",
            fix="leave out --framework, or name another recipe",
        )
    _refuse_uncommitted(entry, recipe, options, workspace)
    change = FrameworkChange(
        framework=framework,
        cuda=read_framework_release(framework.name, framework.version, workspace).cuda,
        cxx_standard=options.cxx_standard,
        requirements=replaced_requirements(recipe, options.requires),
    )
    with temporary_folder() as project:
        changed = changed_project(entry, change, project).recipe
        if changed is None:  # pragma: no cover - `changed_project` has refused it
            return None
        path = entry.root / recipe.module
        changes = {path: read_if_there(project / recipe.module)}
        if changes[path] == read_if_there(path):
            return None
        changes |= _renamed_locks(entry, recipe, changed)
        kept = {new for new, content in changes.items() if content}
        new_locks = _change_locks(entry, project, options, workspace, framework)
        changes |= {path: content for path, content in new_locks.items() if path not in kept}
    return _made(
        Bump(
            recipe=changed,
            version=f"{recipe.version} for {framework.pin}",
            toolkit=change.cuda,
            root=entry.root,
            before={},
            changes=changes,
            patches=(),
            details=(),
        ),
        options,
    )


def _refuse_uncommitted(
    entry: CatalogueEntry, recipe: Recipe, options: BumpOptions, workspace: Workspace
) -> None:
    if not options.takes_uncommitted:
        locks = [entry.root / lock.path for lock in locks_of(recipe)]
        paths = [entry.root / recipe.module, patch_folder(entry), *locks]
        refuse_uncommitted(paths, entry.root, workspace.environ)


def _made(bump: Bump, options: BumpOptions) -> Bump:
    """Return a change without the files that stay as they are; make it unless it is a trial."""
    before = {path: read_if_there(path) for path in bump.changes}
    changes = {path: new for path, new in bump.changes.items() if new != before[path]}
    if not options.is_trial:
        replace_files(changes)
    return dataclasses.replace(bump, before=before, changes=changes)


def _changeable(entry: CatalogueEntry) -> tuple[Recipe, Sdist]:
    recipe = entry.recipe
    if recipe is None:  # pragma: no cover - find_recipe has refused it
        raise UsageError(f"{entry.name} can't be loaded", why=entry.fault)
    source = recipe.source
    if not isinstance(source, Sdist):
        raise UsageError(
            f"{recipe.name} can't be bumped automatically",
            why=f"its source is {type(source).__name__}(…): no index says which release is newest, "
            "or what its hash is",
            fix=f"change `version` and the source's pin in {recipe.module} by hand, then "
            f"`nox -s build-{entry.target_names[0]} -- --stage source`",
        )
    if source.version != "{version}":
        raise UsageError(
            f"{recipe.name} can't be bumped automatically",
            why=f'its source has its own release number, version="{source.version}"',
            fix=f"change both in {recipe.module} by hand",
        )
    return recipe, source


def _refuse_broken(
    entry: CatalogueEntry, release: Upstream, health: Iterable[PatchHealth], *, keeps_broken: bool
) -> None:
    broken = [patch for patch in health if patch.state == "broken"]
    if broken and not keeps_broken:
        raise SourceError(
            f"{entry.name}: {len(broken)} of its patches don't apply to {release.version}",
            why="\n".join(f"{patch.file}: {text}" for patch in broken for text in patch.details),
            fix="nothing was changed; `--keep-broken` makes the rest of the change: then redo "
            f"these patches, from `nox -s build-{entry.target_names[0]} -- --stage source`",
        )


def _change_recipe(
    entry: CatalogueEntry,
    recipe: Recipe,
    release: Upstream,
    health: tuple[PatchHealth, ...],
    project: Path,
) -> dict[Path, bytes | None]:
    """Return the recipe's new text, tried by loading it, and its changed patches."""
    obsolete = [patch.file for patch in health if patch.state == "obsolete"]
    values = {"version": release.version, "source.sha256": release.sha256}
    text = edit_recipe(entry.root / recipe.module, values, obsolete)
    copy = project / recipe.module
    copy.parent.mkdir(parents=True)
    copy.write_text(text, encoding="utf-8")
    max_size = recipe.source.max_size if isinstance(recipe.source, Sdist) else 0
    expected = dataclasses.replace(
        recipe,
        version=release.version,
        source=dataclasses.replace(release.sdist, version="{version}", max_size=max_size),
        patches=tuple(patch for patch in recipe.patches if patch.file not in obsolete),
    )
    [loaded] = load_catalogue([project])
    if loaded.recipe != expected:
        raise RecipeError(
            f"{recipe.module} can't be edited safely",
            why=loaded.fault or "with the new values other fields would change too",
            fix="change `version`, `sha256` and `patches` by hand",
        )
    check_recipe(expected)
    folder = patch_folder(entry)
    changes: dict[Path, bytes | None] = {entry.root / recipe.module: text.encode()}
    changes |= {folder / patch.file: patch.content for patch in health if patch.state == "offset"}
    return changes | dict.fromkeys((folder / name for name in obsolete), None)


def _renamed_locks(
    entry: CatalogueEntry, recipe: Recipe, changed: Recipe
) -> dict[Path, bytes | None]:
    """Return locks of the present frameworks under the names that the changed recipe has for them.

    A recipe of one framework has a lock without its name.
    """
    changes: dict[Path, bytes | None] = {}
    present = {(lock.kind, lock.cuda, lock.framework): lock for lock in locks_of(recipe)}
    for lock in locks_of(changed):
        old = present.get((lock.kind, lock.cuda, lock.framework))
        if old is None or old.path == lock.path or old.requirements != lock.requirements:
            continue
        content = read_if_there(entry.root / old.path)
        if content:
            renamed = content.replace(f"`{old.command}`".encode(), f"`{lock.command}`".encode(), 1)
            changes |= {entry.root / old.path: None, entry.root / lock.path: renamed}
    return changes


def _change_locks(
    entry: CatalogueEntry,
    project: Path,
    options: BumpOptions,
    workspace: Workspace,
    framework: Framework | None = None,
) -> dict[Path, bytes | None]:
    """Return the new locks of the changed recipe, also those for other frameworks that are kept.

    Args:
        framework: only the locks with this release are written; None: all.
    """
    [changed] = load_catalogue([project])
    names = [lock.name for lock in locks_of(changed.recipe)] if changed.recipe else []
    jobs = lock_jobs(
        names, (dataclasses.replace(changed, root=entry.root),), roots=workspace.caller.roots
    )
    aside = {
        spec.lock: dataclasses.replace(spec, lock=project / spec.lock.relative_to(entry.root))
        for spec in jobs
        if framework is None
        or (isinstance(spec.source, RecipeLock) and spec.source.framework == framework)
    }
    resolve_locks(fit_specs(tuple(aside.values()), workspace), workspace, cooldown=options.cooldown)
    return {path: read_bytes(spec.lock) for path, spec in aside.items()}


def print_bump(bump: Bump, *, is_trial: bool) -> None:
    """Print a change as a diff; of locks, which packages move."""
    terminal = report_terminal()
    locks = {path for path in bump.changes if path.suffix == ".lock"}
    others = {path: content for path, content in bump.changes.items() if path not in locks}
    for line in diff_of(bump.before, others, bump.root):
        terminal.out(line, style=_style(line), highlight=False)
    terminal.print("")
    for patch in bump.patches:
        terminal.print(f"{patch.file}: {show_state(patch.state)}")
        for text in patch.details:
            terminal.print(f"  {text}", markup=False)
    for text in bump.details:
        terminal.print(f"source: {text}", markup=False)
    for path in (path for path in bump.changes if path in locks):
        moved = _moved(bump.before[path], bump.changes[path])
        terminal.print(f"{path.relative_to(bump.root)}: {moved}", markup=False)
    verb = "would change" if is_trial else "changed"
    name, count = bump.recipe.name, plural(len(bump.changes), "file")
    terminal.print(f"[bold]{name} {bump.recipe.version} → {bump.version}[/]: {count} {verb}")
    if not is_trial:
        tag, archs = bump.toolkit.replace(".", ""), bump.recipe.archs_for(bump.toolkit)
        arch = "90" if "90" in archs else archs[-1] if archs else ""
        command = as_typed(f"nox -s build-{name}-{tag}" + (f" -- --arch {arch}" if arch else ""))
        terminal.print(f"review with `git diff`, then `{command}`")


def _style(line: str) -> str | None:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return "bold" if line.startswith(("+++", "---")) else colours.get(line[:1])


def _moved(before: bytes | None, content: bytes | None) -> str:
    if content is None:
        return "removed"
    old, new = _versions(before), _versions(content)
    if not old:
        return f"new, {plural(len(new), 'package')}"
    moved = [
        f"{name} {old.get(name, 'new')} → {new.get(name, 'gone')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    return ", ".join(moved) if moved else "the same packages"


def _versions(content: bytes | None) -> dict[str, str]:
    """Return each package's release; several for some Pythons are joined."""
    versions: dict[str, list[str]] = {}
    for pin in parse_pins((content or b"").decode()):
        versions.setdefault(pin.requirement.name, []).append(pin.version)
    return {name: "/".join(several) for name, several in versions.items()}
