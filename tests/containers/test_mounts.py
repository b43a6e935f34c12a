from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.containers.image import parse_image
from cuwheel.containers.mounts import Shared, share
from cuwheel.errors import UsageError
from cuwheel.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = parse_image(f"sha256:{'ab' * 32}")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "own"))


def shared(tmp_path: Path, *, network: bool, **environ: str) -> Shared:
    return share(environ, read=(), write=(tmp_path / "work",), network=network)


def test_writes_only_own_folders(tmp_path: Path) -> None:
    made = shared(tmp_path, network=True)

    assert made.write == (tmp_path / "work", tmp_path / "cache")
    assert made.read == (ROOT, tmp_path / "own")
    assert all(folder.is_dir() for folder in made.write)


def test_writes_compile_cache_of_its_own(tmp_path: Path) -> None:
    made = shared(tmp_path, network=False, CUWHEEL_COMPILE_CACHE=str(tmp_path / "compiles"))

    assert tmp_path / "compiles" in made.write
    assert made.passed["CUWHEEL_COMPILE_CACHE"] == str(tmp_path / "compiles")


def test_shows_certificates_that_variables_name(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.touch()

    made = shared(tmp_path, network=True, SSL_CERT_FILE=str(bundle), PIP_FIND_LINKS="/gone")

    assert bundle in made.read
    assert made.passed["SSL_CERT_FILE"] == str(bundle)


def test_without_network_no_secret_gets_in(tmp_path: Path) -> None:
    made = shared(
        tmp_path,
        network=False,
        UV_INDEX_OWN_PASSWORD="secret",
        PIP_INDEX_URL="https://me:secret@index.example",
        HTTPS_PROXY="http://me:secret@proxy.example",
        CUWHEEL_MIRROR="https://me:secret@mirror.example",
        CUWHEEL_REMOTE_CACHE="redis://:secret@cache.example",
    )

    assert set(made.passed) == {"CUWHEEL_CACHE", "CUWHEEL_PROJECT"}


def test_with_network_knows_index_but_nothing_else(tmp_path: Path) -> None:
    made = shared(
        tmp_path,
        network=True,
        UV_DEFAULT_INDEX="https://index.example",
        https_proxy="http://proxy.example",
        CXX="g++-12",
        AWS_SECRET_ACCESS_KEY="secret",
    )

    own = {"CUWHEEL_CACHE", "CUWHEEL_PROJECT"}
    assert set(made.passed) == {"UV_DEFAULT_INDEX", "https_proxy", *own}


def test_shows_mirror_in_a_folder(tmp_path: Path) -> None:
    made = shared(tmp_path, network=False, CUWHEEL_MIRROR=tmp_path.as_uri())

    assert tmp_path in made.read
    assert made.passed["CUWHEEL_MIRROR"] == tmp_path.as_uri()


def test_quotes_folder_with_comma(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    made = share({}, read=(), write=(folder,), network=False)

    first = list(made.options(IMAGE))[1]

    assert first == f'type=bind,"source={folder}","destination={folder}"'


def test_refuses_line_break_in_name(tmp_path: Path) -> None:
    made = share({}, read=(), write=(tmp_path / "a\nb",), network=False)

    with pytest.raises(UsageError, match="line break"):
        list(made.options(IMAGE))


def test_values_stand_in_no_command_line(tmp_path: Path) -> None:
    made = shared(tmp_path, network=True, HTTPS_PROXY="http://me:secret@proxy.example")

    words = list(made.options(IMAGE))

    assert "HTTPS_PROXY" in words
    assert not any("secret" in word for word in words)
