from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.index.folder_index import write_index
from cuwheel.system.files import sha256_of_file
from cuwheel.wheel.publication import (
    build_tag_of,
    missing_beside,
    newest_build,
    published_sha256,
    remove_unpublished,
    statement_of,
)
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

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
    (tmp_path / "simple" / "tiny").mkdir(parents=True)
    (tmp_path / "simple" / "tiny" / ".index.html.abc.cuwheel-part").touch()

    remove_unpublished(tmp_path)

    left = {path.name for path in tmp_path.rglob("*")}
    assert left == {"simple", "tiny", ".publish.lock", ".simple.lock"}


def test_removes_files_without_names_that_killed_builds_left(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "simple"):
        (folder / ".cuwheel-new").mkdir(parents=True)
        (folder / ".cuwheel-new" / "0").touch()

    remove_unpublished(tmp_path)

    left = {path.name for path in tmp_path.rglob("*")}
    assert left == {"simple", ".publish.lock", ".simple.lock"}


def test_removes_half_a_page_that_a_killed_build_left(tmp_path: Path) -> None:
    part = tmp_path / "simple" / "tiny" / ".index.html.abc.cuwheel-part"
    part.parent.mkdir(parents=True)
    part.touch()

    remove_unpublished(tmp_path)

    assert not part.exists()


@pytest.mark.parametrize(
    "name",
    [
        "simple/index.html",
        "simple/toy/index.html",
        "toy-1.0-py3-none-any.whl.metadata",
        "toy-1.0-py3-none-any.whl.provenance.json",
    ],
)
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("")])
def test_names_what_is_missing_beside_a_wheel(
    name: str, damage: Callable[[Path], object], tmp_path: Path
) -> None:
    dist = tmp_path / "dist"
    wheel = add_wheel(dist)
    statement_of(wheel).write_text(sha256_of_file(wheel))
    write_index(dist)
    whole = missing_beside(wheel, sha256_of_file(wheel))

    damage(dist / name)

    assert (whole, missing_beside(wheel, sha256_of_file(wheel))) == ((), (name,))


def test_touches_nothing_where_nothing_is_left(tmp_path: Path) -> None:
    remove_unpublished(tmp_path)

    assert not list(tmp_path.iterdir())
