"""What auditwheel copied of the machine into a wheel: only what the recipe names may be there."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.cuda.suppliers import component_of_copy, name_before_graft, stem_of
from cuwheel.errors import RepairError
from cuwheel.repair.links import read_libraries, say_link
from cuwheel.repair.metadata import copied_in

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target


def check_bundles(target: Target, content: Path) -> tuple[str, ...]:
    """See that a wheel holds no library of the machine but those that its recipe names.

    CUDA's own are there where the recipe's mode says so.

    Args:
        target: what was built.
        content: the wheel, unpacked, behind auditwheel.

    Returns:
        What the recipe names and nothing needed.

    Raises:
        RepairError: with each that it doesn't name, and who needs it.
    """
    link, cuda = target.recipe.link, target.toolkit.major
    files = (PurePosixPath(name).name for name, _ in copied_in(content))
    copied = {file: stem_of(file) for file in files if component_of_copy(file, cuda) is None}
    if unnamed := {file: stem for file, stem in copied.items() if stem not in link.bundles}:
        raise RepairError(
            f"{target.id}: the wheel would contain system libraries that its recipe doesn't name",
            why="\n".join(
                f"{name_before_graft(file)}, {_askers(content, file)}" for file in sorted(unnamed)
            ),
            fix=f"{say_link(link, bundles=unnamed.values())}, and its licence into `license`; or "
            "keep the build from linking it, with an option of the package or a patch",
        )
    return tuple(name for name in link.bundles if name not in copied.values())


def _askers(content: Path, file: str) -> str:
    """Whom auditwheel copied a library for; it has renamed what they need."""
    needing = [one.name for one in read_libraries(content) if file in one.elf.needed]
    return f"for {', '.join(needing)}" if needing else "which nothing lists as needed"
