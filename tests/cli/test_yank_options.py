from __future__ import annotations

import pytest

from cuwheel.cli.parser import new_parser
from cuwheel.cli.yank_options import add_yank_options, yanks_of
from cuwheel.errors import UsageError


def asked(*words: str) -> dict[str, str | None]:
    parser = new_parser("release", "")
    add_yank_options(parser)
    return yanks_of(parser.parse_args(words))


def test_gives_what_is_withdrawn_and_what_is_good_again() -> None:
    words = ["--yank", "toy==1.0", "--reason", "wrong", "--unyank", "toy==0.9"]

    assert asked(*words) == {"toy==1.0": "wrong", "toy==0.9": None}
    assert asked() == {}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--reason", "wrong"], "--reason is for --yank"),
        (["--yank", "toy==1.0"], "--yank needs a reason"),
        (
            ["--yank", "toy==1.0", "--reason", "x", "--unyank", "toy==1.0"],
            "were both given for toy==1.0",
        ),
    ],
)
def test_refuses_what_does_not_fit_together(words: list[str], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        asked(*words)
