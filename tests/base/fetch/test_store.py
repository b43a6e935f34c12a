"""Downloads from real servers on loopback, sound ones and others."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.errors import (
    DiskFullError,
    DownloadError,
    HashMismatchError,
)
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.retry import RetryPolicy
from cuwheel.base.fetch.store import cached_path, fetch, fetch_all
from cuwheel.base.fetch.urls import MIRROR_VARIABLE
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import HASTY, heard, make_workspace, noise
from tests.support.requirements import require
from tests.support.servers.http import Site, serving, slow_server
from tests.support.waiting import wait_for

CONTENT = noise(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()
SHORT = RetryPolicy(pause=0.01, connect=0.5, answer=0.5, limit=2.0)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site(files={"/tiny-1.0.tar.gz": CONTENT})) as site:
        yield site


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def wanted(sha256: str = SHA256, max_size: int = 1_000_000) -> PinnedFile:
    return PinnedFile(name="tiny-1.0.tar.gz", sha256=sha256, max_size=max_size)


@pytest.mark.parametrize(
    ("name", "sha256", "md5"),
    [
        ("1/../../x.whl", SHA256, ""),
        ("/x.whl", SHA256, ""),
        ("..", SHA256, ""),
        ("x.whl", "/deep", ""),
        ("x.whl", "..", ""),
        ("x.whl", "", "/../../deep"),
    ],
)
def test_refuses_place_outside_the_cache(name: str, sha256: str, md5: str, tmp_path: Path) -> None:
    file = PinnedFile(name=name, sha256=sha256, md5=md5, max_size=1)

    with pytest.raises(DownloadError, match="can't be stored in the cache"):
        cached_path(tmp_path, file)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.base.fetch.retry.RETRY_POLICY", SHORT)


def download(
    workspace: Workspace,
    url: str,
    want: PinnedFile | None = None,
    *,
    offline: bool = False,
) -> Path:
    return fetch(
        want or wanted(),
        lambda: url,
        cache=workspace.cache,
        console=workspace.console,
        offline=offline,
    )


def behave(site: Site, behaviour: Mapping[str, object]) -> None:
    for name, value in behaviour.items():
        setattr(site, name, value)


def names(workspace: Workspace) -> list[str]:
    return sorted(path.name for path in workspace.cache.rglob("tiny*"))


def place(workspace: Workspace, name: str, content: bytes) -> None:
    path = workspace.cache / "downloads" / SHA256 / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("behaviour", "part", "requests"),
    [
        ({"moved": {"/tiny.tar.gz": "/tiny-1.0.tar.gz"}}, b"", ["", ""]),
        ({"breaks": [100_000]}, b"", ["", "bytes=100000-"]),
        ({"breaks": [100_000], "knows_range": False}, b"", ["", "bytes=100000-"]),
        ({"breaks": [30_000] * (HASTY.attempts + 2)}, b"", None),
        ({"statuses": [503, 503]}, b"", ["", "", ""]),
        ({}, b"x" * 1000, ["bytes=1000-", ""]),
        ({}, b"x" * 400_000, ["bytes=400000-", ""]),
        ({}, CONTENT, []),
    ],
    ids=(
        *("redirect", "broken", "broken without ranges", "broken often", "busy", "wrong part"),
        *("longer part", "complete part"),
    ),
)
def test_downloads_file(
    behaviour: Mapping[str, object],
    part: bytes,
    requests: list[str] | None,
    site: Site,
    workspace: Workspace,
) -> None:
    behave(site, behaviour)
    if part:
        place(workspace, "tiny-1.0.tar.gz.partial", part)

    path = download(workspace, site.url("/tiny.tar.gz" if site.moved else "/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT
    assert requests in (None, [span for _, span in site.asked])


def test_refuses_redirect_to_local_file(site: Site, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    site.moved["/latest"] = (tmp_path / "secret").as_uri()

    with pytest.raises(DownloadError):
        download(workspace, site.url("/latest"))

    assert names(workspace) == []


def test_replaces_damaged_cached_file(site: Site, workspace: Workspace) -> None:
    place(workspace, "tiny-1.0.tar.gz", b"damaged")

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT
    assert "tiny-1.0.tar.gz was damaged" in heard(workspace)


@pytest.mark.parametrize("actual", [SHA256, MD5], ids=["sha256", "md5"])
def test_sets_wrong_file_aside(actual: str, site: Site, workspace: Workspace) -> None:
    expected = "0" * len(actual)
    sha256, md5 = (expected, "") if actual == SHA256 else ("", expected)
    file = dataclasses.replace(wanted(), sha256=sha256, md5=md5)

    with pytest.raises(HashMismatchError) as caught:
        download(workspace, site.url("/tiny-1.0.tar.gz"), file)

    aside = f"tiny-1.0.tar.gz.wrong-hash-{actual[:8]}"
    assert names(workspace) == [aside]
    assert actual in caught.value.why
    assert expected in caught.value.why
    assert aside in caught.value.fix


def test_keeps_part_for_next_run(site: Site, workspace: Workspace) -> None:
    site.breaks = [100_000, *[0] * HASTY.attempts]
    with pytest.raises(DownloadError) as caught:
        download(workspace, site.url("/tiny-1.0.tar.gz"))
    site.asked.clear()
    site.breaks.clear()

    download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert "resumes after 100000 bytes" in caught.value.fix
    assert [span for _, span in site.asked] == ["bytes=100000-"]


def test_waits_as_long_as_busy_server_requires(site: Site, workspace: Workspace) -> None:
    site.statuses, site.retry_after = [503], "1"
    started = time.monotonic()

    download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert time.monotonic() - started >= 1


@pytest.mark.parametrize(
    ("behaviour", "why", "count"),
    [
        ({"files": {}}, "404 Not Found", 1),
        ({"statuses": [503] * 20}, "503 Service Unavailable", HASTY.attempts),
        (
            {"statuses": [503] * 20, "retry_after": "60"},
            "answered 503 Service Unavailable and asked to retry after 60 s",
            1,
        ),
        ({"breaks": [100_000] * 20, "knows_range": False}, "127.0.0.1", HASTY.attempts),
    ],
    ids=["missing", "busy", "busy for long", "nothing new comes"],
)
def test_gives_up(
    behaviour: Mapping[str, object], why: str, count: int, site: Site, workspace: Workspace
) -> None:
    behave(site, behaviour)

    with pytest.raises(DownloadError) as caught:
        download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert why in caught.value.why
    assert len(site.asked) == count


@pytest.mark.usefixtures("short")
def test_does_not_read_content_of_redirect(workspace: Workspace) -> None:
    start = "HTTP/1.1 302 Found\r\nLocation: /tiny.tar.gz"

    with slow_server(0.05, start) as address, pytest.raises(DownloadError) as caught:
        download(workspace, f"{address}/tiny.tar.gz")

    assert "Exceeded 30 redirects" in caught.value.why


@pytest.mark.parametrize(
    ("max_size", "behaviour"),
    [
        (200_000, {}),
        (200_000, {"says_length": False}),
        (1_000_000, {"says_length": False, "breaks": [100_000]}),
    ],
    ids=["too large", "too large without a length", "truncated without a length"],
)
def test_refuses_file_of_other_size(
    max_size: int, behaviour: Mapping[str, object], site: Site, workspace: Workspace
) -> None:
    behave(site, behaviour)

    with pytest.raises(HashMismatchError):
        download(workspace, site.url("/tiny-1.0.tar.gz"), wanted(max_size=max_size))

    assert "tiny-1.0.tar.gz" not in names(workspace)


def test_names_host_that_does_not_answer(workspace: Workspace) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

    with pytest.raises(DownloadError) as caught:
        download(workspace, f"http://user:geheim@127.0.0.1:{port}/tiny.tar.gz?sign=geheim")

    assert caught.value.why == "127.0.0.1: [Errno 111] Connection refused"
    assert "HTTPS_PROXY" in caught.value.fix
    assert "geheim" not in str(caught.value)


def test_names_place_of_file_offline(workspace: Workspace) -> None:
    with pytest.raises(DownloadError) as caught:
        download(workspace, "http://unused.invalid/", offline=True)

    assert str(workspace.cache / "downloads" / SHA256 / "tiny-1.0.tar.gz") in caught.value.fix
    assert "--source" in caught.value.fix


@pytest.mark.parametrize("url", ["/nothing", "/busy"])
def test_leaves_no_empty_folder(url: str, site: Site, workspace: Workspace) -> None:
    site.breaks = [0] * 20
    site.files["/busy"] = CONTENT

    with pytest.raises(DownloadError):
        download(workspace, site.url(url))

    assert [path.name for path in (workspace.cache / "downloads").iterdir()] == [".locks"]


def test_checks_md5_where_there_is_nothing_better(site: Site, workspace: Workspace) -> None:
    old = PinnedFile(name="tiny-1.0.tar.gz", sha256="", md5=MD5, max_size=1_000_000)

    path = download(workspace, site.url("/tiny-1.0.tar.gz"), old)

    assert path == cached_path(workspace.cache, old)
    assert path.parent.name == f"md5-{MD5}"


@dataclass(frozen=True, kw_only=True)
class SilentServer:
    """Server that takes connections and sends nothing."""

    address: str
    connections: list[socket.socket]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    connections: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connections.append(server.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}/tiny.tar.gz"
        yield SilentServer(address=address, connections=connections)
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in connections:
        connection.close()


@pytest.mark.e2e
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_gives_up_on_silent_server(scheme: str, silent: SilentServer, workspace: Workspace) -> None:
    started = time.monotonic()

    with pytest.raises(DownloadError, match=r"127\.0\.0\.1"):
        download(workspace, f"{scheme}://{silent.address}")

    assert time.monotonic() - started < 10 * SHORT.limit


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("pause", "why"),
    [(0.05, "less than 8192 bytes came in 2 seconds"), (60, "timed out")],
    ids=["trickles", "stalls"],
)
def test_gives_up_on_slow_server(pause: float, why: str, workspace: Workspace) -> None:
    """A byte now and then prevents every time-out of a single read."""
    started = time.monotonic()

    with slow_server(pause) as address, pytest.raises(DownloadError) as caught:
        download(workspace, f"{address}/tiny.tar.gz")

    assert time.monotonic() - started < 10 * SHORT.limit
    assert why in caught.value.why
    assert "resumes after" in caught.value.fix
    assert "CUWHEEL_SLOW_NETWORK=4" in caught.value.fix


def many(site: Site, count: int = 12) -> list[tuple[PinnedFile, Callable[[], str]]]:
    """Return small files that a site serves from now on."""
    files = [noise(1000 + number, number) for number in range(count)]
    site.files |= {f"/{number}": content for number, content in enumerate(files)}
    return [
        (
            PinnedFile(
                name=f"tiny{number}",
                sha256=hashlib.sha256(content).hexdigest(),
                max_size=10_000,
            ),
            partial(site.url, f"/{number}"),
        )
        for number, content in enumerate(files)
    ]


def download_all(
    workspace: Workspace,
    files: list[tuple[PinnedFile, Callable[[], str]]],
    *,
    offline: bool = False,
) -> tuple[Path, ...]:
    return fetch_all(
        files,
        cache=workspace.cache,
        console=workspace.console,
        title="many",
        offline=offline,
        fix="another way",
    )


def test_downloads_many_at_once(site: Site, workspace: Workspace) -> None:
    site.delay = 0.3
    files = many(site)
    started = time.monotonic()

    paths = download_all(workspace, files)

    assert time.monotonic() - started < 12 * site.delay / 2
    assert [path.name for path in paths] == [f"tiny{number}" for number in range(12)]


def test_verifies_cached_files(site: Site, workspace: Workspace) -> None:
    files = many(site)
    paths = download_all(workspace, files)
    paths[3].write_bytes(b"damaged")
    site.asked.clear()

    again = download_all(workspace, files)

    assert [path for path, _ in site.asked] == ["/3"]
    assert again[3].stat().st_size == 1003


def test_first_failure_ends_the_others(
    site: Site, silent: SilentServer, workspace: Workspace
) -> None:
    files: list[tuple[PinnedFile, Callable[[], str]]]
    files = [(file, lambda: f"http://{silent.address}") for file, _ in many(site)]
    files[5] = (files[5][0], lambda: site.url("/missing"))
    started = time.monotonic()

    with pytest.raises(DownloadError, match="missing") as caught:
        download_all(workspace, files)

    assert time.monotonic() - started < 5
    assert "another way" in caught.value.fix


def test_shows_one_bar_on_terminal(site: Site, tmp_path: Path) -> None:
    terminal = rich.console.Console(file=io.StringIO(), force_terminal=True, width=100)
    workspace = make_workspace(tmp_path, console=Console(terminal))

    download_all(workspace, many(site))

    assert "12 of 12 files" in heard(workspace)


def test_ends_soon_at_interrupt(silent: SilentServer, tmp_path: Path) -> None:
    child = start(sys.executable, "-c", _MANY, f"http://{silent.address}", str(tmp_path))
    wait_for(lambda: silent.connections)
    started = time.monotonic()

    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)

    assert time.monotonic() - started < 5
    assert output.rstrip().endswith("KeyboardInterrupt")


PATH = f"/downloads/{SHA256}/tiny-1.0.tar.gz"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of the file in a mirror on this machine."""
    path = tmp_path / "mirror" / PATH.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    monkeypatch.setenv(MIRROR_VARIABLE, (tmp_path / "mirror").as_uri())
    return path


@pytest.fixture
def served(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A mirror on a server that requires a password."""
    site.password = "Basic " + base64.b64encode(b"me:geheim").decode()
    monkeypatch.setenv(MIRROR_VARIABLE, site.url("/m", login="me:geheim@"))
    return site


@pytest.mark.usefixtures("mirror")
@pytest.mark.parametrize("offline", [True, False])
def test_takes_file_from_mirror(offline: bool, workspace: Workspace) -> None:  # noqa: FBT001 - pytest gives it by name
    path = download(workspace, "http://unused.invalid/", offline=offline)

    assert path.read_bytes() == CONTENT


def test_uses_other_source_where_mirror_lacks_the_file(
    served: Site, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "tiny.tar.gz").write_bytes(CONTENT)

    path = download(workspace, (tmp_path / "tiny.tar.gz").as_uri())

    assert path.read_bytes() == CONTENT
    assert served.asked == [(f"/m{PATH}", "")]


def test_uses_no_served_mirror_offline(served: Site, workspace: Workspace) -> None:
    with pytest.raises(DownloadError, match="is not in the cache"):
        download(workspace, "http://unused.invalid/", offline=True)

    assert served.asked == []


@pytest.mark.parametrize("login", ["", "me:wrong@", "gone"])
def test_reports_mirror_that_refuses(
    login: str, served: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://127.0.0.1:9/gone" if login == "gone" else served.url("/m", login)
    monkeypatch.setenv(MIRROR_VARIABLE, address)

    with pytest.raises(DownloadError, match="could not be downloaded") as caught:
        download(workspace, "http://unused.invalid/")

    assert login == "gone" or "401 Unauthorized" in caught.value.why
    assert MIRROR_VARIABLE in caught.value.fix
    assert "wrong" not in str(caught.value)


_IN_ITS_PLACE: Mapping[str, Callable[[Path], object]] = {
    "another file": lambda path: path.write_bytes(b"something else"),
    "truncated": lambda path: path.write_bytes(CONTENT[:-1]),
    "longer": lambda path: path.write_bytes(CONTENT + b"x"),
    "empty": lambda path: path.touch(),
    "folder": lambda path: path.mkdir(),
    "FIFO": os.mkfifo,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("put", _IN_ITS_PLACE.values(), ids=_IN_ITS_PLACE)
def test_takes_nothing_else_of_a_mirror_folder(
    put: Callable[[Path], object], mirror: Path, workspace: Workspace
) -> None:
    mirror.unlink()
    put(mirror)

    with pytest.raises((DownloadError, HashMismatchError)):
        download(workspace, "http://unused.invalid/", offline=True)

    assert not (workspace.cache / PATH.lstrip("/")).exists()


_CHILD = f"""
import sys
from pathlib import Path
from cuwheel.base.system.console import Console
from cuwheel.base.errors import CuwheelError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.store import fetch

want = PinnedFile(name="tiny-1.0.tar.gz", sha256="{SHA256}", max_size=1_000_000)
try:
    fetch(want, lambda: sys.argv[1], cache=Path(sys.argv[2]), console=Console())
except CuwheelError as error:
    print(type(error).__name__, error)
"""


_MANY = """
import sys
from pathlib import Path
from cuwheel.base.system.console import Console
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.store import fetch_all

wanted = [PinnedFile(name="tiny", sha256=f"{number:064}", max_size=9) for number in range(20)]
fetch_all([(file, lambda: sys.argv[1]) for file in wanted], cache=Path(sys.argv[2]),
          console=Console(), title="many")
"""


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.e2e
def test_downloads_once_for_two_processes(site: Site, workspace: Workspace) -> None:
    site.delay = 1.0
    command = (sys.executable, "-c", _CHILD, site.url("/tiny-1.0.tar.gz"), str(workspace.cache))

    children = [start(*command), start(*command)]
    outputs = [child.communicate(timeout=60)[0] for child in children]

    assert len(site.asked) == 1
    assert "another cuwheel is downloading" in "".join(outputs)


def test_names_full_disk(site: Site, tmp_path: Path) -> None:
    require("namespaces", "what a download says when its disk is full")
    inside = f'mount -t tmpfs -o size=100k none {tmp_path} && "$@"; ls -R {tmp_path}'
    command = (sys.executable, "-c", _CHILD, site.url("/tiny-1.0.tar.gz"), str(tmp_path))

    output, _ = start("unshare", "-rm", "sh", "-c", inside, "sh", *command).communicate(timeout=60)

    assert DiskFullError.__name__ in output
    assert f"no space left on the disk of {tmp_path}" in output
    assert "tiny-1.0.tar.gz\n" not in output
