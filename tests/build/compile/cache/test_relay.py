from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import redis

from cuwheel.build.compile.cache.relay import ProtocolError, Relay, read_command, serve_relay
from cuwheel.build.compile.cache.remote import RemoteCache
from cuwheel.build.compile.cache.storage import ObjectStorage, Storage, open_storage
from tests.support.servers.answers import answering
from tests.support.servers.blobs import Blobs, serve_blobs
from tests.support.servers.remote_caches import remote_of


class Connected(NamedTuple):
    """A real client of Redis that is connected to a relay."""

    client: redis.Redis
    relay: Relay
    warnings: list[str]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., Connected]]:
    """Start a relay to a remote cache, or to a given storage."""
    with contextlib.ExitStack() as stack:

        def make(
            remote: RemoteCache, storage: Storage | None = None, package: str = "tiny"
        ) -> Connected:
            warnings: list[str] = []
            path = tmp_path / f"{package}.sock"
            served = serve_relay(
                remote, storage or open_storage(remote), path, package, warnings.append
            )
            relay = stack.enter_context(served)
            client = redis.Redis(unix_socket_path=str(path), protocol=2)
            stack.callback(client.close)
            return Connected(client, relay, warnings)

        yield make


@pytest.fixture
def shared(tmp_path: Path) -> RemoteCache:
    """A folder that works."""
    return remote_of(f"file:{tmp_path}/shared")


def test_keeps_what_it_is_given(shared: RemoteCache, connect: Callable[..., Connected]) -> None:
    client, relay, warnings = connect(shared)
    value = bytes(range(256)) * 5000

    before = client.get("ccache:1234")
    stored = client.set("ccache:1234", value)

    assert (before, stored) == (None, True)
    assert client.get("ccache:1234") == value
    assert client.exists("a/b/c/abc") == 0
    assert relay.hits == 1
    assert warnings == []


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("redis://:geheim@127.0.0.1:1/0", "Connection refused"),
        ("http://me:geheim@127.0.0.1:1/x", "Connection refused"),
        ("file:/nowhere/at/all", "No such file"),
    ],
)
def test_warns_once_of_what_doesnt_answer(
    address: str, why: str, connect: Callable[..., Connected]
) -> None:
    client, relay, warnings = connect(remote_of(address))

    answers = [client.get("a"), client.set("a", b"1"), client.get("a")]

    assert answers == [None, True, None]
    assert relay.is_off
    assert len(warnings) == 1
    assert why in warnings[0]
    assert "\n" not in warnings[0]
    assert "geheim" not in warnings[0]


@pytest.mark.parametrize(
    "answer", [b"$zz\r\n", b"*1\r\n" * 20000 + b":1\r\n", b":x\r\n", b"$-7\r\n"]
)
def test_warns_once_of_a_malformed_answer(answer: bytes, connect: Callable[..., Connected]) -> None:
    with answering(answer) as port:
        client, relay, warnings = connect(remote_of(f"redis://127.0.0.1:{port}"))

        answers = [client.get("a"), client.set("a", b"1"), client.get("a")]

    assert answers == [None, True, None]
    assert relay.is_off
    assert len(warnings) == 1


def test_leaves_a_server_alone_that_breaks_during_the_build(
    connect: Callable[..., Connected],
) -> None:
    with serve_blobs(Blobs()) as blobs:
        client, _, warnings = connect(remote_of(blobs.url))
        blobs.status = 507  # Insufficient Storage
        for _ in range(9):
            client.set("a", b"1")

    assert len(blobs.headers) == 3 + 1  # and the trial before the build
    assert len(warnings) == 1
    assert "507 Insufficient Storage" in warnings[0]


def test_keeps_secrets_out_of_a_warning(
    connect: Callable[..., Connected],
) -> None:
    remote = remote_of("http://me:ge%2Fheim@box")

    _, _, warnings = connect(remote, Failing("ge/heim, ge%2Fheim"))

    assert len(warnings) == 1
    assert warnings[0].endswith("without it: ***, ***")


class Failing:
    """A storage that fails with a reason."""

    def __init__(self, why: str) -> None:
        self._why = why

    def get(self, _: str) -> bytes | None:
        raise OSError(self._why)

    def put(self, _: str, __: bytes) -> None:
        raise OSError(self._why)


def test_keeps_no_trial_of_sccache(
    tmp_path: Path, shared: RemoteCache, connect: Callable[..., Connected]
) -> None:
    client, _, _ = connect(shared)

    answers = [client.set(".sccache_check", b"1"), client.get(".sccache_check")]

    assert answers == [True, None]
    assert list((tmp_path / "shared").iterdir()) == []


@pytest.mark.parametrize(
    "words", [("FLUSHALL",), ("GET", "../../etc/passwd\n"), ("KEYS", "*"), ("SET", "a"), ("GET",)]
)
def test_does_nothing_else(
    words: tuple[str, ...], shared: RemoteCache, connect: Callable[..., Connected]
) -> None:
    client, _, _ = connect(shared)

    with pytest.raises(redis.ResponseError, match="this relay"):
        client.execute_command(*words)  # type: ignore[no-untyped-call]


def test_ends_a_talk_in_another_protocol(
    tmp_path: Path, shared: RemoteCache, connect: Callable[..., Connected]
) -> None:
    client, _, _ = connect(shared)
    with socket.socket(socket.AF_UNIX) as plain:
        plain.settimeout(10)
        plain.connect(str(tmp_path / "tiny.sock"))
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")

        with contextlib.suppress(ConnectionResetError):  # it hasn't read all of that
            assert plain.recv(1) == b""

    assert client.ping()


def test_lets_no_name_leave_its_folder(
    tmp_path: Path, shared: RemoteCache, connect: Callable[..., Connected]
) -> None:
    client, _, _ = connect(shared)

    client.set("../../outside", b"1")

    [kept] = (tmp_path / "shared").iterdir()
    assert kept.name.endswith("-outside")
    assert not (tmp_path / "outside").exists()


def test_a_package_reaches_no_value_of_another(
    shared: RemoteCache, connect: Callable[..., Connected]
) -> None:
    mine, _, _ = connect(shared, package="a")
    other, _, _ = connect(shared, package="a-b")
    other.set("key", b"theirs")

    mine.set("key", b"mine")
    mine.set("b-key", b"mine")

    assert other.get("key") == b"theirs"
    assert mine.get("key") == b"mine"


def test_ends_though_a_client_stays(tmp_path: Path, shared: RemoteCache) -> None:
    with serve_relay(shared, ObjectStorage(shared), tmp_path / "relay.sock", "tiny", print):
        client = redis.Redis(unix_socket_path=str(tmp_path / "relay.sock"), protocol=2)
        client.ping()

    client.close()


def test_reads_commands_one_after_the_other() -> None:
    stream = io.BytesIO(b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n*0\r\n")

    assert [read_command(stream) for _ in range(3)] == [[b"GET", b"a\r\nb"], [b"PING"], []]


@pytest.mark.parametrize("sent", [b"", b"*1\r\n", b"*1\r\n$3\r\nGE"])
def test_raises_at_the_end_of_the_connection(sent: bytes) -> None:
    with pytest.raises(EOFError):
        read_command(io.BytesIO(sent))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n",
        b"*65\r\n",
        b"*-1\r\n",
        b"*1\r\n$536870913\r\n",
        b"*1\r\n*1\r\n",
        b"*1\r\n$3x\r\n",
        b"*" + b"1" * 100,
    ],
)
def test_refuses_what_no_cache_sends(sent: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_command(io.BytesIO(sent))
