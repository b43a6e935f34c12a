from __future__ import annotations

import pytest

from cuwheel.base.system.quantities import (
    first_of,
    plural,
    read_size,
    show_share,
    show_size,
    show_time,
)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (0.018, "0.02 s"), (9.96, "10.0 s"), (59.97, "1:00"), (250, "4:10"),
     (3599.6, "1:00:00"), (3723, "1:02:03"), (360_000, "100:00:00")],
)  # fmt: skip
def test_shows_times(seconds: float, shown: str) -> None:
    assert show_time(seconds) == shown


def test_shows_sizes_and_shares() -> None:
    sizes = [show_size(size) for size in (0, 1, 1536, 512 << 20, 3 << 30)]
    assert sizes == ["0 bytes", "1 byte", "1.5 KiB", "512.0 MiB", "3.0 GiB"]
    assert [show_share(part) for part in (0, 0.001, 0.61, 1)] == ["0 %", "<1 %", "61 %", "100 %"]


@pytest.mark.parametrize(
    ("count", "noun", "shown"),
    [(0, "wheel", "0 wheels"), (1, "wheel", "1 wheel"), (2, "library", "2 libraries"),
     (1234, "byte", "1,234 bytes"), (2, "day", "2 days")],
)  # fmt: skip
def test_counts(count: int, noun: str, shown: str) -> None:
    assert plural(count, noun) == shown


@pytest.mark.parametrize(
    ("text", "size"),
    [("500M", 500 << 20), (" 20 GiB ", 20 << 30), ("1tb", 1 << 40), ("4k", 4096), ("0M", 0),
     ("10", None), ("lots", None), ("", None), ("1.5G", None)],
)  # fmt: skip
def test_reads_sizes_with_a_unit(text: str, size: int | None) -> None:
    assert read_size(text) == size


def test_lists_the_first() -> None:
    assert first_of(["a", "b", "c"], 3) == "a, b, c"
    assert first_of(["a", "b", "c"], 1, "; ") == "a and 2 more"
    assert first_of(["a", "b", "c"], 2, "; ") == "a; b and 1 more"
