"""Display of URLs, and messages for invalid mirrors."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.urls import (
    MIRROR_VARIABLE,
    Mirror,
    check_url,
    checked_mirror,
    configured_mirror,
    credentials_of,
    is_local,
    local_path,
    redact_text,
    redact_url,
)


def test_shows_address_without_secrets() -> None:
    text = redact_url("https://me:geheim@host.invalid:81/a/b.tar.gz?sign=geheim#x")

    assert text == "https://host.invalid:81/a/b.tar.gz#x"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("me:geheim@host.invalid/x", "host.invalid/x"),
        ("//me:geheim@host.invalid/x", "//host.invalid/x"),
        ("https://me:ge@heim@host.invalid", "https://host.invalid"),
        ("https://host.invalid?token=geheim", "https://host.invalid"),
        ("https://me:geheim@[::1/x?token=geheim#y", "https://[::1/x#y"),
        ("file:///srv/a@b", "file:///srv/a@b"),
    ],
)
def test_shows_malformed_address_without_secrets(address: str, shown: str) -> None:
    assert redact_url(address) == shown


def test_shows_output_of_programs_without_secrets() -> None:
    text = "unable to access 'https://me:geheim@host.invalid/x/': refused, see b@c"

    assert redact_text(text) == "unable to access 'https://host.invalid/x/': refused, see b@c"


def test_finds_file_of_address(tmp_path: Path) -> None:
    path = tmp_path / "a b%.txt"

    assert is_local(path.as_uri())
    assert local_path(path.as_uri()) == path


@pytest.mark.parametrize("address", ["https://me:geheim@mirror.invalid/x", "file:///"])
def test_takes_mirror_without_slash(address: str) -> None:
    assert checked_mirror(f"{address}/", "MIRROR") == address.rstrip("/")


@pytest.mark.parametrize(
    ("value", "part", "fix"),
    [
        ("/srv/mirror", "is not a URL", "write file:///srv/mirror"),
        ("file://srv/mirror", "is not the URL of a folder", "three slashes"),
        ("file:///no/such/folder", "is not an existing folder", "correct the path"),
        ("ftp://me:geheim@mirror.invalid/x", "ftp://mirror.invalid/x", "https://HOST/PATH"),
        ("https://", "is not supported", "https://HOST/PATH"),
        ("me:geheim@mirror.invalid/x", "mirror.invalid/x", "https://HOST/PATH"),
        ("//me:geheim@mirror.invalid/x", "is not a URL", "mirror.invalid/x"),
        ("file://me:geheim@srv/mirror", "is not the URL of a folder", "three slashes"),
    ],
)
def test_refuses_invalid_mirror(value: str, part: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_mirror(value, "MIRROR")

    assert caught.value.what.startswith("MIRROR ")
    assert part in caught.value.what
    assert fix in caught.value.fix
    assert "geheim" not in str(caught.value)


SERVED = "https://me:geheim@mirror.invalid/m"


def mirror(value: str, *, offline: bool = False) -> Mirror | None:
    return configured_mirror({MIRROR_VARIABLE: value}, offline=offline)


def test_names_its_parts(tmp_path: Path) -> None:
    served = mirror(f"{SERVED}/")

    assert served
    assert served.wheels == f"{SERVED}/wheels.html"
    assert served.url_of("git-1f", "a b+c.pack") == f"{SERVED}/downloads/git-1f/a%20b%2Bc.pack"
    assert mirror("") is mirror(SERVED, offline=True) is None
    assert mirror(tmp_path.as_uri(), offline=True) == Mirror(address=tmp_path.as_uri())


@pytest.mark.parametrize(
    "address", ["http://me:geheim@[::1/x", "http://me:geheim@host.invalid:port/x"]
)
def test_refuses_malformed_address_without_its_password(address: str) -> None:
    assert credentials_of(address) == ("me", "geheim")
    assert not is_local(address)
    for check in (check_url, checked_mirror):
        with pytest.raises(UsageError, match="which is not a URL") as caught:
            check(address, MIRROR_VARIABLE)

        assert "geheim" not in f"{caught.value.what} {caught.value.why}"
