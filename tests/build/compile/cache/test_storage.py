"""Every kind of remote cache, with real servers."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from cuwheel.build.compile.cache import storage
from cuwheel.build.compile.cache.storage import RedisStorage, open_storage
from tests.support.servers.answers import answering
from tests.support.servers.blobs import Blobs, serve_blobs
from tests.support.servers.redis import redis_server
from tests.support.servers.remote_caches import KINDS, offer, remote_of

_KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_REGION": "eu-west-1"}


@pytest.mark.parametrize("kind", KINDS)
def test_gives_what_it_was_given(kind: str, tmp_path: Path) -> None:
    value = bytes(range(256)) * 5000
    with offer(kind, tmp_path) as offered:
        first, second = open_storage(offered.remote), open_storage(offered.remote)

        before = first.get("ccache-1234")
        first.put("ccache-1234", value)
        first.put("empty", b"")

        assert before is None
        assert first.get("ccache-1234") == value
        assert second.get("ccache-1234") == value
        assert second.get("empty") == b""


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("redis://box", {"host": "box", "port": 6379, "db": 0, "password": None}),
        ("rediss://box:7000/3", {"host": "box", "port": 7000, "db": 3}),
        ("redis://me:pa%2Fss@box/3?timeout=5", {"username": "me", "password": "pa/ss", "db": 3}),
        ("redis+unix:/run/a%20b.sock?db=2", {"path": "/run/a b.sock", "db": 2}),
        ("redis+unix:/3", {"path": "/3", "db": 0}),
    ],
)
def test_reads_addresses_of_redis(address: str, expected: dict[str, object]) -> None:
    storage_ = RedisStorage(remote_of(address))

    options = storage_._client.connection_pool.connection_kwargs
    assert {name: options.get(name) for name in expected} == expected


def test_puts_a_new_value_over_an_old_one(tmp_path: Path) -> None:
    shared = open_storage(remote_of(f"file:{tmp_path}/shared"))

    shared.put("a", b"old")
    shared.put("a", b"new")

    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["a"]
    assert shared.get("a") == b"new"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("redis://:geheim@127.0.0.1:1/0", "Connection refused"),
        ("http://me:geheim@127.0.0.1:1/x", "Connection refused"),
        ("http://nowhere.invalid/x", "lookup address"),
        ("redis+unix:/nowhere/redis.sock", "No such file"),
        ("file:/nowhere/at/all", "No such file"),
    ],
)
def test_gives_reason_for_no_answer(address: str, why: str) -> None:
    with pytest.raises(OSError, match=why):
        open_storage(remote_of(address)).get("a")


@pytest.mark.parametrize(
    ("kind", "why"), [("https", "InvalidCertificate"), ("rediss", "CERTIFICATE_VERIFY_FAILED")]
)
def test_trusts_no_unknown_certificate(
    kind: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with offer(kind, tmp_path) as offered:
        monkeypatch.delenv("SSL_CERT_FILE")

        with pytest.raises(OSError, match=why):
            open_storage(offered.remote).get("a")


@pytest.mark.parametrize(
    ("kind", "why"),
    [("redis", "invalid username-password"), ("http", "401"), ("s3", "403")],
)
def test_reports_a_wrong_password(kind: str, why: str, tmp_path: Path) -> None:
    with offer(kind, tmp_path) as offered:
        variables = {name: f"{value}" for name, value in offered.variables.items()}
        if kind == "s3":
            variables["AWS_SECRET_ACCESS_KEY"] = "wrong"
        wrong = remote_of(offered.address.replace("ge%2Fh", "wrong"), **variables)

        with pytest.raises(OSError, match=why):
            open_storage(wrong).get("a")


@pytest.mark.parametrize("status", [404, 409, 500, 503, 507])
def test_sends_one_request_to_a_failing_server(status: int) -> None:
    with serve_blobs(Blobs(status=status, page=b"<html>sorry</html>")) as blobs:
        store = open_storage(remote_of("s3://bucket", **_KEYS, AWS_ENDPOINT_URL=blobs.url))

        with pytest.raises(OSError, match=f" {status} [A-Z][A-Za-z ]+$"):
            store.put("a", b"1")

    assert len(blobs.headers) == 1


def test_waits_for_no_answer_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_LIMIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]

        for scheme, why in (("http", "TimedOut"), ("redis", "Timeout")):
            with pytest.raises(OSError, match=why):
                open_storage(remote_of(f"{scheme}://127.0.0.1:{port}")).get("a")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"$zz\r\n", "invalid literal"),
        (b"$%d\r\n" % -5, "negative"),
        (b"*1\r\n" * 20000 + b":1\r\n", "an array"),
        (b"x" * (1 << 17), "an endless line"),
        (b"\xff\xfe\r\n", "Protocol Error"),
        (b":" + b"9" * 5000 + b"\r\n", "digits"),
    ],
)
def test_malformed_answer_of_redis_is_a_failure_at_once(answer: bytes, why: str) -> None:
    with answering(answer) as port:
        started = time.monotonic()

        with pytest.raises(OSError, match=why):
            open_storage(remote_of(f"redis://127.0.0.1:{port}")).get("a")

        assert time.monotonic() - started < 10


def test_takes_no_larger_value_from_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size comes first, so nothing of it has to be received."""
    monkeypatch.setattr(storage, "_LARGEST", 1 << 20)
    with (
        answering(b"$%d\r\n" % ((1 << 20) + 1)) as port,
        pytest.raises(storage.OversizedEntryError, match="MiB"),
    ):
        open_storage(remote_of(f"redis://127.0.0.1:{port}")).get("a")
    with answering(b"$%d\r\n" % (1 << 20), b"a" * (1 << 20), b"\r\n") as port:
        assert open_storage(remote_of(f"redis://127.0.0.1:{port}")).get("a") == b"a" * (1 << 20)


def test_takes_no_more_chunks_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server states one size, and sends chunks of another."""
    monkeypatch.setattr(storage, "_LARGEST", 1 << 20)
    head = (
        b"HTTP/1.1 200 OK\r\nLast-Modified: Sun, 29 Nov 2026 21:00:00 GMT\r\n"
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"%x\r\n" % (1 << 20) + b"a" * (1 << 20) + b"\r\n"
    with (
        answering(head, *[chunk] * 40, b"0\r\n\r\n") as port,
        pytest.raises(storage.OversizedEntryError, match="MiB"),
    ):
        open_storage(remote_of(f"http://127.0.0.1:{port}")).get("a")


def test_takes_no_password_to_another_server() -> None:
    with serve_blobs(Blobs()) as other, serve_blobs(Blobs(login="me:geheim")) as blobs:
        blobs.moved = f"http://localhost:{other.port}/elsewhere"

        content = open_storage(remote_of(f"http://me:geheim@127.0.0.1:{blobs.port}")).get("a")

    assert content is None
    assert "authorization" in blobs.headers[0]
    assert len(other.headers) == 1
    assert "authorization" not in other.headers[0]


def test_signs_for_s3_with_token_and_region(tmp_path: Path) -> None:
    with offer("s3", tmp_path) as offered:
        more = {"AWS_SESSION_TOKEN": "token", "AWS_REGION": "eu-west-1"}
        bucket = open_storage(remote_of("s3://bucket/a%20b", **offered.variables, **more))

        bucket.put("x", b"1")

        assert bucket.get("x") == b"1"


def test_takes_no_login_from_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("default login me password geheim\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    with serve_blobs(Blobs()) as blobs:
        open_storage(remote_of(blobs.url)).get("a")

    assert "authorization" not in blobs.headers[0]


@pytest.mark.parametrize("bucket", ["wheels", "wheels.example.org"])
def test_reaches_s3_by_a_name_of_its_certificate(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate's `*` matches no dot (RFC 6125, 6.4.3), which a bucket's name may have."""
    received: list[bytes] = []

    def refuse(proxy: socket.socket) -> None:
        connection, _ = proxy.accept()
        with connection:
            received.append(connection.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        thread = threading.Thread(target=refuse, args=(proxy,))
        thread.start()
        with pytest.raises(OSError, match="Tunnel"):
            open_storage(remote_of(f"s3://{bucket}/a", **_KEYS)).get("x")
        thread.join()

    assert received[0].startswith(b"CONNECT s3.eu-west-1.amazonaws.com:443 ")


def test_connects_again_to_a_redis_that_was_restarted(tmp_path: Path) -> None:
    with redis_server(tmp_path) as port:
        shared = open_storage(remote_of(f"redis://127.0.0.1:{port}"))
        shared.put("a", b"1")
    with redis_server(tmp_path, port=port):
        shared.put("a", b"2")

        assert shared.get("a") == b"2"


def test_keeps_to_its_own_names_in_redis(tmp_path: Path) -> None:
    with redis_server(tmp_path) as port:
        shared = open_storage(remote_of(f"redis://127.0.0.1:{port}"))
        shared.put("a", b"1")
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"KEYS *\r\n")

            assert plain.recv(1 << 10) == b"*1\r\n$9\r\ncuwheel:a\r\n"
