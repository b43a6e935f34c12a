"""What a source that is here already asks of a recipe's locks, told when they are written.

Nothing of the package is run for this: what only its build backend knows, a build asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.locks.jobs import PypiLockSpec
from cuwheel.model.recipe_lock import RecipeLock
from cuwheel.model.source import Folder
from cuwheel.pypi.build_requirements import read_build_system
from cuwheel.pypi.run_requirements import stated_requirements, unlocked_requirements
from cuwheel.workspace.records import SourceTree
from cuwheel.workspace.serialization import read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.system.console import Console


def warn_of_source(specs: Iterable[object], console: Console, work: Path) -> None:
    """Warn of each lock without what the source states: the build or the smoke test would fail.

    Args:
        specs: of the locks that were written.
        console: says so.
        work: where builds have their folders.
    """
    for spec in specs:
        if not isinstance(spec, PypiLockSpec) or not isinstance(spec.source, RecipeLock):
            continue
        tree = _source_at_hand(spec.source, spec.lock, work)
        lacking = _lacking(spec.source, spec.lock, spec.python, tree) if tree else []
        if lacking:
            console.warn(
                f"{spec.lock.name} lacks build requirements of the source in {tree}: "
                f"{', '.join(lacking)}; {spec.source.way_to_add(*lacking)}"
            )


def _lacking(declared: RecipeLock, lock: Path, python: str, tree: Path) -> list[str]:
    """Of a build's lock, what the build requires; of the one for the smoke test, what runs."""
    required = list(read_build_system(tree).requires) if declared.kind == "build" else []
    if declared.kind == "smoke" or not declared.recipe.smoke.requires:
        required += stated_requirements(tree) or ()
    names = {declared.recipe.name}
    return unlocked_requirements(required, lock, python=python, without=names)


def _source_at_hand(declared: RecipeLock, lock: Path, work: Path) -> Path | None:
    """The recipe's own folder, else what a build has left unpacked; None: there is neither."""
    source = declared.recipe.source
    if isinstance(source, Folder):
        return lock.parents[len(declared.path.parts) - 1] / source.path
    found = (tree for tree in _unpacked(declared.recipe.name, work) if tree.is_dir())
    return next(found, None)


def _unpacked(name: str, work: Path) -> Iterator[Path]:
    for stage in ("patch", "source"):
        for record in sorted(work.glob(f"{name}-[0-9]*/stages/{stage}.json")):
            if tree := read_record(record, SourceTree):
                yield tree.path
