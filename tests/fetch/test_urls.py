"""What is shown of an address, and what is said of one that names no mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.fetch.urls import checked_mirror, is_local, local_path, redact_url

if TYPE_CHECKING:
    from pathlib import Path


def test_shows_address_without_secrets() -> None:
    text = redact_url("https://me:geheim@host.invalid:81/a/b.tar.gz?sign=geheim#x")

    assert text == "https://host.invalid:81/a/b.tar.gz#x"


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
        ("/srv/mirror", "is no address", "write file:///srv/mirror"),
        ("file://srv/mirror", "names no folder", "three slashes"),
        ("file:///no/such/folder", "no such folder", "correct the path"),
        ("ftp://me:geheim@mirror.invalid/x", "ftp://mirror.invalid/x", "https://HOST/PATH"),
        ("https://", "can't be read", "https://HOST/PATH"),
    ],
)
def test_says_what_to_write_instead(value: str, part: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_mirror(value, "MIRROR")

    assert caught.value.what.startswith("MIRROR ")
    assert part in caught.value.what
    assert fix in caught.value.fix
    assert "geheim" not in str(caught.value)
