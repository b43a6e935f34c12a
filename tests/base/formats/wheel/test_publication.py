from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.formats.wheel.publication import (
    build_tag_of,
    missing_beside,
    newest_build,
    published_sha256,
    remove_unpublished,
    statement_of,
)
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.wheelhouse.folder_index import write_index
from tests.support.packages.toy_wheel import add_wheel

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


def test_statement_holds_the_published_hash(tmp_path: Path) -> None:
    wheel = tmp_path / _NAME
    wheel.write_bytes(b"tampered with")
    without = published_sha256(wheel)
    content = {"subject": [{"digest": {"sha256": "a" * 64}}]}
    statement_of(wheel).write_text(json.dumps(content))

    assert without == sha256_of_file(wheel)
    assert published_sha256(wheel) == "a" * 64
    assert published_sha256(tmp_path / "other.whl") == ""


@pytest.mark.parametrize(
    "name",
    [
        *(".tiny.whl.abc.cuwheel-part", "simple/tiny/.index.html.abc.cuwheel-part"),
        *(".cuwheel-new/0", "simple/.cuwheel-new/0"),
    ],
)
def test_removes_leftovers_of_killed_builds(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()

    remove_unpublished(tmp_path)

    names = {path.name for path in tmp_path.rglob("*")}
    assert names - {"simple", "tiny"} == {".publish.lock", ".simple.lock"}


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
def test_names_missing_files_of_a_wheel(
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
