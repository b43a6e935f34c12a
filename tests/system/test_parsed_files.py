from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.system.parsed_files import read_module, read_toml

if TYPE_CHECKING:
    from pathlib import Path

_DEEP = 100_000


def test_reads_what_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[a]\nb = 1\n")
    (tmp_path / "a.py").write_text("import os\n")

    assert read_toml(tmp_path / "a.toml") == {"a": {"b": 1}}
    assert len(read_module(tmp_path / "a.py").body) == 1


@pytest.mark.parametrize("text", [b"a = ", b"a = " + b"[" * _DEEP, b"\xff"])
def test_refuses_what_is_no_toml(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.toml").write_bytes(text)

    with pytest.raises(ValueError, match=r"."):
        read_toml(tmp_path / "a.toml")


# What Python 3.10 does with a chain of names can't be prevented: it ends the process.
_CHAIN = [b"a" + b".a" * _DEEP] if sys.version_info >= (3, 11) else []


@pytest.mark.parametrize("text", [b"if", b"-" * _DEEP + b"1", b"(" * _DEEP, b"a\0", *_CHAIN])
def test_refuses_what_is_no_module(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.py").write_bytes(text)

    with pytest.raises(ValueError, match=r"."):
        read_module(tmp_path / "a.py")
