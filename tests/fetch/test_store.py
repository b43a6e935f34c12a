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
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest
import rich.console

from cuwheel.errors import DiskFullError, DownloadError, HashMismatchError, OversizedDownloadError
from cuwheel.fetch.download import PinnedFile
from cuwheel.fetch.mirror import MIRROR_VARIABLE
from cuwheel.fetch.retry import RetryPolicy
from cuwheel.fetch.store import cached_path, fetch, fetch_all
from cuwheel.paths import ROOT
from cuwheel.system.console import Console
from tests.support.factories import HASTY, heard, make_workspace, noise
from tests.support.requirements import require
from tests.support.server import Site, serving, slow_server
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace

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


def download(
    workspace: Workspace,
    url: str,
    want: PinnedFile | None = None,
    *,
    offline: bool = False,
    retry_policy: RetryPolicy = HASTY,
) -> Path:
    return fetch(
        want or wanted(),
        lambda: url,
        cache=workspace.cache,
        console=workspace.console,
        offline=offline,
        retry_policy=retry_policy,
    )


def names(workspace: Workspace) -> list[str]:
    return sorted(path.name for path in workspace.cache.rglob("tiny*"))


def place(workspace: Workspace, name: str, content: bytes) -> None:
    path = workspace.cache / "downloads" / SHA256 / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


def test_downloads_file(site: Site, workspace: Workspace) -> None:
    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT


def test_follows_redirect(site: Site, workspace: Workspace) -> None:
    site.moved["/latest"] = "/tiny-1.0.tar.gz"

    path = download(workspace, site.url("/latest"))

    assert path.read_bytes() == CONTENT


def test_copies_from_file_url(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a b.tar.gz").write_bytes(CONTENT)

    path = download(workspace, (tmp_path / "a b.tar.gz").as_uri())

    assert path.read_bytes() == CONTENT


def test_refuses_redirect_to_local_file(site: Site, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    site.moved["/latest"] = (tmp_path / "secret").as_uri()

    with pytest.raises(DownloadError):
        download(workspace, site.url("/latest"))

    assert names(workspace) == []


def test_takes_cached_file_without_network(workspace: Workspace) -> None:
    place(workspace, "tiny-1.0.tar.gz", CONTENT)

    path = download(workspace, "http://unused.invalid/", offline=True)

    assert path.read_bytes() == CONTENT


def test_replaces_damaged_cached_file(site: Site, workspace: Workspace) -> None:
    place(workspace, "tiny-1.0.tar.gz", b"damaged")

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT
    assert "tiny-1.0.tar.gz was damaged" in heard(workspace)


def test_sets_wrong_file_aside(site: Site, workspace: Workspace) -> None:
    with pytest.raises(HashMismatchError) as caught:
        download(workspace, site.url("/tiny-1.0.tar.gz"), wanted(sha256="0" * 64))

    aside = f"tiny-1.0.tar.gz.wrong-hash-{SHA256[:8]}"
    assert names(workspace) == [aside]
    assert SHA256 in caught.value.why
    assert "0" * 64 in caught.value.why
    assert aside in caught.value.fix


def test_goes_on_where_connection_broke(site: Site, workspace: Workspace) -> None:
    site.breaks = [100_000]

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT
    assert [span for _, span in site.asked] == ["", "bytes=100000-"]


def test_starts_anew_when_server_ignores_range(site: Site, workspace: Workspace) -> None:
    site.breaks = [100_000]
    site.knows_range = False

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT
    assert [span for _, span in site.asked] == ["", "bytes=100000-"]


def test_goes_on_after_more_breaks_than_attempts(site: Site, workspace: Workspace) -> None:
    site.breaks = [30_000] * (HASTY.attempts + 2)

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT


def test_gives_up_when_nothing_new_comes(site: Site, workspace: Workspace) -> None:
    site.breaks = [100_000] * 20
    site.knows_range = False

    with pytest.raises(DownloadError):
        download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert len(site.asked) == HASTY.attempts


def test_keeps_part_for_next_run(site: Site, workspace: Workspace) -> None:
    site.breaks = [100_000, *[0] * HASTY.attempts]
    with pytest.raises(DownloadError) as caught:
        download(workspace, site.url("/tiny-1.0.tar.gz"))
    site.asked.clear()
    site.breaks.clear()

    download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert "resumes after 100000 bytes" in caught.value.fix
    assert [span for _, span in site.asked] == ["bytes=100000-"]


@pytest.mark.parametrize("part", [b"x" * 1000, b"x" * 400_000], ids=["shorter", "longer"])
def test_starts_anew_when_kept_part_does_not_fit(
    part: bytes, site: Site, workspace: Workspace
) -> None:
    place(workspace, "tiny-1.0.tar.gz.partial", part)

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT


def test_takes_complete_part_without_asking(site: Site, workspace: Workspace) -> None:
    place(workspace, "tiny-1.0.tar.gz.partial", CONTENT)

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT
    assert site.asked == []


def test_refuses_truncated_file_of_unknown_length(site: Site, workspace: Workspace) -> None:
    site.says_length = False
    site.breaks = [100_000]

    with pytest.raises(HashMismatchError):
        download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert "tiny-1.0.tar.gz" not in names(workspace)


def test_asks_busy_server_again(site: Site, workspace: Workspace) -> None:
    site.statuses = [503, 503]

    path = download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert path.read_bytes() == CONTENT


def test_waits_as_long_as_busy_server_asks(site: Site, workspace: Workspace) -> None:
    site.statuses, site.retry_after = [503], "1"
    started = time.monotonic()

    download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert time.monotonic() - started >= 1


def test_does_not_wait_minutes_for_busy_server(site: Site, workspace: Workspace) -> None:
    site.statuses, site.retry_after = [503] * 20, "60"

    with pytest.raises(DownloadError) as caught:
        download(workspace, site.url("/tiny-1.0.tar.gz"))

    assert "answered 503 Service Unavailable and asked to retry after 60 s" in caught.value.why
    assert len(site.asked) == 1


def test_does_not_read_what_comes_with_redirect(workspace: Workspace) -> None:
    start = "HTTP/1.1 302 Found\r\nLocation: /tiny.tar.gz"

    with slow_server(0.05, start) as address, pytest.raises(DownloadError) as caught:
        download(workspace, f"{address}/tiny.tar.gz", retry_policy=SHORT)

    assert "Exceeded 30 redirects" in caught.value.why


@pytest.mark.parametrize(("path", "status"), [("/nothing", "404 Not Found"), ("/busy", "503")])
def test_names_status_of_refusal(path: str, status: str, site: Site, workspace: Workspace) -> None:
    site.statuses = [503] * 20 if path == "/busy" else []

    with pytest.raises(DownloadError) as caught:
        download(workspace, site.url(path))

    assert status in caught.value.why


@pytest.mark.parametrize("says_length", [True, False])
def test_refuses_too_large_file(says_length: bool, site: Site, workspace: Workspace) -> None:  # noqa: FBT001 - pytest gives it by name
    site.says_length = says_length

    with pytest.raises(OversizedDownloadError):
        download(workspace, site.url("/tiny-1.0.tar.gz"), wanted(max_size=200_000))

    assert names(workspace) == []


def test_names_host_that_does_not_answer(workspace: Workspace) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

    with pytest.raises(DownloadError) as caught:
        download(workspace, f"http://user:geheim@127.0.0.1:{port}/tiny.tar.gz?sign=geheim")

    assert caught.value.why == "127.0.0.1: [Errno 111] Connection refused"
    assert "HTTPS_PROXY" in caught.value.fix
    assert "geheim" not in str(caught.value)


def test_names_host_that_nobody_knows(workspace: Workspace) -> None:
    with pytest.raises(DownloadError, match=r"nowhere\.invalid"):
        download(workspace, "https://nowhere.invalid/tiny.tar.gz")


def test_says_where_to_put_file_offline(workspace: Workspace) -> None:
    with pytest.raises(DownloadError) as caught:
        download(workspace, "http://unused.invalid/", offline=True)

    assert str(workspace.cache / "downloads" / SHA256 / "tiny-1.0.tar.gz") in caught.value.fix
    assert "--source" in caught.value.fix


def test_takes_local_file_offline(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "tiny.tar.gz").write_bytes(CONTENT)

    path = download(workspace, (tmp_path / "tiny.tar.gz").as_uri(), offline=True)

    assert path.read_bytes() == CONTENT


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


def test_refuses_wrong_md5(site: Site, workspace: Workspace) -> None:
    old = PinnedFile(
        name="tiny-1.0.tar.gz", sha256="", md5="0" * 32, max_size=1_000_000, pinned_by="the lock"
    )

    with pytest.raises(HashMismatchError) as caught:
        download(workspace, site.url("/tiny-1.0.tar.gz"), old)

    assert f"its MD5 is {MD5}" in caught.value.why
    assert "the lock expects" in caught.value.why


@dataclass(frozen=True, kw_only=True)
class SilentServer:
    """A server that takes connections and says nothing: where, and what it has taken."""

    address: str
    taken: list[socket.socket]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    taken: list[socket.socket] = []

    def take() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken.append(server.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=take)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}/tiny.tar.gz"
        yield SilentServer(address=address, taken=taken)
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in taken:
        connection.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_gives_up_on_silent_server(scheme: str, silent: SilentServer, workspace: Workspace) -> None:
    started = time.monotonic()

    with pytest.raises(DownloadError, match=r"127\.0\.0\.1"):
        download(workspace, f"{scheme}://{silent.address}", retry_policy=SHORT)

    assert time.monotonic() - started < 10 * SHORT.limit


@pytest.mark.parametrize(
    ("pause", "why"),
    [(0.05, "less than 8192 bytes came in 2 seconds"), (60, "timed out")],
    ids=["trickles", "stalls"],
)
def test_gives_up_on_slow_server(pause: float, why: str, workspace: Workspace) -> None:
    """A byte now and then keeps every time-out of a single read from ending it."""
    started = time.monotonic()

    with slow_server(pause) as address, pytest.raises(DownloadError) as caught:
        download(workspace, f"{address}/tiny.tar.gz", retry_policy=SHORT)

    assert time.monotonic() - started < 10 * SHORT.limit
    assert why in caught.value.why
    assert "resumes after" in caught.value.fix
    assert "CUWHEEL_SLOW_NETWORK=4" in caught.value.fix


def many(site: Site, count: int = 12) -> list[tuple[PinnedFile, Callable[[], str]]]:
    """Small files that a site serves from now on."""
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
        retry_policy=HASTY,
        fix="another way",
    )


def test_downloads_many_at_once(site: Site, workspace: Workspace) -> None:
    site.delay = 0.3
    files = many(site)
    started = time.monotonic()

    paths = download_all(workspace, files)

    assert time.monotonic() - started < 12 * site.delay / 2
    assert [path.name for path in paths] == [f"tiny{number}" for number in range(12)]


def test_checks_but_does_not_download_what_is_there(site: Site, workspace: Workspace) -> None:
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


def test_many_offline_say_what_is_missing(site: Site, workspace: Workspace) -> None:
    with pytest.raises(DownloadError) as caught:
        download_all(workspace, many(site), offline=True)

    assert "--offline is set" in caught.value.why
    assert site.asked == []


def test_tells_log_without_terminal_now_and_then(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.system.output.live._PLAIN_INTERVAL", 0.0)

    download_all(
        workspace, [(dataclasses.replace(one, size=1000), url) for one, url in many(site, 2)]
    )

    assert "many  2 of 2 files, 2.0 KiB of 2.0 KiB" in heard(workspace)


def test_shows_one_bar_on_terminal(site: Site, tmp_path: Path) -> None:
    terminal = rich.console.Console(file=io.StringIO(), force_terminal=True, width=100)
    workspace = make_workspace(tmp_path, console=Console(terminal))

    download_all(workspace, many(site))

    assert "12 of 12 files" in heard(workspace)


def test_ends_soon_at_interrupt(silent: SilentServer, tmp_path: Path) -> None:
    child = start(sys.executable, "-c", _MANY, f"http://{silent.address}", str(tmp_path))
    wait_for(lambda: silent.taken)
    started = time.monotonic()

    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)

    assert time.monotonic() - started < 5
    assert output.rstrip().endswith("KeyboardInterrupt")


PATH = f"/downloads/{SHA256}/tiny-1.0.tar.gz"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror on this machine that holds the file."""
    path = tmp_path / "mirror" / PATH.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    monkeypatch.setenv(MIRROR_VARIABLE, (tmp_path / "mirror").as_uri())
    return path


@pytest.fixture
def served(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A mirror on a server that asks for a password."""
    site.password = "Basic " + base64.b64encode(b"me:geheim").decode()
    monkeypatch.setenv(MIRROR_VARIABLE, site.url("/m", login="me:geheim@"))
    return site


@pytest.mark.usefixtures("mirror")
@pytest.mark.parametrize("offline", [True, False])
def test_takes_file_from_mirror(offline: bool, workspace: Workspace) -> None:  # noqa: FBT001 - pytest gives it by name
    path = download(workspace, "http://unused.invalid/", offline=offline)

    assert path.read_bytes() == CONTENT


def test_takes_file_from_served_mirror(served: Site, workspace: Workspace) -> None:
    served.files[f"/m{PATH}"] = CONTENT

    path = download(workspace, "http://unused.invalid/")

    assert path.read_bytes() == CONTENT


def test_goes_elsewhere_for_what_served_mirror_lacks(
    served: Site, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "tiny.tar.gz").write_bytes(CONTENT)

    path = download(workspace, (tmp_path / "tiny.tar.gz").as_uri())

    assert path.read_bytes() == CONTENT
    assert served.asked == [(f"/m{PATH}", "")]


def test_asks_no_served_mirror_offline(served: Site, workspace: Workspace) -> None:
    with pytest.raises(DownloadError, match="is not in the cache"):
        download(workspace, "http://unused.invalid/", offline=True)

    assert served.asked == []


@pytest.mark.parametrize("login", ["", "me:wrong@"])
def test_says_that_served_mirror_refuses(
    login: str, served: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, served.url("/m", login))

    with pytest.raises(DownloadError, match="could not be downloaded") as caught:
        download(workspace, "http://unused.invalid/")

    assert "401 Unauthorized" in caught.value.why
    assert MIRROR_VARIABLE in caught.value.fix
    assert "wrong" not in str(caught.value)


def test_names_mirror_that_does_not_answer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "http://127.0.0.1:9/gone")

    with pytest.raises(DownloadError) as caught:
        download(workspace, "http://unused.invalid/")

    assert MIRROR_VARIABLE in caught.value.fix


def test_refuses_wrong_file_of_mirror(mirror: Path, workspace: Workspace) -> None:
    mirror.write_bytes(b"something else")

    with pytest.raises(HashMismatchError):
        download(workspace, "http://unused.invalid/")


_CHILD = f"""
import sys
from pathlib import Path
from cuwheel.system.console import Console
from cuwheel.errors import CuwheelError
from cuwheel.fetch.download import PinnedFile
from cuwheel.fetch.store import fetch

want = PinnedFile(name="tiny-1.0.tar.gz", sha256="{SHA256}", max_size=1_000_000)
try:
    fetch(want, lambda: sys.argv[1], cache=Path(sys.argv[2]), console=Console())
except CuwheelError as error:
    print(type(error).__name__, error)
"""


_MANY = """
import sys
from pathlib import Path
from cuwheel.system.console import Console
from cuwheel.fetch.download import PinnedFile
from cuwheel.fetch.store import fetch_all

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
