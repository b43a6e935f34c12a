"""A published wheel: a file with its provenance beside it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

from cuwheel.base.formats.wheel.provenance import statement
from tests.base.formats.wheel.test_provenance import RECORD


def wheel_content() -> bytes:
    """The least that counts as a wheel."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("x-1.0.dist-info/WHEEL"), "Wheel-Version: 1.0\n")
    return content.getvalue()


CONTENT = wheel_content()  # a wheel, as far as its hash and its table of contents are concerned
DIGEST = hashlib.sha256(CONTENT).hexdigest()
PARAMETERS = (
    ("recipe", "causal-conv1d"),
    ("toolkit", "13.0"),
    ("python", "3.12"),
    ("archs", ("80", "90")),
    ("link", "external"),
)


def publish(folder: Path, **changes: Any) -> Path:
    """A wheel with its provenance; gives back the wheel."""
    name = "x-1.0-py3-none-any.whl"
    made = dataclasses.replace(
        RECORD, **{"wheel": name, "sha256": DIGEST, "parameters": PARAMETERS, **changes}
    )
    (folder / name).write_bytes(CONTENT)
    (folder / f"{name}.provenance.json").write_text(statement(made))
    return folder / name
