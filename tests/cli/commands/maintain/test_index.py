"""The session `index` on a folder of wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import UsageError
from cuwheel.system.console import Console
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from pathlib import Path


def test_writes_index_of_a_folder(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "wheels")

    run_command("index", ["--dist", str(tmp_path / "wheels")], Console())

    pages = (tmp_path / "wheels" / "simple").rglob("index.html")
    assert any(wheel.name in page.read_text() for page in pages)


def test_names_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        run_command("index", ["--dist", str(tmp_path / "nowhere")], Console())
