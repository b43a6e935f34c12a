"""Where the loader of another kind of machine finds its system's libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuwheel.model.platform import Platform
    from cuwheel.workspace.job import TargetRoot

_TRUSTED = ("lib64", "usr/lib64", "lib", "usr/lib")  # ld.so(8): searched after all others


def library_folders(root: TargetRoot, platform: Platform) -> tuple[Path, ...]:
    """Folders of libraries that a linker for that machine finds, as paths of this one.

    Args:
        root: of the machine; what its `/etc/ld.so.conf` names comes first.
        platform: of the machine. What its compiler brings along on Debian (`libgomp.so.1`, which a
            small root needn't have) comes last.
    """
    # Builds for this machine, and commands that only check a target, don't need it.
    from auditwheel.lddtree import parse_ld_so_conf  # noqa: PLC0415

    folder = root.folder
    named = parse_ld_so_conf(f"{folder}/etc/ld.so.conf", root=f"{folder}/")
    found = [*map(Path, named), *(folder / name for name in _TRUSTED)]
    found.append(platform.cross_libraries)
    return tuple(dict.fromkeys(path for path in found if path.is_dir()))
