from __future__ import annotations

import contextlib
import socket
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
import requests

from cuwheel.build.compile_cache.relay import Traffic, relaying
from cuwheel.build.compile_cache.remote import Remote, remote_from
from cuwheel.build.compile_cache.resp import ProtocolError, command, read_value
from cuwheel.build.compile_cache.storage import FileStorage, open_storage, s3_headers
from tests.support.blob_server import Blobs, keeping
from tests.support.redis_server import redis_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_FILE = Remote(scheme="file", shown="file:/nowhere")


class Client:
    """Speaks to a relay as ccache and sccache do."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rwb")

    def ask(self, *words: bytes) -> object:
        self._stream.write(command(*words))
        self._stream.flush()
        return read_value(self._stream)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., tuple[Client, Traffic, list[str]]]]:
    """A client of a relay to what `CUWHEEL_REMOTE_CACHE` would say, and the warnings."""
    with contextlib.ExitStack() as stack:

        def make(address: str, **environ: str) -> tuple[Client, Traffic, list[str]]:
            remote = remote_from({"CUWHEEL_REMOTE_CACHE": address, **environ})
            assert remote is not None
            warnings: list[str] = []
            path = tmp_path / "relay.sock"
            relay = relaying(remote, open_storage(remote), path, warnings.append)
            traffic = stack.enter_context(relay)
            client = Client(path)
            stack.callback(client.close)
            return client, traffic, warnings

        yield make


@pytest.fixture(params=["file", "redis", "http", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A remote cache that works, with a password where there can be one."""
    with contextlib.ExitStack() as stack:
        if request.param == "file":
            yield f"file:{tmp_path}/shared", {}
        elif request.param == "redis":
            port = stack.enter_context(redis_server(tmp_path, password="geheim"))
            yield f"redis://:geheim@127.0.0.1:{port}/2", {}
        elif request.param == "http":
            blobs = stack.enter_context(keeping(Blobs(login="me:geheim")))
            yield f"http://me:geheim@127.0.0.1:{blobs.port}/cache", {}
        else:
            blobs = stack.enter_context(keeping(Blobs()))
            yield (
                "s3://bucket/wheels",
                {
                    "AWS_ACCESS_KEY_ID": "id",
                    "AWS_SECRET_ACCESS_KEY": "geheim",
                    "AWS_ENDPOINT_URL": f"http://127.0.0.1:{blobs.port}",
                },
            )


def test_keeps_what_it_is_given(
    address: tuple[str, dict[str, str]],
    connect: Callable[..., tuple[Client, Traffic, list[str]]],
) -> None:
    client, traffic, warnings = connect(address[0], **address[1])
    value = bytes(range(256)) * 5000

    before = client.ask(b"GET", b"ccache:1234")
    stored = client.ask(b"SET", b"ccache:1234", value)

    assert (before, stored) == (None, b"OK")
    assert client.ask(b"GET", b"ccache:1234") == value
    assert client.ask(b"EXISTS", b"a/b/c/abc") == 0
    assert (traffic.hits, traffic.misses, traffic.failures) == (1, 2, 0)
    assert warnings == []


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("redis://:geheim@127.0.0.1:1/0", "Connection refused"),
        ("http://me:geheim@127.0.0.1:1/x", "Connection refused"),
        ("redis+unix:/nowhere/redis.sock", "No such file"),
        ("file:/nowhere/at/all", "No such file"),
    ],
)
def test_warns_once_of_what_doesnt_answer(
    address: str, why: str, connect: Callable[..., tuple[Client, Traffic, list[str]]]
) -> None:
    client, traffic, warnings = connect(address)

    answers = [client.ask(b"GET", b"a"), client.ask(b"SET", b"a", b"1"), client.ask(b"GET", b"a")]

    assert answers == [None, b"OK", None]
    assert traffic.is_off
    assert len(warnings) == 1
    assert why in warnings[0]
    assert "Pool(" not in warnings[0]  # nothing of a library's own
    assert "geheim" not in warnings[0]


def test_warns_of_a_wrong_password_without_saying_it(
    tmp_path: Path, connect: Callable[..., tuple[Client, Traffic, list[str]]]
) -> None:
    with redis_server(tmp_path, password="right") as port:
        _, traffic, warnings = connect(f"redis://:geheim@127.0.0.1:{port}")

    assert traffic.is_off
    assert "invalid username-password" in warnings[0]
    assert "geheim" not in warnings[0]


def test_leaves_a_server_alone_that_breaks_during_the_build(
    connect: Callable[..., tuple[Client, Traffic, list[str]]],
) -> None:
    with keeping(Blobs()) as blobs:
        client, traffic, warnings = connect(f"http://127.0.0.1:{blobs.port}")
        blobs.status = 507  # Insufficient Storage
        for _ in range(9):
            client.ask(b"SET", b"a", b"1")

    assert traffic.failures == 3
    assert len(warnings) == 1
    assert "answered PUT with 507" in warnings[0]


def test_takes_no_redirection_for_a_value(
    connect: Callable[..., tuple[Client, Traffic, list[str]]],
) -> None:
    with keeping(Blobs(status=302)) as blobs:
        client, traffic, warnings = connect(f"http://127.0.0.1:{blobs.port}")

        assert client.ask(b"GET", b"a") is None

    assert traffic.is_off
    assert "answered GET with 302" in warnings[0]


def test_signs_for_s3_whatever_netrc_says(
    connect: Callable[..., tuple[Client, Traffic, list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "netrc").write_text("default login me password geheim\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}

    with keeping(Blobs()) as blobs:
        connect("s3://bucket", AWS_ENDPOINT_URL=f"http://127.0.0.1:{blobs.port}", **keys)

    assert blobs.headers[0]["Authorization"].startswith("AWS4-HMAC-SHA256 ")


@pytest.mark.parametrize(
    ("bucket", "url"),
    [
        ("wheels", "https://wheels.s3.eu-west-1.amazonaws.com/a/cuwheel-probe"),
        (
            "wheels.example.org",
            "https://s3.eu-west-1.amazonaws.com/wheels.example.org/a/cuwheel-probe",
        ),
    ],
)
def test_asks_s3_at_a_name_that_its_certificate_has(
    bucket: str,
    url: str,
    connect: Callable[..., tuple[Client, Traffic, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def refuse(_: object, __: str, at: str, **___: object) -> None:
        asked.append(at)
        raise ConnectionError

    monkeypatch.setattr(requests.Session, "request", refuse)
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}

    connect(f"s3://{bucket}/a", AWS_REGION="eu-west-1", **keys)

    assert asked == [url]


def test_asks_a_busy_server_once(
    connect: Callable[..., tuple[Client, Traffic, list[str]]],
) -> None:
    with keeping(Blobs(status=503)) as blobs:
        connect(f"http://127.0.0.1:{blobs.port}")

    assert len(blobs.headers) == 1


def test_connects_again_to_a_redis_that_was_restarted(
    tmp_path: Path, connect: Callable[..., tuple[Client, Traffic, list[str]]]
) -> None:
    with redis_server(tmp_path) as port:
        client, traffic, warnings = connect(f"redis://127.0.0.1:{port}")
        client.ask(b"SET", b"a", b"1")
    with redis_server(tmp_path, port=port):
        client.ask(b"GET", b"a")  # over the connection that has ended
        client.ask(b"SET", b"a", b"2")

        assert client.ask(b"GET", b"a") == b"2"

    assert traffic.failures == 1
    assert warnings == []


def test_keeps_secrets_out_of_a_warning_whatever_the_failure_says(tmp_path: Path) -> None:
    remote = Remote(scheme="http", shown="http://box", user="me", secret="ge/heim")
    warnings: list[str] = []

    with relaying(remote, Failing("ge/heim, ge%2Fheim"), tmp_path / "r.sock", warnings.append):
        pass

    assert len(warnings) == 1
    assert warnings[0].endswith("without it: ***, ***")


class Failing:
    """A storage that fails and says why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def get(self, _: str) -> bytes | None:
        raise OSError(self._why)

    def leave(self) -> None:
        pass

    def put(self, _: str, __: bytes) -> None:
        raise OSError(self._why)


def test_keeps_no_trial_of_sccache(
    tmp_path: Path, connect: Callable[..., tuple[Client, Traffic, list[str]]]
) -> None:
    client, traffic, _ = connect(f"file:{tmp_path}/shared")

    answers = [client.ask(b"SET", b".sccache_check", b"1"), client.ask(b"GET", b".sccache_check")]

    assert answers == [b"OK", None]
    assert (traffic.misses, (tmp_path / "shared").exists()) == (0, False)


@pytest.mark.parametrize(
    "words", [(b"FLUSHALL",), (b"GET", b"../../etc/passwd\n"), (b"KEYS", b"*"), (b"SET", b"a")]
)
def test_does_nothing_else(
    words: tuple[bytes, ...],
    tmp_path: Path,
    connect: Callable[..., tuple[Client, Traffic, list[str]]],
) -> None:
    client, _, _ = connect(f"file:{tmp_path}/shared")

    with pytest.raises(ProtocolError, match="this relay"):
        client.ask(*words)


def test_lets_no_name_leave_its_folder(
    tmp_path: Path, connect: Callable[..., tuple[Client, Traffic, list[str]]]
) -> None:
    client, _, _ = connect(f"file:{tmp_path}/shared")

    client.ask(b"SET", b"../../outside", b"1")

    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["outside"]
    assert not (tmp_path / "outside").exists()


def test_listens_below_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()

    with relaying(_FILE, FileStorage(tmp_path), deep / "relay.sock", print):
        assert (deep / "relay.sock").is_socket()

    assert list(deep.iterdir()) == []


def test_ends_though_a_client_stays(tmp_path: Path) -> None:
    with relaying(_FILE, FileStorage(tmp_path), tmp_path / "relay.sock", print):
        client = Client(tmp_path / "relay.sock")
        client.ask(b"PING")

    client.close()


@pytest.mark.parametrize(
    ("method", "name", "value", "token", "signature"),
    [
        (
            "GET",
            "test.txt",
            b"",
            "",
            "df548e2ce037944d03f3e68682813b093763996d597cf890ca3d9037fd231eb4",
        ),
        (
            "PUT",
            "wheels%20a/ccache-1",
            b"hello",
            "tok",
            "2fd647b0189a532ce7b602d25657bc69178bea1fcb588a0ef3b3f611c17d5e01",
        ),
    ],
)
def test_signs_as_botocore_does(
    method: str, name: str, value: bytes, token: str, signature: str
) -> None:
    remote = remote_from(
        {
            "CUWHEEL_REMOTE_CACHE": "s3://examplebucket",
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "AWS_SESSION_TOKEN": token,
        }
    )
    assert remote is not None
    moment = datetime(2013, 5, 24, tzinfo=timezone.utc)
    url = f"https://examplebucket.s3.amazonaws.com/{name}"

    headers = s3_headers(remote, method, url, value, moment)

    # Worked out with botocore 1.44.5, S3SigV4Auth, for the same time and keys.
    assert headers["Authorization"].endswith(f"Signature={signature}")
