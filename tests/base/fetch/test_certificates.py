"""Servers with an invalid certificate: each command refuses them with a reason and a fix."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.store import fetch
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.factories import make_workspace
from tests.support.servers.certificates import Kind, write_certificates
from tests.support.servers.http import Site, serving

_MESSAGES = {
    "expired": ("has expired", "this machine's clock"),
    "not yet valid": ("not yet valid", "this machine's clock"),
    "of another host": ("not valid for '127.0.0.1'", "another server answers there"),
    "self-signed": ("self-signed certificate", "SSL_CERT_FILE"),
}


@pytest.fixture(params=_MESSAGES)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def site(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    authority, server = write_certificates(tmp_path, kind)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    with serving(
        Site(files={"/x": b"x", "/simple/": b"", "/simple/toy/": b""}), certificate=server
    ) as site:
        yield site


def download(site: Site, folder: Path) -> None:
    workspace = make_workspace(folder)
    file = PinnedFile(name="x", sha256=hashlib.sha256(b"x").hexdigest(), max_size=9)
    fetch(file, lambda: site.url("/x"), cache=workspace.cache, console=workspace.console)


def pick(site: Site, _: Path) -> None:
    machine = "python=3.12,platform=x86_64"
    run_command("pick", ["toy", "--index", site.url("/simple/"), "--for", machine], Console())


def check(site: Site, _: Path) -> None:
    run_command("index", ["--check", site.url("/simple/")], Console())


@pytest.mark.parametrize("verb", [download, pick, check])
def test_reports_invalid_certificate(
    verb: Callable[[Site, Path], None], site: Site, kind: Kind, tmp_path: Path
) -> None:
    why, fix = _MESSAGES[kind]

    with pytest.raises(DownloadError) as caught:
        verb(site, tmp_path)

    assert site.asked == []
    assert why in caught.value.why
    assert fix in caught.value.fix
    assert "is not a package index" not in caught.value.what
