"""Which cuwheel builds; the builds are in tests/e2e/test_verify.py and test_rebuild.py."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from cuwheel.paths import ROOT
from cuwheel.verify.rebuilds import _cuwheel_of

if TYPE_CHECKING:
    from pathlib import Path


def test_checkout_with_another_lock_has_an_environment_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    lock = tmp_path / "envs" / "engine.lock"
    shutil.copy(ROOT / "envs" / "engine.lock", lock)

    assert _cuwheel_of(tmp_path) == [sys.executable, "-m", "cuwheel"]

    lock.write_text(lock.read_text() + "# another\n")
    made = _cuwheel_of(tmp_path)
    assert made[0] == sys.executable
    assert made[2:] == ["-m", "cuwheel.bootstrap", "engine", "-m", "cuwheel"]
