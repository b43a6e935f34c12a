from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.index.yanks import read_yanks, yank
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from pathlib import Path

FILE = "toy-1.0-py3-none-any.whl"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    add_wheel(tmp_path / "dist", "1.0")
    add_wheel(tmp_path / "dist", "2.0")
    return tmp_path / "dist"


@pytest.mark.parametrize("name", [FILE, "toy==1.0", "Toy==1.0.0"])
def test_withdraws_and_takes_it_back(name: str, dist: Path) -> None:
    assert yank(dist, name, "broken") == (FILE,)
    assert read_yanks(dist) == {FILE: "broken"}

    yank(dist, name, None)

    assert read_yanks(dist) == {}
    assert not (dist / "yanked.json").exists()


@pytest.mark.parametrize("name", ["toy", "toy==3.0", "other==1.0", "toy==x", "toy-1.0-py3-none"])
def test_refuses_what_is_not_there(name: str, dist: Path) -> None:
    with pytest.raises(UsageError) as caught:
        yank(dist, name, "broken")

    assert f"holds no wheel {name}" in caught.value.what


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}'])
def test_names_a_damaged_list(text: str, dist: Path) -> None:
    (dist / "yanked.json").write_text(text)

    with pytest.raises(UsageError, match="can't be read"):
        read_yanks(dist)
