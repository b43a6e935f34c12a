from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cuwheel.system.files import sha256_of_file
from cuwheel.wheel.publication import (
    build_tag_of,
    newest_build,
    published_sha256,
    remove_unpublished,
    statement_of,
)

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "tiny_cuda-1.2.3+cu130-py3-none-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(("tag", "number"), [("", 0), ("-1", 1), ("-12.fc40", 12)])
def test_reads_build_tag(tag: str, number: int) -> None:
    assert build_tag_of(f"tiny-1.0{tag}-py3-none-any.whl") == number


@pytest.mark.parametrize(
    ("files", "newest"),
    [
        ([], None),
        ([_NAME], 0),
        ([_NAME, _NAME.replace("-py3", "-2-py3")], 2),
        ([f"{_NAME.replace('-py3', '-9-py3')}.provenance.json"], 9),
        ([_NAME.replace("1.2.3", "1.2.4"), _NAME.replace("2_28", "2_34"), "no.whl"], None),
    ],
)
def test_finds_newest_build(files: list[str], newest: int | None, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).touch()

    assert newest_build(tmp_path, _NAME) == newest


def test_statement_says_what_was_published(tmp_path: Path) -> None:
    wheel = tmp_path / _NAME
    wheel.write_bytes(b"tampered with")
    without = published_sha256(wheel)
    said = {"subject": [{"digest": {"sha256": "a" * 64}}]}
    statement_of(wheel).write_text(json.dumps(said))

    assert without == sha256_of_file(wheel)
    assert published_sha256(wheel) == "a" * 64
    assert published_sha256(tmp_path / "other.whl") == ""


def test_removes_what_killed_builds_left(tmp_path: Path) -> None:
    (tmp_path / ".tiny.whl.abc.cuwheel-part").touch()
    (tmp_path / ".simple.abc").mkdir()
    (tmp_path / "simple").mkdir()

    remove_unpublished(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {"simple", ".publish.lock", ".simple.lock"}


def test_touches_nothing_where_nothing_is_left(tmp_path: Path) -> None:
    remove_unpublished(tmp_path)

    assert not list(tmp_path.iterdir())
