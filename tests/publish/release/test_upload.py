"""Uploads to a real pypiserver, and what is there before and after."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import (
    CommandFailedError,
    DownloadError,
    PolicyError,
    PublishedWheelError,
    UsageError,
    WheelIndexError,
)
from cuwheel.base.system.console import Console
from cuwheel.publish.release.record import read_releases
from cuwheel.publish.release.release import plan_release
from cuwheel.publish.release.upload import make_upload, upload
from tests.support.packages.toy_wheel import add_wheel
from tests.support.publish.releases import Project
from tests.support.servers.packages import serving_packages
from tests.support.servers.site import serving_site

SECRET = "not-to-be-seen"  # a password


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINE_USERNAME", "me")
    monkeypatch.setenv("TWINE_PASSWORD", SECRET)


def uploaded(project: Project) -> list[str]:
    return sorted(path.name for path in (project.folder / "packages").glob("*.whl"))


@pytest.mark.e2e
def test_interrupted_upload_is_taken_up(project: Project, tmp_path: Path) -> None:
    for version in ("1.0", "2.0", "3.0"):
        project.add(version)
    with serving_packages(tmp_path / "packages", uploads=1) as address:
        with pytest.raises(CommandFailedError) as caught:
            project.publish(project.to_server(address))
        port = urlsplit(address).port or 0
    assert uploaded(project) == ["toy-1.0-py3-none-any.whl"]
    assert "run the same command again" in caught.value.fix
    assert SECRET not in (tmp_path / "upload.log").read_text() + str(caught.value)

    with serving_packages(tmp_path / "packages", port=port) as address:
        result = project.publish(project.to_server(address))

    assert (result.state, result.missing) == (
        "nothing new",
        ("toy-2.0-py3-none-any.whl", "toy-3.0-py3-none-any.whl"),
    )
    assert len(uploaded(project)) == 3


def test_uploads_an_older_release_by_its_tag(project: Project, tmp_path: Path) -> None:
    project.add("1.0")
    first = project.publish().release.tag
    project.add("2.0")
    project.publish()

    with serving_packages(tmp_path / "packages") as address:
        project.publish(project.to_server(address), tag=first)

    assert uploaded(project) == ["toy-1.0-py3-none-any.whl"]


def test_dry_run_shows_what_is_missing(project: Project, tmp_path: Path) -> None:
    project.add("1.0")
    (tmp_path / "packages").mkdir()
    there = project.dist / "toy-1.0-py3-none-any.whl"
    (tmp_path / "packages" / there.name).write_bytes(there.read_bytes())
    project.add("2.0")
    with serving_packages(tmp_path / "packages") as address:
        result = plan_release(project.request(), project.to_server(address), Console())

    assert result.missing == ("toy-2.0-py3-none-any.whl",)
    assert uploaded(project) == [there.name]


def test_other_bytes_on_the_index_keep_all_from_it(project: Project, tmp_path: Path) -> None:
    add_wheel(tmp_path / "packages", "1.0", content="# other\n")
    project.add("1.0")
    project.add("2.0")
    with (
        serving_packages(tmp_path / "packages") as address,
        pytest.raises(PublishedWheelError, match="other files with the names of 1 wheel, so"),
    ):
        project.publish(project.to_server(address))

    assert uploaded(project) == ["toy-1.0-py3-none-any.whl"]
    assert not (project.site / "releases").exists()


def test_uploads_nothing_that_lacks_what_is_required(project: Project, tmp_path: Path) -> None:
    wheel = project.add()
    project.publish()
    with serving_packages(tmp_path / "packages") as address:
        with pytest.raises(PolicyError, match="perf not passed"):
            project.publish(project.to_server(address), required=("perf",))
        assert uploaded(project) == []
        project.measure(wheel)

        project.publish(project.to_server(address), required=("perf",))

    assert uploaded(project) == [wheel.name]


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"other"), Path.unlink])
def test_uploads_nothing_but_what_was_released(
    damage: Callable[[Path], object], project: Project, tmp_path: Path
) -> None:
    wheel = project.add()
    released = project.publish().folder / wheel.name
    [entry] = [wheel.entry for wheel in read_releases(project.site)[0].wheels]
    damage(released)

    with (
        serving_packages(tmp_path / "packages") as address,
        pytest.raises(WheelIndexError, match="is not the wheel that was released"),
    ):
        upload({wheel.name: released}, [entry], project.to_server(address), Console())

    assert uploaded(project) == []


def test_uploads_nowhere_but_to_the_index_that_was_compared(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = project.add()
    with (
        serving_packages(tmp_path / "packages") as address,
        serving_packages(tmp_path / "others") as other,
    ):
        (tmp_path / ".pypirc").write_text(
            f"[distutils]\nindex-servers = ours\n[ours]\nrepository: {address}\n"
        )
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("TWINE_REPOSITORY_URL", other)
        project.publish(replace(project.to_server(address), repository="ours"))

    assert uploaded(project) == [wheel.name]
    assert list((tmp_path / "others").glob("*.whl")) == []


def test_index_that_is_not_there(project: Project, tmp_path: Path) -> None:
    project.add()
    with serving_packages(tmp_path / "packages") as address:
        here = project.to_server(f"{address}/nowhere")
        with pytest.raises(UsageError, match="its files can't be compared"):
            project.publish(here)

    with pytest.raises(DownloadError, match="its files can't be compared"):
        project.publish(project.to_server(address))


def test_index_without_hashes(project: Project, tmp_path: Path) -> None:
    wheel = project.add()
    page = tmp_path / "index" / "simple" / "toy" / "index.json"
    page.parent.mkdir(parents=True)
    file = {"filename": wheel.name, "url": f"/{wheel.name}", "hashes": {}}
    listed = {"meta": {"api-version": "1.0"}, "name": "toy", "files": [file]}
    page.write_text(json.dumps(listed))

    with (
        serving_site(tmp_path / "index") as address,
        pytest.raises(WheelIndexError, match="gives no SHA-256"),
    ):
        project.publish(project.to_server(address))


@pytest.mark.parametrize(
    ("repository", "index"),
    [("https://me:secret@host/x", ""), ("https://host/x", "https://me@host/simple")],
)
def test_refuses_passwords_in_arguments(repository: str, index: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        make_upload(repository, index, tmp_path / "log", Caller(os.environ))

    assert "secret" not in str(caught.value)
    assert "TWINE_PASSWORD" in caught.value.fix


@pytest.mark.parametrize(
    ("repository", "index", "requested"),
    [
        ("https://host/x/", "", "https://host/x/simple/"),
        ("https://host/x/", "https://host/y/+simple", "https://host/y/+simple/"),
        ("ours", "https://host/simple/", "https://host/simple/"),
    ],
)
def test_finds_the_index(repository: str, index: str, requested: str, tmp_path: Path) -> None:
    assert make_upload(repository, index, tmp_path / "log", Caller(os.environ)).index == requested


def test_name_of_an_index_needs_its_address(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the index that lists the files of ours"):
        make_upload("ours", "", tmp_path / "log", Caller(os.environ))
