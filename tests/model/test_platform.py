from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cuwheel.model.platform import AARCH64, PLATFORMS, X86_64, own_platform

if TYPE_CHECKING:
    import pytest


def test_names_platforms_as_wheels_do() -> None:
    assert tuple(PLATFORMS) == ("linux_x86_64", "linux_aarch64")


def test_own_machine_is_not_foreign() -> None:
    own = own_platform()

    assert own.machine == platform.machine()
    assert (own.is_foreign, own.tool_prefix) == (False, "")


def test_other_machine_has_programs_of_its_own() -> None:
    other = AARCH64 if own_platform() == X86_64 else X86_64

    assert other.is_foreign
    assert other.tool_prefix == f"{other.triplet}-"


def test_machine_that_nothing_is_known_of_is_taken_for_x86_64(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    assert own_platform() is X86_64
