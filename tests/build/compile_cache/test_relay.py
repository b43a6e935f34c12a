from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, NamedTuple

import pytest
import redis

from cuwheel.build.compile_cache.relay import Traffic, serve_relay
from cuwheel.build.compile_cache.remote import RemoteCache
from cuwheel.build.compile_cache.storage import ObjectStorage, open_storage
from tests.support.blob_server import Blobs, serve_blobs
from tests.support.remote_caches import remote_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuwheel.build.compile_cache.storage import Storage


class Connected(NamedTuple):
    """A real client of Redis that is connected to a relay."""

    client: redis.Redis
    traffic: Traffic
    warnings: list[str]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., Connected]]:
    """Starts a relay to a remote cache, or to what is said to be its storage."""
    with contextlib.ExitStack() as stack:

        def make(
            remote: RemoteCache, storage: Storage | None = None, package: str = "tiny"
        ) -> Connected:
            warnings: list[str] = []
            path = tmp_path / f"{package}.sock"
            relay = serve_relay(
                remote, storage or open_storage(remote), path, package, warnings.append
            )
            traffic = stack.enter_context(relay)
            client = redis.Redis(unix_socket_path=str(path), protocol=2)
            stack.callback(client.close)
            return Connected(client, traffic, warnings)

        yield make


@pytest.fixture
def shared(tmp_path: Path) -> RemoteCache:
    """A folder that works."""
    return remote_of(f"file:{tmp_path}/shared")


def test_keeps_what_it_is_given(shared: RemoteCache, connect: Callable[..., Connected]) -> None:
    client, traffic, warnings = connect(shared)
    value = bytes(range(256)) * 5000

    before = client.get("ccache:1234")
    stored = client.set("ccache:1234", value)

    assert (before, stored) == (None, True)
    assert client.get("ccache:1234") == value
    assert client.exists("a/b/c/abc") == 0
    assert (traffic.hits, traffic.misses, traffic.failures) == (1, 2, 0)
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
    client, traffic, warnings = connect(remote_of(address))

    answers = [client.get("a"), client.set("a", b"1"), client.get("a")]

    assert answers == [None, True, None]
    assert traffic.is_off
    assert len(warnings) == 1
    assert why in warnings[0]
    assert "\n" not in warnings[0]
    assert "geheim" not in warnings[0]


def test_leaves_a_server_alone_that_breaks_during_the_build(
    connect: Callable[..., Connected],
) -> None:
    with serve_blobs(Blobs()) as blobs:
        client, traffic, warnings = connect(remote_of(blobs.url))
        blobs.status = 507  # Insufficient Storage
        for _ in range(9):
            client.set("a", b"1")

    assert traffic.failures == 3
    assert len(warnings) == 1
    assert "507 Insufficient Storage" in warnings[0]


def test_keeps_secrets_out_of_a_warning_whatever_the_failure_says(
    connect: Callable[..., Connected],
) -> None:
    remote = RemoteCache(scheme="http", redacted_url="http://box", user="me", secret="ge/heim")

    _, _, warnings = connect(remote, Failing("ge/heim, ge%2Fheim"))

    assert len(warnings) == 1
    assert warnings[0].endswith("without it: ***, ***")


class Failing:
    """A storage that fails and says why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def get(self, _: str) -> bytes | None:
        raise OSError(self._why)

    def put(self, _: str, __: bytes) -> None:
        raise OSError(self._why)


def test_keeps_no_trial_of_sccache(
    tmp_path: Path, shared: RemoteCache, connect: Callable[..., Connected]
) -> None:
    client, traffic, _ = connect(shared)

    answers = [client.set(".sccache_check", b"1"), client.get(".sccache_check")]

    assert answers == [True, None]
    assert (traffic.misses, list((tmp_path / "shared").iterdir())) == (0, [])


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


def test_listens_below_a_path_too_long_for_a_socket(tmp_path: Path, shared: RemoteCache) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()

    with serve_relay(shared, ObjectStorage(shared), deep / "relay.sock", "tiny", print):
        assert (deep / "relay.sock").is_socket()

    assert list(deep.iterdir()) == []


def test_ends_though_a_client_stays(tmp_path: Path, shared: RemoteCache) -> None:
    with serve_relay(shared, ObjectStorage(shared), tmp_path / "relay.sock", "tiny", print):
        client = redis.Redis(unix_socket_path=str(tmp_path / "relay.sock"), protocol=2)
        client.ping()

    client.close()
