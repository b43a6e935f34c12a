"""Which mirror may be used, and where it has what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.fetch.mirror import MIRROR_VARIABLE, Mirror, configured_mirror

if TYPE_CHECKING:
    from pathlib import Path

SERVED = "https://me:geheim@mirror.invalid/m"


def mirror(value: str, *, offline: bool = False) -> Mirror | None:
    return configured_mirror({MIRROR_VARIABLE: value}, offline=offline)


def test_is_none_where_none_is_named() -> None:
    assert mirror("") is None
    assert configured_mirror({}, offline=False) is None


def test_names_its_parts() -> None:
    found = mirror(f"{SERVED}/")

    assert found
    assert found.wheels == f"{SERVED}/wheels.html"
    assert found.url_of("git-1f", "a b+c.pack") == f"{SERVED}/downloads/git-1f/a%20b%2Bc.pack"


def test_needs_no_network_when_it_is_a_folder(tmp_path: Path) -> None:
    assert mirror(tmp_path.as_uri(), offline=True) == Mirror(address=tmp_path.as_uri())


def test_is_not_used_offline_when_it_is_on_a_server() -> None:
    assert mirror(SERVED, offline=True) is None


@pytest.mark.parametrize("offline", [True, False])
def test_says_what_to_write_instead(offline: bool) -> None:  # noqa: FBT001 - pytest gives it by name
    with pytest.raises(UsageError, match=MIRROR_VARIABLE):
        mirror("/srv/mirror", offline=offline)
