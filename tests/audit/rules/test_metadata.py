"""The rules for what a wheel says of itself: those for installers are in `test_wheel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from tests.support.factories import write_wheel
from tests.support.planted import rewrite, told

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("text/x-rst", ".. nope:: x\n", "is reStructuredText and can't be rendered: line "),
        ("", "# Title\n\n```\ncode\n```\n\n`a <b`_\n", "is read as reStructuredText"),
        ("text/x-rst", "Title\n=====\n", ""),
        ("text/markdown", ".. nope:: x\n", ""),
        ("", "", ""),
    ],
)
def test_finds_description_that_index_does_not_show(
    tmp_path: Path, kind: str, text: str, said: str
) -> None:
    wheel = write_wheel(tmp_path, {}, name="pkg", tag="py3-none-any")
    stated = f"Description-Content-Type: {kind}\n" if kind else ""
    rewrite(wheel, tmp_path / "content", "METADATA", "\nA text.\n", f"{stated}\n{text}")

    found = told(audit_wheel(wheel))

    assert len(found) == bool(said)
    assert all(line.startswith("warning: METADATA: metadata: the long ") for line in found)
    assert all(said in line for line in found)
