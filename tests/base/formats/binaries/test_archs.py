from __future__ import annotations

import pytest

from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code, gaps_of, runs_on


@pytest.mark.parametrize(
    ("sass", "ptx", "capability", "how"),
    [
        (("90",), (), "90", "SASS"),
        (("80",), (), "86", "SASS"),
        (("86",), (), "80", ""),
        (("80",), (), "90", ""),
        (("90a",), (), "90", "SASS"),
        (("100a",), (), "103", ""),
        (("100f",), (), "103", "SASS"),
        (("100f",), (), "120", ""),
        (("120",), (), "121", "SASS"),
        ((), ("80",), "90", "PTX"),
        (("75",), ("90",), "80", ""),
        ((), ("90a",), "100", ""),
        ((), ("90a",), "90", "PTX"),
        ((), ("100f",), "103", "PTX"),
        ((), ("103f",), "100", ""),
        ((), ("100f",), "110", ""),
    ],
)
def test_returns_how_code_runs(
    sass: tuple[str, ...], ptx: tuple[str, ...], capability: str, how: str
) -> None:
    assert runs_on(DeviceCode(sass=sass, ptx=ptx), capability) == how


def test_names_archs_of_each_kind() -> None:
    code = DeviceCode(sass=("80",), ptx=("90",), lto=("80",), tile=("100",))

    text = describe_code(code)

    assert text == "sm_80 compute_90 (PTX) lto_80 (LTO-IR) tile_100 (Tile IR)"


@pytest.mark.parametrize(
    ("archs", "gaps"),
    [
        (("90", "120"), ["10.x"]),
        (("75", "90"), ["8.x"]),
        (("80", "90", "100", "120"), []),
        (("86", "90"), []),
        (("90a", "120a"), ["10.x"]),
        (("90",), []),
    ],
)
def test_finds_generations_that_machine_code_leaves_out(
    archs: tuple[str, ...], gaps: list[str]
) -> None:
    assert gaps_of(DeviceCode(sass=archs)) == gaps
