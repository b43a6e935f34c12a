"""The session `index` on a folder of wheels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cuwheel.base.errors import FileAccessError, WheelIndexError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_document
from tests.support.packages.toy_wheel import add_wheel


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))


def test_writes_index_of_a_folder(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "wheels")

    run_command("index", ["--dist", str(tmp_path / "wheels")], Console())

    pages = (tmp_path / "wheels" / "simple").rglob("index.html")
    assert any(wheel.name in page.read_text() for page in pages)


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


def test_returns_as_data_what_was_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = add_wheel(tmp_path / "a", "1.0")

    index(tmp_path, "a", "--json", "--yank", "toy==1.0", "--reason", "broken")

    result = read_document(capsys.readouterr().out, "index")
    assert result == {
        "schema": "index",
        "schema_version": "1.0",
        "index": str(tmp_path / "site" / "simple"),
        "site": str(tmp_path / "site"),
        "wheels": [wheel.name],
        "added": 1,
        "variants": 0,
        "cuda": [],
        "yanks": {"withdrawn": [wheel.name], "good_again": []},
    }


def index(root: Path, folders: Sequence[str], *words: str) -> None:
    """Publish folders into `site`."""
    given = [word for name in folders for word in ("--dist", str(root / name))]
    run_command("index", [*given, "--to", str(root / "site"), *words], Console())


def withdrawn(root: Path) -> dict[str, str]:
    """The wheels of the site's index for installers."""
    page = json.loads((root / "site" / "simple" / "toy" / "index.json").read_text())
    return {file["filename"]: file["yanked"] for file in page["files"] if file.get("yanked")}


def test_checks_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_wheel(tmp_path / "a")
    index(tmp_path, "a")

    run_command("index", ["--check", str(tmp_path / "site"), "--json"], Console())

    data = read_document(capsys.readouterr().out.splitlines()[-1], "index-check")
    assert (data["verdict"], data["files"], data["findings"]) == ("ok", 1, [])


def test_check_that_finds_errors_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = add_wheel(tmp_path / "a")
    index(tmp_path, "a")
    (tmp_path / "site" / "files" / wheel.name).unlink()

    with pytest.raises(WheelIndexError) as caught:
        run_command("index", ["--check", str(tmp_path / "site")], Console())

    assert "missing" in caught.value.why
    capsys.readouterr()
    with pytest.raises(WheelIndexError):
        run_command("index", ["--check", str(tmp_path / "site"), "--json"], Console())
    result = read_document(capsys.readouterr().out, "index-check")["findings"]
    assert [one["code"] for one in result] == ["missing"]


def test_refuses_secret_in_a_wheel_of_a_folder(tmp_path: Path) -> None:
    add_wheel(tmp_path / "a", requires=f"x\nSummary: ghp_{'a' * 36}")

    with pytest.raises(WheelIndexError, match="would publish a secret"):
        run_command("index", ["--dist", str(tmp_path / "a")], Console())

    assert not (tmp_path / "a" / "simple").exists()


def test_names_the_option_of_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    add_wheel(tmp_path / "a")
    (tmp_path / "site").write_text("a file")

    for to in (str(tmp_path / "site"), str(tmp_path / "site" / "below"), "/proc/x/y"):
        with pytest.raises(FileAccessError) as caught:
            run_command("index", ["--dist", str(tmp_path / "a"), "--to", to], Console())

        assert "--to names it" in caught.value.why
        assert "CUWHEEL_CACHE" not in caught.value.fix


def test_quick_check_reports_that_it_compares_no_hashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = add_wheel(tmp_path / "a")
    index(tmp_path, "a")
    published = tmp_path / "site" / "files" / wheel.name
    published.chmod(0o644)
    content = bytearray(published.read_bytes())
    content[12] ^= 1  # a member's date
    published.write_bytes(bytes(content))

    run_command("index", ["--check", str(tmp_path / "site"), "--quick"], Console())
    assert "--quick" in capsys.readouterr().out
    run_command("index", ["--check", str(tmp_path / "site"), "--quick", "--json"], Console())
    assert read_document(capsys.readouterr().out, "index-check")["unhashed"] == 1
    with pytest.raises(WheelIndexError, match="1 error"):
        run_command("index", ["--check", str(tmp_path / "site")], Console())
