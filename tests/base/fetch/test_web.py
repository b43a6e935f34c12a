"""Certificates, redirects and time-outs of sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.indexes.pages import PageFault, read_page
from cuwheel.base.fetch.retry import Attempts, RetryPolicy
from cuwheel.base.fetch.web import is_lasting, open_session, read_head
from cuwheel.base.system import process
from tests.support.requirements import require
from tests.support.servers.http import Site, serving, slow_server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for loopback, with its key, in one file."""
    require("openssl", "which certificates a download takes")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=me"
    argv = [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    process.run(argv, env={"PATH": os.environ["PATH"]}, cwd=folder)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert").read_bytes() + (folder / "key").read_bytes())
    return both


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The certificate, which this process trusts."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return certificate


@pytest.fixture
def url(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    with serving(Site(files={"/x": b"content"}), certificate=certificate) as site:
        yield site.url("/x")


def get(url: str) -> bytes:
    with open_session(Attempts()) as session:
        return session.get(url).content


def test_refuses_unknown_certificate_for_good(url: str) -> None:
    with pytest.raises(requests.exceptions.SSLError) as caught:
        get(url)

    assert is_lasting(caught.value)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_trusts_named_certificate(
    variable: str, url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(certificate))

    content = get(url)

    assert content == b"content"


@pytest.mark.parametrize("target", ["http://127.0.0.1:9/x", "file:///etc/hostname"])
def test_follows_no_redirect_down_from_https(target: str, trusted: Path) -> None:
    with (
        serving(Site(moved={"/x": target}), certificate=trusted) as site,
        pytest.raises(requests.exceptions.InvalidURL, match="redirects from https"),
    ):
        get(site.url("/x"))


def test_follows_redirect_within_https(trusted: Path) -> None:
    with serving(Site(files={"/y": b"y"}, moved={"/x": "/y"}), certificate=trusted) as site:
        assert get(site.url("/x")) == b"y"


def test_goes_on_where_a_handshake_broke_off(trusted: Path) -> None:
    with serving(Site(files={"/x": b"x"}, hang_ups=2), certificate=trusted) as site:
        assert get(site.url("/x")) == b"x"


def test_gives_up_on_slow_page_over_tls(trusted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.base.fetch.retry.RETRY_POLICY", RetryPolicy(limit=0.5))

    with slow_server(0.1, certificate=trusted) as address:
        fault = read_page(f"{address}/x", Attempts(), "application/json")

    assert isinstance(fault, PageFault)
    assert fault.kind == "unasked"


def test_names_server_that_speaks_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    with serving(Site()) as site, pytest.raises(DownloadError) as caught:
        read_head(site.url("/x").replace("http:", "https:"), Attempts(), fix="later")

    assert "speak TLS" in caught.value.fix


def test_does_not_trust_store_that_requests_brings(
    url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(certificate))

    with pytest.raises(requests.exceptions.SSLError):
        get(url)
