"""A wheel that holds next to nothing, for indexes."""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.formats.wheel.archive import pack
from tests.support.factories import EPOCH


def add_wheel(  # noqa: PLR0913 - each is one line of a wheel
    dist: Path,
    version: str = "1.0",
    *,
    requires_python: str = "",
    says: str = "",
    content: str = "",
    requires: str = "",
) -> Path:
    """A pure wheel `toy`; `says` is the version in its METADATA where that is another."""
    folder = dist.parent / f"toy-{version}-{len(content)}"
    dist_info = folder / f"toy-{version}.dist-info"
    dist_info.mkdir(parents=True)
    dist.mkdir(exist_ok=True)
    python = f"Requires-Python: {requires_python}\n" * bool(requires_python)
    python += f"Requires-Dist: {requires}\n" * bool(requires)
    (folder / "toy.py").write_text(f"VERSION = {version!r}\n{content}")
    (dist_info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    (dist_info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: toy\nVersion: {says or version}\n{python}\nText.\n"
    )
    path = dist / f"toy-{version}-py3-none-any.whl"
    pack(folder, path, epoch=EPOCH)
    return path
