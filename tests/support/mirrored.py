"""A mirror of a few wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.locks.mirror_folder import wheels_page
from cuwheel.system.files import sha256_of_file

if TYPE_CHECKING:
    from pathlib import Path


def mirror_wheels(wheels: Path, folder: Path) -> None:
    """Move the wheels of a folder into a mirror."""
    for wheel in wheels.glob("*.whl"):
        place = folder / "downloads" / sha256_of_file(wheel) / wheel.name
        place.parent.mkdir(parents=True)
        wheel.rename(place)
    (folder / "wheels.html").write_text(wheels_page(folder))
