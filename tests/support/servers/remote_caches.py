"""Remote caches of every kind that cuwheel speaks to: real servers, each with a password."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.compile.cache.remote import RemoteCache, parse_remote_cache
from tests.support.requirements import require
from tests.support.servers.blobs import Blobs, serve_blobs
from tests.support.servers.redis import redis_server

KINDS = ("file", "redis", "redis+unix", "rediss", "http", "https", "s3")
SECRET = "ge/h@im"
QUOTED_SECRET = "ge%2Fh%40im"  # as it stands in an address
_NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
_AUTHORITY = f"openssl req -x509 {_NEW_KEY} -keyout ca.key -out ca.pem -subj /CN=authority"
_SERVER = (
    f"openssl req -x509 -CA ca.pem -CAkey ca.key {_NEW_KEY} -keyout key -out cert -subj /CN=me "
    "-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE"
)


@dataclass(frozen=True)
class Certificate:
    """A server's certificate for loopback.

    Attributes:
        authority: who signed it; nobody's.
        server: certificate and key in one file.
    """

    authority: Path
    server: Path


@functools.cache
def make_certificate() -> Certificate:
    """One for the whole run; skips the test where there is no openssl."""
    require("openssl", "the compile cache behind a server that speaks TLS")
    folder = Path(tempfile.mkdtemp(prefix="cw-tls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for command in (_AUTHORITY, _SERVER):
        run(command.split(), env={"PATH": os.environ["PATH"]}, cwd=folder)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert").read_bytes() + (folder / "key").read_bytes())
    return Certificate(authority=folder / "ca.pem", server=both)


@dataclass(frozen=True)
class Offer:
    """A remote cache that works.

    Attributes:
        address: what `CUWHEEL_REMOTE_CACHE` says.
        variables: what else the caller has to say.
    """

    address: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def remote(self) -> RemoteCache:
        return remote_of(self.address, **self.variables)


def remote_of(address: str, **variables: str) -> RemoteCache:
    """What the engine makes of an address."""
    remote = parse_remote_cache({"CUWHEEL_REMOTE_CACHE": address, **variables})
    assert remote is not None
    return remote


@contextlib.contextmanager
def offer(kind: str, folder: Path) -> Iterator[Offer]:
    """Run a remote cache of a kind until the block ends."""
    with contextlib.ExitStack() as stack:
        certificate = None
        if kind in {"rediss", "https"}:
            generated = make_certificate()
            trusted = ("SSL_CERT_FILE", str(generated.authority))
            stack.enter_context(pytest.MonkeyPatch.context()).setenv(*trusted)
            certificate = generated.server
        if kind == "file":
            yield Offer(f"file:{folder}/shared")
        elif kind == "s3":
            blobs = stack.enter_context(serve_blobs(Blobs(s3_secret=SECRET)))
            keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": SECRET}
            endpoint = {"AWS_ENDPOINT_URL": blobs.url}
            yield Offer("s3://bucket/wheels", {**keys, **endpoint})
        elif kind.startswith("http"):
            blobs = stack.enter_context(serve_blobs(Blobs(login=f"me:{SECRET}"), certificate))
            yield Offer(f"{kind}://me:{QUOTED_SECRET}@127.0.0.1:{blobs.port}/cache")
        elif kind == "redis+unix":
            short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cw-")))
            stack.enter_context(redis_server(short))
            yield Offer(f"redis+unix:{short}/redis.sock?db=2")
        else:
            server = redis_server(folder, password=SECRET, certificate=certificate)
            port = stack.enter_context(server)
            yield Offer(f"{kind}://:{QUOTED_SECRET}@127.0.0.1:{port}/2")
