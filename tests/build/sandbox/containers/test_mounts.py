from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.build.sandbox.containers.mounts import Shared, share


def caller(tmp_path: Path, **environ: str) -> Caller:
    own = {"CUWHEEL_CACHE": str(tmp_path / "cache"), "CUWHEEL_PROJECT": str(tmp_path / "own")}
    return Caller({**own, **environ})


def shared(tmp_path: Path, *, network: bool, **environ: str) -> Shared:
    return share(caller(tmp_path, **environ), read=(), write=(tmp_path / "work",), network=network)


def test_writes_only_own_folders(tmp_path: Path) -> None:
    result = shared(tmp_path, network=True)

    assert result.write == (tmp_path / "work", tmp_path / "cache")
    assert result.read == (ROOT, tmp_path / "own")
    assert all(folder.is_dir() for folder in result.write)


def test_writes_compile_cache_of_its_own(tmp_path: Path) -> None:
    result = shared(tmp_path, network=False, CUWHEEL_COMPILE_CACHE=str(tmp_path / "compiles"))

    assert tmp_path / "compiles" in result.write
    assert result.passed["CUWHEEL_COMPILE_CACHE"] == str(tmp_path / "compiles")


def test_shows_certificates_that_variables_name(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.touch()

    result = shared(tmp_path, network=True, SSL_CERT_FILE=str(bundle), PIP_FIND_LINKS="/gone")

    assert bundle in result.read
    assert result.passed["SSL_CERT_FILE"] == str(bundle)


def test_without_network_no_secret_gets_in(tmp_path: Path) -> None:
    result = shared(
        tmp_path,
        network=False,
        UV_INDEX_OWN_PASSWORD="secret",
        PIP_INDEX_URL="https://me:secret@index.example",
        HTTPS_PROXY="http://me:secret@proxy.example",
        CUWHEEL_MIRROR="https://me:secret@mirror.example",
        CUWHEEL_REDIST_MIRROR="https://me:secret@mirror.example",
        CUWHEEL_REMOTE_CACHE="redis://:secret@cache.example",
    )

    assert set(result.passed) == {"CUWHEEL_CACHE", "CUWHEEL_PROJECT"}


def test_with_network_knows_index_but_nothing_else(tmp_path: Path) -> None:
    result = shared(
        tmp_path,
        network=True,
        UV_DEFAULT_INDEX="https://index.example",
        https_proxy="http://proxy.example",
        CXX="g++-12",
        AWS_SECRET_ACCESS_KEY="secret",
    )

    own = {"CUWHEEL_CACHE", "CUWHEEL_PROJECT"}
    assert set(result.passed) == {"UV_DEFAULT_INDEX", "https_proxy", *own}


@pytest.mark.parametrize("name", ["CUWHEEL_CONDA_MIRROR", "CUWHEEL_REDIST_MIRROR"])
def test_shows_copy_of_a_publisher_in_a_folder(name: str, tmp_path: Path) -> None:
    result = shared(tmp_path, network=True, **{name: tmp_path.as_uri()})

    assert tmp_path in result.read
    assert result.passed[name] == tmp_path.as_uri()


def test_shows_mirror_in_a_folder(tmp_path: Path) -> None:
    result = shared(tmp_path, network=False, CUWHEEL_MIRROR=tmp_path.as_uri())

    assert tmp_path in result.read
    assert result.passed["CUWHEEL_MIRROR"] == tmp_path.as_uri()


def test_quotes_folder_with_comma(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    result = share(caller(tmp_path), read=(), write=(folder,), network=False)

    first = list(result.mounts())[1]

    assert first == f'type=bind,"source={folder}","destination={folder}"'


def test_refuses_line_break_in_name(tmp_path: Path) -> None:
    result = share(caller(tmp_path), read=(), write=(tmp_path / "a\nb",), network=False)

    with pytest.raises(UsageError, match="line break"):
        list(result.mounts())
