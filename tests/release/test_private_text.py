"""What is published names no folder of this machine and no password."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.release.private_text import PublicText

TEXT = PublicText({Path("/home/al"): "~", Path("/home/al/work"): "<work>", Path("/"): "<root>"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cc /home/al/work/x.c -I/home/al/include", "cc <work>/x.c -I~/include"),
        ("in /home/alice and /home/al-2", "in /home/alice and /home/al-2"),
        ("look into /home/al.", "look into ~."),
        ("https://me:secret@host/x", "https://host/x"),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_says_what_others_may_read(text: str, shown: str) -> None:
    assert TEXT.of(text) == shown


def test_knows_a_folder_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    text = PublicText({tmp_path / "link": "<work>"})

    assert text.of(f"{tmp_path}/real/x {tmp_path}/link/x") == "<work>/x <work>/x"
