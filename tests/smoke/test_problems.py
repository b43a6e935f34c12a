"""What is said of wheels that don't work; how they are tried is in tests/stages/test_smoke.py."""

from __future__ import annotations

import pytest

from cuwheel.smoke import problems

_ABSENT = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        (f"ImportError: libcuda.so.1: {_ABSENT}", "install g++, or run this stage on a machine"),
        (f"ImportError: libnvidia-ml.so.1: {_ABSENT}", "let the package load it on first use"),
        ("OSError: a.so: undefined symbol: cuMemCreate", 'add "driver" to the recipe\'s `link`'),
        (
            "OSError: a.so: undefined symbol: cublasCreate_v2",
            "declare the component that defines this",
        ),
    ],
)
def test_says_what_to_do_about_the_driver(said: str, fix: str) -> None:
    assert fix in problems._hint(said)
