"""Commits of real git repositories, from a folder and over HTTP."""

from __future__ import annotations

import base64
import contextlib
import http.server
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, HashMismatchError
from cuwheel.base.fetch.git import Commit, fetch_commit
from cuwheel.base.system import process
from cuwheel.base.system.files import PART, sha256_of_file
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import heard, make_workspace
from tests.support.secrets import arguments_with
from tests.support.servers.http import running

COMMITTED = 1_600_000_000  # seconds since 1970
UNKNOWN = "f" * 40


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "run")


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


def git(folder: Path, *argv: str) -> str:
    env = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_COMMITTER_DATE": f"{COMMITTED} +0000",
    }
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.invalid"]
    return process.run(["git", *identity, *argv], env=env, cwd=folder).output.strip()


def commit_all(repository: Path, files: dict[str, str]) -> Commit:
    """Make another commit with these files."""
    for name, text in files.items():
        (repository / name).write_text(text)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "more")
    return commit_of(repository)


def commit_of(repository: Path, name: str = "HEAD", sha256: str = "") -> Commit:
    commit = git(repository, "rev-parse", name)
    return Commit(repository=repository.as_uri(), id=commit, sha256=sha256)


def fetch(
    wanted: Commit, workspace: Workspace, tar: Path | None = None, *, offline: bool = False
) -> Path:
    """Return the commit's pack in the cache."""
    return fetch_commit(
        wanted,
        cache=workspace.cache,
        console=workspace.console,
        offline=offline,
        tar=tar,
    )


def make_tar(wanted: Commit, workspace: Workspace, *, offline: bool = False) -> Path:
    """Return the commit's tar, of the pack in the cache."""
    tar = workspace.folder("tars") / "commit.tar"
    fetch(wanted, workspace, tar, offline=offline)
    return tar


def put(wanted: Commit, content: bytes, workspace: Workspace) -> Path:
    """Write a file into the cache in the place of the commit's pack."""
    path = workspace.cache / "downloads" / f"git-{wanted.id}" / f"tiny-{wanted.id}.pack"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def pack_of(repository: Path, *objects: str) -> bytes:
    """Return a pack with only these objects."""
    names = repository.parent / "objects"
    names.write_text(
        "".join(f"{git(repository, 'rev-parse', object_name)}\n" for object_name in objects)
    )
    pack = repository.parent / "made.pack"
    command = 'exec git pack-objects -q --stdout < "$0" > "$1"'
    process.run(["sh", "-c", command, names, pack], env=dict(os.environ), cwd=repository)
    return pack.read_bytes()


def content_of(tar: Path) -> dict[str, bytes]:
    with tarfile.open(tar) as archive:
        files = [member for member in archive if member.isfile()]
        return {
            member.name: stream.read()
            for member in files
            if (stream := archive.extractfile(member))
        }


@contextlib.contextmanager
def serving(folder: Path, login: str = "") -> Iterator[str]:
    """Serve repositories as GitHub does, with git's own `http-backend`; yield the address.

    Args:
        folder: with the repositories.
        login: required `user:password`; empty for none.
    """
    expected = f"Basic {base64.b64encode(login.encode()).decode()}"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

        def answer(self, body: bytes) -> None:
            if login and self.headers.get("Authorization") != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
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
            finished = subprocess.run(
                ["git", "http-backend"], input=body, env=env, capture_output=True, check=True
            )
            head, _, content = finished.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address


@pytest.mark.parametrize(("name", "text"), [("HEAD", b"# second\n"), ("HEAD~1", b"# first\n")])
def test_gives_commit_under_one_folder(
    name: str, text: bytes, repository: Path, workspace: Workspace
) -> None:
    wanted = commit_of(repository, name)

    tar = make_tar(wanted, workspace)

    assert content_of(tar) == {f"tiny-{wanted.id}/setup.py": text}


def test_password_of_repository_is_in_no_arguments(
    repository: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    git(repository, "gc", "-q")
    with serving(repository.parent, "me:geheim-%17") as address, arguments_with("geheim") as leaks:
        url = address.replace("//", "//me:geheim-%2517@")
        pack = fetch(Commit(repository=f"{url}/tiny/.git", id=commit_of(repository).id), workspace)

    assert pack.is_file()
    assert leaks == set()


def test_refusal_by_repository_shows_no_password(
    repository: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(repository.parent, "me:another") as address:
        url = address.replace("//", "//me:geheim@")
        with pytest.raises(DownloadError) as caught:
            fetch(Commit(repository=f"{url}/tiny/.git", id=commit_of(repository).id), workspace)

    assert "401" in caught.value.why
    assert "geheim" not in str(caught.value)


def test_gives_same_bytes_under_any_umask(repository: Path, tmp_path: Path) -> None:
    wanted = commit_of(repository)
    first = make_tar(wanted, make_workspace(tmp_path / "a"))
    old = os.umask(0o077)

    try:
        second = make_tar(wanted, make_workspace(tmp_path / "b"))
    finally:
        os.umask(old)

    assert sha256_of_file(first) == sha256_of_file(second)


def test_leaves_only_the_pack(repository: Path, workspace: Workspace) -> None:
    wanted = commit_of(repository)

    pack = fetch(wanted, workspace)

    downloads = workspace.cache / "downloads"
    assert pack == downloads / f"git-{wanted.id}" / f"tiny-{wanted.id}.pack"
    assert {path for path in downloads.rglob("*") if ".locks" not in path.parts} == {
        pack.parent,
        pack,
    }


def test_needs_no_repository_the_second_time(repository: Path, workspace: Workspace) -> None:
    wanted = commit_of(repository)
    first = make_tar(wanted, workspace).read_bytes()
    repository.rename(repository.with_name("gone"))

    second = make_tar(wanted, make_workspace(workspace.cache.parent), offline=True)

    assert second.read_bytes() == first


def test_gives_same_bytes_from_a_larger_pack(
    repository: Path, workspace: Workspace, tmp_path: Path
) -> None:
    wanted = commit_all(
        repository,
        {".gitattributes": "version export-subst\n", "version": "$Format:%h%d%(describe)$\n"},
    )
    git(repository, "tag", "v3")
    everything = git(repository, "rev-list", "--objects", "--all", "--no-object-names").split()
    large = make_workspace(tmp_path / "large")
    put(wanted, pack_of(repository, *everything), large)

    versions = {
        content_of(make_tar(wanted, each))[f"tiny-{wanted.id}/version"]
        for each in (workspace, large)
    }

    # git's short ids are longer with more objects; cut history would be "grafted".
    assert versions == {f"{wanted.id}\n".encode()}
    assert not list(large.cache.rglob("*.wrong-*"))


def test_leaves_submodules_out(repository: Path, workspace: Workspace) -> None:
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{UNKNOWN},vendored")
    git(repository, "commit", "-q", "-m", "with a submodule")

    tar = make_tar(commit_of(repository), workspace)

    assert list(content_of(tar).values()) == [b"# second\n"]


def test_takes_pack_that_was_put_there(repository: Path, workspace: Workspace) -> None:
    wanted = commit_of(repository)
    parts = [f"{wanted.id}{rest}" for rest in ("", "^{tree}", ":setup.py")]
    pack = put(wanted, pack_of(repository, *parts), workspace)

    assert fetch(wanted, make_workspace(workspace.cache.parent), offline=True) == pack


@pytest.fixture
def wrong_packs(repository: Path, workspace: Workspace, tmp_path: Path) -> dict[str, bytes]:
    """Contents under the name of the second commit's pack that aren't it."""
    wanted = commit_of(repository)
    good = fetch(wanted, make_workspace(tmp_path / "other")).read_bytes()
    first = fetch(commit_of(repository, "HEAD~1"), workspace).read_bytes()
    middle = len(good) // 2
    return {
        "of another commit": first,
        "cut short": good[:-1],
        "with a bit flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "with more behind it": good + b"x",
        "without a file": pack_of(repository, "HEAD", "HEAD^{tree}"),
        "without the folder": pack_of(repository, "HEAD", "HEAD:setup.py"),
        "of the files alone": pack_of(repository, "HEAD^{tree}", "HEAD:setup.py"),
        "text": b"by hand",
        "empty": b"",
    }


KINDS = (
    *("of another commit", "cut short", "with a bit flipped", "with more behind it", "text"),
    *("without a file", "without the folder", "of the files alone", "empty"),
)


@pytest.mark.parametrize("kind", ["of another commit", "cut short"])
def test_sets_wrong_pack_aside_and_fetches_again(
    repository: Path, workspace: Workspace, wrong_packs: dict[str, bytes], kind: str
) -> None:
    wanted = commit_of(repository)
    pack = put(wanted, wrong_packs[kind], workspace)

    tar = make_tar(wanted, workspace)

    assert list(content_of(tar).values()) == [b"# second\n"]
    [aside] = pack.parent.glob("*.wrong-*")
    assert aside.read_bytes() == wrong_packs[kind]
    assert f"isn't used (now {aside.name}): git says:" in heard(workspace).replace("\n", " ")


@pytest.mark.parametrize("kind", KINDS)
def test_refuses_wrong_pack_offline(
    repository: Path, workspace: Workspace, wrong_packs: dict[str, bytes], kind: str
) -> None:
    wanted = Commit(repository="http://127.0.0.1:9/tiny", id=commit_of(repository).id)
    pack = put(wanted, wrong_packs[kind], workspace)
    apart = make_workspace(workspace.cache.parent)

    with pytest.raises(DownloadError, match="is not in the cache"):
        make_tar(wanted, apart, offline=True)

    assert not pack.exists()


def test_refuses_pack_without_file_that_no_archive_has(
    repository: Path, workspace: Workspace
) -> None:
    wanted = commit_all(repository, {".gitattributes": "setup.py export-ignore\n"})
    put(wanted, pack_of(repository, "HEAD", "HEAD^{tree}", "HEAD:.gitattributes"), workspace)

    fetch(wanted, workspace)

    assert "missing blob" in heard(workspace).replace("\n", " ")


def test_refuses_id_of_a_tree(repository: Path, workspace: Workspace) -> None:
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    wanted = Commit(repository="http://127.0.0.1:9/tiny", id=tree)
    put(wanted, pack_of(repository, "HEAD^{tree}", "HEAD:setup.py"), workspace)
    apart = make_workspace(workspace.cache.parent)

    with pytest.raises(DownloadError):
        fetch(wanted, apart, offline=True)

    assert "is not a commit but a tree" in heard(apart).replace("\n", " ")


def test_removes_leftovers_of_killed_run(repository: Path, workspace: Workspace) -> None:
    wanted = commit_of(repository)
    leftover = workspace.cache / "downloads" / f".git-{wanted.id}.killed{PART}" / "repository"
    leftover.mkdir(parents=True)

    fetch(wanted, workspace)

    assert not leftover.parent.exists()


def test_refuses_tar_with_other_hash_from_the_cache(repository: Path, workspace: Workspace) -> None:
    pack = fetch(commit_of(repository), workspace)

    with pytest.raises(HashMismatchError):
        fetch(commit_of(repository, sha256="0" * 64), workspace)

    assert pack.is_file()  # it is the commit; the recipe's hash is wrong


def test_runs_no_hook_of_the_user(
    repository: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template, mark = tmp_path / "template", tmp_path / "hook-ran"
    hook = template / "hooks" / "reference-transaction"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    settings = f"[init]\n\ttemplateDir = {template}\n[core]\n\thooksPath = {hook.parent}\n"
    (tmp_path / ".gitconfig").write_text(settings)
    monkeypatch.setenv("HOME", str(tmp_path))

    fetch(commit_of(repository), workspace)

    assert not mark.exists()


def test_names_commit_that_is_not_there(repository: Path, workspace: Workspace) -> None:
    wanted = Commit(repository=repository.as_uri(), id=UNKNOWN)

    with pytest.raises(DownloadError) as caught:
        fetch(wanted, workspace)

    assert UNKNOWN in caught.value.what
    assert "has no commit" in caught.value.what
    assert not (workspace.cache / "downloads" / f"git-{UNKNOWN}").exists()


def test_names_unreachable_server(workspace: Workspace) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(Commit(repository="http://127.0.0.1:9/tiny", id=UNKNOWN), workspace)

    assert "127.0.0.1" in caught.value.why
    assert f"tiny-{UNKNOWN}.pack" in caught.value.fix


def test_names_missing_git(
    repository: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = commit_of(repository)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(DownloadError, match="could not be fetched") as caught:
        fetch(wanted, workspace)

    assert "`git` isn't on PATH" in caught.value.why


def test_gives_commit_over_http(
    repository: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    commit = git(repository, "rev-parse", "HEAD~1")

    with serving(repository.parent) as address:
        tar = make_tar(Commit(repository=f"{address}/tiny/.git", id=commit), workspace)

    assert list(content_of(tar).values()) == [b"# first\n"]
