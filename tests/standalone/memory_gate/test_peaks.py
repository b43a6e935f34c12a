from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.standalone.memory_gate import peaks
from cuwheel.standalone.memory_gate.peaks import Peaks

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.fixture
def learned(tmp_path: Path) -> Peaks:
    return Peaks(str(tmp_path), "tiny-130")


def expected(peaks: Peaks, tool: str, key: str, guessed: int) -> int:
    return peaks.expect(tool, key, guessed)[0]


def test_guesses_by_tool() -> None:
    assert peaks.guess("cicc", 1000) == 1000
    assert peaks.guess("ptxas", 1000) == 250
    assert peaks.guess("g++", 1000) == 500
    assert peaks.guess("cicc") == 2048 * MIB


def test_takes_guess_where_nothing_was_learned(learned: Peaks) -> None:
    assert expected(learned, "cicc", "/s/a.cu 80", 1000 * MIB) == 1000 * MIB


def test_expects_a_little_more_than_it_learned(learned: Peaks) -> None:
    learned.learn("cicc", "/s/a.cu 80", 100 * MIB)

    assert expected(learned, "cicc", "/s/a.cu 80", 1000 * MIB) == 126 * MIB


def test_keeps_keys_tools_and_targets_apart(learned: Peaks, tmp_path: Path) -> None:
    learned.learn("cicc", "/s/a.cu 80", 100 * MIB)

    assert expected(learned, "cicc", "/s/a.cu 90", 1000 * MIB) == 1000 * MIB
    assert expected(learned, "ptxas", "/s/a.cu 80", 1000 * MIB) == 1000 * MIB
    assert expected(Peaks(str(tmp_path), "other"), "cicc", "/s/a.cu 80", 1000 * MIB) == 1000 * MIB


def test_learns_more_at_once_and_less_slowly(learned: Peaks) -> None:
    for peak in (100, 200, 100):
        learned.learn("cicc", "a", peak * MIB)

    assert expected(learned, "cicc", "a", 0) == int(190 * MIB * 1.1) + 16 * MIB


def test_knows_a_target_by_its_other_files(learned: Peaks) -> None:
    for name in ("a", "b", "c"):
        learned.learn("cicc", name, 80 * MIB)

    assert expected(learned, "cicc", "d", 2048 * MIB) == 116 * MIB


def test_never_guesses_less_than_another_file_took(learned: Peaks) -> None:
    learned.learn("cicc", "a", 4000 * MIB)

    assert expected(learned, "cicc", "b", 2048 * MIB) == 5016 * MIB


def test_forgets_a_suspicion_once_it_has_measured(learned: Peaks) -> None:
    learned.suspect("cicc", "a", 1000 * MIB)
    suspected = expected(learned, "cicc", "a", 0)

    learned.learn("cicc", "a", 100 * MIB)

    assert suspected == int(1000 * MIB * 1.1) + 16 * MIB
    assert expected(learned, "cicc", "a", 0) == 126 * MIB


def test_suspects_no_less_than_it_measured(learned: Peaks) -> None:
    learned.learn("cicc", "a", 100 * MIB)

    learned.suspect("cicc", "a", 90 * MIB)

    assert expected(learned, "cicc", "a", 0) == 126 * MIB


def test_knows_only_what_it_has_measured(learned: Peaks) -> None:
    learned.learn("cicc", "measured", 100 * MIB)
    learned.suspect("cicc", "suspected", 100 * MIB)

    names = ("measured", "suspected", "new")
    known = [learned.expect("cicc", name, 100 * MIB)[1] for name in names]
    assert known == [100 * MIB, 0, 0]


def test_tells_two_keys_of_one_checksum_apart(learned: Peaks) -> None:
    # A pair that CRC-32 doesn't tell apart; anyone's first example.
    learned.learn("cicc", "plumless", 100 * MIB)

    assert expected(learned, "cicc", "buckeroo", 7) != 126 * MIB


@pytest.mark.parametrize("text", ["", "x", "12", "-5 a", "12 b", "\x00\xff"])
def test_takes_a_damaged_file_for_none(learned: Peaks, tmp_path: Path, text: str) -> None:
    learned.learn("cicc", "a", 100 * MIB)
    for path in (tmp_path / "peaks" / "tiny-130").iterdir():
        path.write_text(text, encoding="latin-1")

    assert expected(learned, "cicc", "a", 500 * MIB) >= 500 * MIB


def test_leaves_nothing_half_written(learned: Peaks, tmp_path: Path) -> None:
    learned.learn("cicc", "a", 100 * MIB)

    assert not list((tmp_path / "peaks").rglob(".*"))


def test_keeps_no_path_out_of_its_folder(tmp_path: Path) -> None:
    Peaks(str(tmp_path), "../../up").learn("cicc", "a", 1)

    assert [path.name for path in (tmp_path / "peaks").iterdir()] == [".._.._up"]
