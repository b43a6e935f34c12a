"""Commits of real git repositories, from a folder and over HTTP."""

from __future__ import annotations

import contextlib
import http.server
import os
import subprocess
import tarfile
import threading
import time
from typing import TYPE_CHECKING

import pytest

from cuwheel import process
from cuwheel.errors import DownloadError, HashMismatchError
from cuwheel.files import sha256_of_file
from cuwheel.gitfetch import Commit, fetch_commit
from tests.factories import heard, make_space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.workspace import Workspace

COMMITTED = 1_600_000_000  # seconds since 1970
UNKNOWN = "f" * 40


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return make_space(tmp_path / "run")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two commits, each with `setup.py`."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    git(folder, "init", "-q")
    for text in ("first", "second"):
        (folder / "setup.py").write_text(f"# {text}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", text)
    return folder


def git(folder: Path, *words: str) -> str:
    env = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_COMMITTER_DATE": f"{COMMITTED} +0000",
    }
    who = ["-c", "user.name=me", "-c", "user.email=me@example.invalid"]
    return process.run(["git", *who, *words], env=env, cwd=folder).output.strip()


def commit_of(repository: Path, name: str = "HEAD", sha256: str = "") -> Commit:
    commit = git(repository, "rev-parse", name)
    return Commit(repository=repository.as_uri(), id=commit, sha256=sha256)


def fetch(wanted: Commit, space: Workspace) -> Path:
    return fetch_commit(wanted, cache=space.cache, console=space.console, offline=space.offline)


def content_of(tar: Path) -> dict[str, bytes]:
    with tarfile.open(tar) as archive:
        files = [member for member in archive if member.isfile()]
        return {
            member.name: stream.read()
            for member in files
            if (stream := archive.extractfile(member))
        }


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve repositories as GitHub does, with git's own `http-backend`; gives the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

        def answer(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REMOTE_ADDR": "127.0.0.1",
            }
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=env, capture_output=True, check=True
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_gives_commit_under_one_folder(repository: Path, space: Workspace) -> None:
    wanted = commit_of(repository)

    tar = fetch(wanted, space)

    assert content_of(tar) == {f"tiny-{wanted.id}/setup.py": b"# second\n"}


def test_gives_commit_that_is_no_tip(repository: Path, space: Workspace) -> None:
    wanted = commit_of(repository, "HEAD~1")

    tar = fetch(wanted, space)

    assert content_of(tar) == {f"tiny-{wanted.id}/setup.py": b"# first\n"}


def test_gives_commit_over_http(
    repository: Path, space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    commit = git(repository, "rev-parse", "HEAD~1")

    with serving(repository.parent) as address:
        tar = fetch(Commit(repository=f"{address}/tiny/.git", id=commit), space)

    assert list(content_of(tar).values()) == [b"# first\n"]


def test_gives_same_bytes_under_any_umask(repository: Path, tmp_path: Path) -> None:
    wanted = commit_of(repository)
    first = fetch(wanted, make_space(tmp_path / "a"))
    old = os.umask(0o077)

    try:
        second = fetch(wanted, make_space(tmp_path / "b"))
    finally:
        os.umask(old)

    assert sha256_of_file(first) == sha256_of_file(second)


def test_leaves_only_tar_and_its_record(repository: Path, space: Workspace) -> None:
    wanted = commit_of(repository)

    tar = fetch(wanted, space)

    assert tar == space.cache / "downloads" / f"git-{wanted.id}" / f"tiny-{wanted.id}.tar"
    assert {path.name for path in tar.parent.iterdir()} == {tar.name, f"{tar.name}.sha256"}


def test_needs_no_repository_the_second_time(repository: Path, space: Workspace) -> None:
    wanted = commit_of(repository)
    fetch(wanted, space)
    repository.rename(repository.with_name("gone"))

    tar = fetch(wanted, space)

    assert tar.is_file()


def test_fetches_damaged_tar_again(repository: Path, space: Workspace) -> None:
    wanted = commit_of(repository)
    tar = fetch(wanted, space)
    good = tar.read_bytes()
    tar.write_bytes(good[:-1])

    fetch(wanted, space)

    assert tar.read_bytes() == good
    assert "was damaged in the cache" in heard(space)


def test_takes_tar_that_was_put_there(repository: Path, space: Workspace) -> None:
    wanted = commit_of(repository)
    place = space.cache / "downloads" / f"git-{wanted.id}" / f"tiny-{wanted.id}.tar"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"by hand")

    assert fetch(wanted, make_space(space.cache.parent, offline=True)).read_bytes() == b"by hand"


def test_refuses_tar_with_other_hash(repository: Path, space: Workspace) -> None:
    wanted = commit_of(repository, sha256="0" * 64)

    with pytest.raises(HashMismatchError, match="not the file that the recipe pins"):
        fetch(wanted, space)

    assert not (space.cache / "downloads" / f"git-{wanted.id}").exists()


def test_runs_no_hook_of_the_user(
    repository: Path, space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template, mark = tmp_path / "template", tmp_path / "hook-ran"
    hook = template / "hooks" / "reference-transaction"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    settings = f"[init]\n\ttemplateDir = {template}\n[core]\n\thooksPath = {hook.parent}\n"
    (tmp_path / ".gitconfig").write_text(settings)
    monkeypatch.setenv("HOME", str(tmp_path))

    fetch(commit_of(repository), space)

    assert not mark.exists()


def test_names_commit_that_is_not_there(repository: Path, space: Workspace) -> None:
    wanted = Commit(repository=repository.as_uri(), id=UNKNOWN)

    with pytest.raises(DownloadError) as caught:
        fetch(wanted, space)

    assert UNKNOWN in caught.value.what
    assert "has no commit" in caught.value.what
    assert not (space.cache / "downloads" / f"git-{UNKNOWN}").exists()


def test_names_repository_that_is_not_there(tmp_path: Path, space: Workspace) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(Commit(repository=(tmp_path / "nowhere").as_uri(), id=UNKNOWN), space)

    assert "can't be fetched" in caught.value.what
    assert "git says" in caught.value.why


def test_names_unreachable_server_within_seconds(space: Workspace) -> None:
    started = time.monotonic()

    with pytest.raises(DownloadError) as caught:
        fetch(Commit(repository="http://127.0.0.1:9/tiny", id=UNKNOWN), space)

    assert time.monotonic() - started < 10
    assert "127.0.0.1" in caught.value.why
    assert f"tiny-{UNKNOWN}.tar" in caught.value.fix


def test_fetches_nothing_offline(space: Workspace) -> None:
    offline = make_space(space.cache.parent, offline=True)

    with pytest.raises(DownloadError, match="is not in the cache"):
        fetch(Commit(repository="http://127.0.0.1:9/tiny", id=UNKNOWN), offline)


def test_takes_local_repository_offline(repository: Path, space: Workspace) -> None:
    offline = make_space(space.cache.parent, offline=True)

    assert fetch(commit_of(repository), offline).is_file()


def test_names_missing_git(
    repository: Path, space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = commit_of(repository)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(DownloadError, match="can't be fetched") as caught:
        fetch(wanted, space)

    assert "no program `git`" in caught.value.why
