from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.build.wheelhouse.yanks import PublishedNames, read_yanks, yank
from tests.support.packages.toy_wheel import add_wheel

FILE = "toy-1.0-py3-none-any.whl"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    add_wheel(tmp_path / "dist", "1.0")
    add_wheel(tmp_path / "dist", "2.0")
    return tmp_path / "dist"


@pytest.mark.parametrize("name", [FILE, "toy==1.0", "Toy==1.0.0"])
def test_withdraws_and_takes_it_back(name: str, dist: Path) -> None:
    assert yank({name: "broken"}, [dist]) == {name: (FILE,)}
    assert read_yanks(dist) == {FILE: "broken"}

    yank({name: None}, [dist])

    assert read_yanks(dist) == {}
    assert (dist / "yanked.json").read_text() == "{}\n"  # it had some: a release looks


def test_folder_that_never_had_any_gets_no_list(dist: Path) -> None:
    yank({FILE: None}, [dist])

    assert not (dist / "yanked.json").exists()


@pytest.mark.parametrize("name", ["toy", "toy==3.0", "other==1.0", "toy==x", "toy-1.0-py3-none"])
def test_refuses_what_is_not_there(name: str, dist: Path) -> None:
    with pytest.raises(UsageError) as caught:
        yank({name: "broken"}, [dist])

    assert f"has no wheel {name}" in caught.value.what


def test_finds_it_in_any_folder(dist: Path, tmp_path: Path) -> None:
    other = add_wheel(tmp_path / "other", "3.0").parent

    for folders in ([dist, other], [other, dist]):
        assert yank({"toy==1.0": "broken"}, folders) == {"toy==1.0": (FILE,)}
        assert (read_yanks(dist), read_yanks(other)) == ({FILE: "broken"}, {})
        yank({"toy==1.0": None}, folders)


def test_writes_nothing_where_one_is_missing(dist: Path) -> None:
    with pytest.raises(UsageError, match=r"toy==9\.0"):
        yank({"toy==1.0": "broken", "toy==9.0": None}, [dist])

    assert read_yanks(dist) == {}


def test_writes_nothing_where_a_list_is_damaged(dist: Path, tmp_path: Path) -> None:
    other = add_wheel(tmp_path / "other", "3.0").parent
    (other / "yanked.json").write_text("[]")

    with pytest.raises(UsageError, match="can't be read"):
        yank({"toy==1.0": "broken"}, [dist, other])

    assert read_yanks(dist) == {}


def test_withdraws_where_the_wheel_is(dist: Path, tmp_path: Path) -> None:
    """A site's list follows that of the folders, for what these hold."""
    files = add_wheel(tmp_path / "files", "1.0", content="#").parent
    gone = add_wheel(tmp_path / "files", "0.9").name

    published = PublishedNames(files, frozenset([FILE, gone]))
    yank({"toy==1.0": "broken", "toy==0.9": "old"}, [dist], published)

    assert (read_yanks(dist), read_yanks(files)) == ({FILE: "broken"}, {gone: "old"})


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}'])
def test_names_a_damaged_list(text: str, dist: Path) -> None:
    (dist / "yanked.json").write_text(text)

    with pytest.raises(UsageError, match="can't be read"):
        read_yanks(dist)
