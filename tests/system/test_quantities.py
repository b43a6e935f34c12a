from __future__ import annotations

import pytest

from cuwheel.system.quantities import show_share, show_size, show_time


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (0.018, "0.02 s"), (9.96, "10.0 s"), (59.97, "1:00"), (250, "4:10"),
     (3599.6, "1:00:00"), (3723, "1:02:03"), (360_000, "100:00:00")],
)  # fmt: skip
def test_shows_times(seconds: float, shown: str) -> None:
    assert show_time(seconds) == shown


def test_shows_sizes_and_shares() -> None:
    assert [show_size(size) for size in (0, 512 << 20, 3 << 30)] == ["0 MiB", "512 MiB", "3.0 GiB"]
    assert [show_share(part) for part in (0, 0.001, 0.61, 1)] == ["0 %", "<1 %", "61 %", "100 %"]
