"""Files of the built wheel that the published one goes without."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cuwheel.errors import RepairError
from cuwheel.system.files import list_tree

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target


def leave_out(content: Path, target: Target) -> tuple[str, ...]:
    """Remove what the recipe's `leave_out` names; RECORD is written anew when the wheel is packed.

    Args:
        content: a wheel's content.
        target: whose recipe.

    Returns:
        The names of the files, in order.

    Raises:
        RepairError: a pattern fits no file, or one of the wheel's metadata.
    """
    names = sorted(name.as_posix() for name in list_tree(content))
    fitting = {
        pattern: [name for name in names if fnmatchcase(name, pattern)]
        for pattern in target.recipe.leave_out
    }
    gone = sorted({name for found in fitting.values() for name in found})
    faults = [f'"{pattern}" matches no file' for pattern, found in fitting.items() if not found]
    faults += [
        f"it matches {name}, which is part of the wheel's metadata"
        for name in gone
        if name.partition("/")[0].endswith(".dist-info")
    ]
    if faults:
        raise RepairError(
            f"{target.id}: `leave_out` can't be applied",
            why="\n".join(faults),
            fix=f"correct `leave_out` in {target.recipe.module}; the wheel contains "
            f"{', '.join(dict.fromkeys(name.partition('/')[0] for name in names))}",
        )
    for name in gone:
        (content / name).unlink()
    return tuple(gone)
