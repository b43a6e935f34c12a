"""The session `index` on a folder of wheels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import IndexCheckError, UsageError
from cuwheel.system.console import Console
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))


def test_writes_index_of_a_folder(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "wheels")

    run_command("index", ["--dist", str(tmp_path / "wheels")], Console())

    pages = (tmp_path / "wheels" / "simple").rglob("index.html")
    assert any(wheel.name in page.read_text() for page in pages)


def test_names_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        run_command("index", ["--dist", str(tmp_path / "nowhere")], Console())


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_withdraws_and_publishes_several_folders(order: tuple[str, str], tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "a", "1.0")
    add_wheel(tmp_path / "b", "2.0")

    index(tmp_path, order, "--yank", "toy==1.0", "--reason", "broken")

    assert withdrawn(tmp_path) == {wheel.name: "broken"}


def test_withdraws_what_is_only_published(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "a", "1.0")
    add_wheel(tmp_path / "a", "2.0")
    index(tmp_path, "a")
    wheel.unlink()

    index(tmp_path, "a", "--yank", "toy==1.0", "--reason", "broken")

    assert withdrawn(tmp_path) == {wheel.name: "broken"}
    index(tmp_path, "a", "--unyank", "toy==1.0")
    assert withdrawn(tmp_path) == {}


def test_refuses_to_withdraw_what_nobody_has(tmp_path: Path) -> None:
    add_wheel(tmp_path / "a", "1.0")

    with pytest.raises(UsageError, match=r"holds no wheel toy==3\.0"):
        index(tmp_path, "a", "--yank", "toy==3.0", "--reason", "broken")

    assert not (tmp_path / "site").exists()


def test_refuses_both_of_one_wheel(tmp_path: Path) -> None:
    add_wheel(tmp_path / "a", "1.0")

    with pytest.raises(UsageError, match="both name toy"):
        index(tmp_path, "a", "--yank", "toy==1.0", "--reason", "old", "--unyank", "toy==1.0")


def test_says_as_data_what_was_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = add_wheel(tmp_path / "a", "1.0")

    index(tmp_path, "a", "--json", "--yank", "toy==1.0", "--reason", "broken")

    found = json.loads(capsys.readouterr().out)
    assert found == {
        "site": str(tmp_path / "site"),
        "added": 1,
        "variants": 0,
        "cuda": [],
        "withdrawn": [wheel.name],
        "good_again": [],
        "wheels": [wheel.name],
    }


def index(root: Path, folders: Sequence[str], *words: str) -> None:
    """Publish folders into `site`."""
    given = [word for name in folders for word in ("--dist", str(root / name))]
    run_command("index", [*given, "--to", str(root / "site"), *words], Console())


def withdrawn(root: Path) -> dict[str, str]:
    """What the site's index for installers says of that."""
    page = json.loads((root / "site" / "simple" / "toy" / "index.json").read_text())
    return {one["filename"]: one["yanked"] for one in page["files"] if one.get("yanked")}


def test_checks_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_wheel(tmp_path / "a")
    index(tmp_path, "a")

    run_command("index", ["--check", str(tmp_path / "site"), "--json"], Console())

    data = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (data["verdict"], data["files"], data["findings"]) == ("ok", 1, [])


def test_check_that_finds_errors_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = add_wheel(tmp_path / "a")
    index(tmp_path, "a")
    (tmp_path / "site" / "files" / wheel.name).unlink()

    with pytest.raises(IndexCheckError) as caught:
        run_command("index", ["--check", str(tmp_path / "site")], Console())

    assert "missing" in caught.value.why
    assert "error missing: A file isn't where its page says." in capsys.readouterr().out


def test_check_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--to is for writing"):
        run_command("index", ["--check", str(tmp_path), "--to", str(tmp_path)], Console())
