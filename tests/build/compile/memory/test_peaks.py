from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.free_memory import MIB
from cuwheel.build.compile.memory.peaks import Peaks


def make_peaks(folder: Path, recipe: str = "tiny") -> Peaks:
    return Peaks(folder, recipe, per_job=1000 * MIB)


@pytest.fixture
def peaks(tmp_path: Path) -> Peaks:
    return make_peaks(tmp_path)


@pytest.mark.parametrize(
    ("learned", "tool", "key", "expected"),
    [
        pytest.param((), "cicc", "a 80", 1000, id="what the recipe declares"),
        pytest.param((), "ptxas", "a 80", 250, id="a part of it for ptxas"),
        pytest.param((), "g++", "a", 500, id="a part of it for a host compiler"),
        pytest.param([("a 80", 100)], "cicc", "a 80", 110 + 16, id="a little more than learned"),
        pytest.param([("a 80", 100)], "cicc", "a 90", 1000, id="not of another key"),
        pytest.param([("a 80", 100)], "ptxas", "a 80", 250, id="not of another tool"),
        pytest.param([("a", 100), ("a", 200)], "cicc", "a", 220 + 16, id="more at once"),
        pytest.param([("a", 200), ("a", 100)], "cicc", "a", 209 + 16, id="less slowly"),
        pytest.param(
            [("a", 80), ("b", 80), ("c", 80)], "cicc", "d", 100 + 16, id="as three other files"
        ),
        pytest.param([("a", 4000)], "cicc", "b", 5000 + 16, id="not less than another file"),
        # A pair of equal CRC-32.
        pytest.param([("plumless", 1000)], "cicc", "buckeroo", 1250 + 16, id="one checksum"),
    ],
)
def test_expects(
    peaks: Peaks, learned: list[tuple[str, int]], tool: str, key: str, expected: int
) -> None:
    for learned_key, peak in learned:
        peaks.learn("cicc", learned_key, peak * MIB)

    assert peaks.expect(tool, key)[0] == expected * MIB


def test_keeps_recipes_apart(peaks: Peaks, tmp_path: Path) -> None:
    peaks.learn("cicc", "a", 100 * MIB)

    assert make_peaks(tmp_path, "other").expect("cicc", "a")[0] == 1000 * MIB


def test_knows_what_it_has_measured(peaks: Peaks) -> None:
    peaks.learn("cicc", "a", 100 * MIB)

    assert [peaks.expect("cicc", name)[1] for name in ("a", "b")] == [100 * MIB, 0]


@pytest.mark.parametrize("text", ["", "x", "12", "-5 a", "12 b", "12? a", "\x00\xff"])
def test_takes_a_damaged_file_for_none(peaks: Peaks, tmp_path: Path, text: str) -> None:
    peaks.learn("cicc", "a", 100 * MIB)
    for path in (tmp_path / "peaks" / "tiny").iterdir():
        path.write_text(text, encoding="latin-1")

    assert peaks.expect("cicc", "a")[0] >= 500 * MIB


def test_writes_whole_files_into_its_folder(tmp_path: Path) -> None:
    make_peaks(tmp_path, "../../up").learn("cicc", "a", 1)

    assert [path.name for path in (tmp_path / "peaks").iterdir()] == [".._.._up"]
    assert not list((tmp_path / "peaks" / ".._.._up").glob(".*"))
