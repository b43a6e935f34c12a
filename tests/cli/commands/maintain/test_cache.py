"""The session `cache`, on a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_document
from tests.support.factories import heard, make_workspace

_OLD = (1_000_000.0, 1_000_000.0)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    for name in (
        "toolchains/cuda130-pypi-000000000001",
        "environments/tiny-000000000001",
        "uv/archive",
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_bytes(b"x" * (1 << 20))
        os.utime(folder / name, _OLD)
    monkeypatch.setenv("CUWHEEL_CACHE", str(folder))
    return folder


def test_shows_what_is_there(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command("cache", [], Console())

    output = capsys.readouterr().out
    assert "toolchains" in output
    assert "1970-01-12" in output
    assert f"{cache}: 3.0 MiB" in output


def test_returns_contents_as_data(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command("cache", ["--json"], Console())

    data = read_document(capsys.readouterr().out, "cache")
    assert data["folder"] == str(cache)
    [entry] = data["kinds"]["environments"]["entries"]
    assert (entry["name"], entry["used"]) == ("tiny-000000000001", "1970-01-12")


def test_removes_what_is_old(cache: Path, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)

    run_command("cache", ["--prune", "--unused-for", "30"], workspace.console)

    assert not (cache / "toolchains" / "cuda130-pypi-000000000001").exists()
    assert "removed: environments/tiny-000000000001  1.0 MiB" in heard(workspace)
    assert "2.0 MiB freed, 1.0 MiB left" in heard(workspace)


def test_removes_uvs_packages_where_the_rest_is_not_enough(cache: Path, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)

    run_command("cache", ["--prune", "--size", "0M"], workspace.console)

    assert not (cache / "uv" / "archive").exists()
    assert "uv's unpacked packages were removed too" in heard(workspace)


def test_dry_run_removes_nothing(cache: Path, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)

    run_command("cache", ["--prune", "--unused-for", "30", "--dry-run"], workspace.console)

    assert "would be removed: toolchains/cuda130-pypi-000000000001" in heard(workspace)
    assert (cache / "toolchains" / "cuda130-pypi-000000000001").exists()


@pytest.mark.parametrize(("option", "state"), [("--dry-run", "would be removed"), ("", "removed")])
def test_returns_as_data_what_is_removed(
    option: str, state: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--prune", "--unused-for", "30", "--json", *filter(None, [option])]

    run_command("cache", words, Console())

    data = read_document(capsys.readouterr().out, "cache-prune")
    gone = {
        "kind": "environments",
        "name": "tiny-000000000001",
        "size": 1 << 20,
        "used": "1970-01-12",
    }
    assert gone in data["entries"]
    assert (data["state"], data["in_use"], data["size_before"]) == (state, [], 3 << 20)
    assert data["size"] == (3 << 20 if option else 1 << 20)
    assert (cache / "environments" / "tiny-000000000001").exists() == bool(option)


@pytest.mark.parametrize("arguments", [["--prune"], ["--size", "20G"], ["--unused-for", "3"]])
@pytest.mark.usefixtures("cache")
def test_removes_nothing_that_was_not_requested(arguments: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        run_command("cache", arguments, Console())

    assert "--prune --size 20G" in caught.value.fix


@pytest.mark.parametrize("arguments", [["--prune", "--size", "lots"], ["--unused-for", "-1"]])
@pytest.mark.usefixtures("cache")
def test_refuses_what_is_no_limit(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        run_command("cache", arguments, Console())
