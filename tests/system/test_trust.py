"""Whose cache is run, as root and as an ordinary user."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UntrustedCacheError
from cuwheel.paths import ROOT
from cuwheel.system.process import run
from cuwheel.system.trust import check_cache
from tests.support.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator

_ME, _OTHER = 4001, 4002  # users that no file of a machine is of
_GROUP = 4100

_CHECK = """
import os, sys
from pathlib import Path
from cuwheel.errors import UntrustedCacheError
from cuwheel.system.trust import check_cache
user, group = map(int, sys.argv[2:])
os.setgroups([group])
os.setresgid(group, group, group)
os.setresuid(user, user, user)
try:
    check_cache(Path(sys.argv[1]), "CUWHEEL_CACHE")
except UntrustedCacheError as error:
    print(error.why)
else:
    print("trusted")
"""


@pytest.fixture
def cache() -> Iterator[Path]:
    """One that every user can get to; what lies in pytest's own folders isn't."""
    require("root", "whose cache is refused")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "cache").mkdir()
        yield Path(folder) / "cache"


@pytest.fixture
def volume() -> Iterator[Path]:
    """Root's, and open to everybody without the sticky bit, as an `emptyDir` of Kubernetes."""
    require("root", "whose volume is refused")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = Path(folder) / "volume"
        made.mkdir()
        made.chmod(0o777)
        yield made


def said(cache: Path, user: int, group: int) -> str:
    """What a user hears who is in one group."""
    words: list[str | Path] = [sys.executable, "-c", _CHECK, cache, str(user), str(group)]
    return run(words, env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}).output


def test_takes_own_one(tmp_path: Path) -> None:
    check_cache(tmp_path, "CUWHEEL_CACHE")


def test_takes_one_that_is_not_there_yet(tmp_path: Path) -> None:
    check_cache(tmp_path / "new" / "cache", "CUWHEEL_CACHE")


def test_refuses_one_that_everybody_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)

    with pytest.raises(UntrustedCacheError) as caught:
        check_cache(tmp_path, "CUWHEEL_CACHE")

    assert (
        caught.value.why == f"everybody can write to {tmp_path}, and cuwheel runs programs from it"
    )
    assert "CUWHEEL_CACHE" in caught.value.fix


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    cache = tmp_path / "outer" / "cache"
    cache.mkdir(parents=True)
    return cache


def test_refuses_one_that_everybody_can_replace(inner: Path) -> None:
    inner.parent.chmod(0o777)

    with pytest.raises(UntrustedCacheError, match=f"everybody can write to {inner.parent}, and so"):
        check_cache(inner, "CUWHEEL_CACHE")


@pytest.mark.parametrize("mode", [0o1777, 0o775])
def test_takes_one_that_nobody_else_can_replace(mode: int, inner: Path) -> None:
    """As in `/tmp`, or in a folder of a group."""
    inner.parent.chmod(mode)

    check_cache(inner, "CUWHEEL_CACHE")


def test_follows_links(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "cache").symlink_to("open")

    with pytest.raises(UntrustedCacheError):
        check_cache(tmp_path / "cache", "CUWHEEL_CACHE")


@pytest.mark.parametrize(
    ("owner", "mode", "user", "heard"),
    [
        (_ME, 0o755, _ME, "trusted"),
        (0, 0o755, _ME, "trusted"),
        (_OTHER, 0o755, _ME, f"belongs to user {_OTHER}, who shares it with none of your groups"),
        (_OTHER, 0o755, 0, f"belongs to user {_OTHER}, and you are root"),
        (_OTHER, 0o2775, 0, f"belongs to user {_OTHER}, and you are root"),
        (_OTHER, 0o2775, _ME, "trusted"),
    ],
)
def test_takes_owners_and_groups_word(
    owner: int, mode: int, user: int, heard: str, cache: Path
) -> None:
    os.chown(cache, owner, _GROUP)
    cache.chmod(mode)

    assert heard in said(cache, user, _GROUP)


def test_refuses_one_of_a_group_that_is_not_ours(cache: Path) -> None:
    os.chown(cache, _OTHER, _GROUP)
    cache.chmod(0o2775)

    assert "shares it with none of your groups" in said(cache, _ME, _ME)


@pytest.mark.parametrize(
    ("owner", "mode", "heard"),
    [
        (0, 0o777, "everybody can write"),
        (0, 0o2777, "everybody can write"),  # with fsGroup
        (0, 0o1777, "trusted"),
        (_ME, 0o755, "trusted"),
    ],
)
def test_says_of_a_pods_volume_what_helps(owner: int, mode: int, heard: str, volume: Path) -> None:
    """A folder of the user's own in it doesn't; what root does to the volume does."""
    os.chown(volume, owner, _GROUP)
    volume.chmod(mode)
    own = volume / "cuwheel"
    own.mkdir(mode=0o700)
    os.chown(own, _ME, _GROUP)

    assert heard in said(own, _ME, _GROUP)
