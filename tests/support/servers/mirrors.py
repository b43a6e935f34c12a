"""A mirror of a few wheels."""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.locks.mirror_folder import wheels_page


def mirror_wheels(wheels: Path, folder: Path) -> None:
    """Move the wheels of a folder into a mirror."""
    for wheel in wheels.glob("*.whl"):
        place = folder / "downloads" / sha256_of_file(wheel) / wheel.name
        place.parent.mkdir(parents=True)
        wheel.rename(place)
    (folder / "wheels.html").write_text(wheels_page(folder))
