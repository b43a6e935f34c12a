"""What is said of wheels that don't work; how they are tried is in tests/stages/test_smoke.py."""

from __future__ import annotations

from cuwheel.smoke import problems


def test_sends_to_a_machine_with_driver() -> None:
    said = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"

    assert "NVIDIA's driver" in problems._hint(said)
