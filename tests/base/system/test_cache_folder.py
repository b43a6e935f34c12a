"""Owners and permissions of a cache, as root and as an ordinary user."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import FileAccessError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.cache_folder import check_cache
from cuwheel.base.system.process import run
from tests.support.machines.ordinary_user import let_in
from tests.support.requirements import require

_ME, _OTHER = 4001, 4002  # users without files on a machine
_GROUP = 4100

_CHECK = """
import os, sys
from pathlib import Path
from cuwheel.base.errors import FileAccessError
from cuwheel.base.system.cache_folder import check_cache
user, group = map(int, sys.argv[2:])
os.setgroups([group])
os.setresgid(group, group, group)
os.setresuid(user, user, user)
try:
    check_cache(Path(sys.argv[1]), "CUWHEEL_CACHE")
except FileAccessError as error:
    print(error.why)
else:
    print("trusted")
"""


@pytest.fixture
def cache() -> Iterator[Path]:
    """A cache that every user can reach, unlike pytest's own folders."""
    require("root", "owners of refused caches")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        let_in(Path(folder).parent)
        (Path(folder) / "cache").mkdir()
        yield Path(folder) / "cache"


@pytest.fixture
def volume() -> Iterator[Path]:
    """Root's folder, open to everybody without the sticky bit, as an `emptyDir` of Kubernetes."""
    require("root", "owners of refused volumes")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        let_in(Path(folder).parent)
        path = Path(folder) / "volume"
        path.mkdir()
        path.chmod(0o777)
        yield path


def check_as(cache: Path, user: int, group: int) -> str:
    """Return the result for a user in one group."""
    argv: list[str | Path] = [sys.executable, "-c", _CHECK, cache, str(user), str(group)]
    return run(argv, env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}).output


def test_takes_own_and_new_cache(tmp_path: Path) -> None:
    check_cache(tmp_path, "CUWHEEL_CACHE")
    check_cache(tmp_path / "new" / "cache", "CUWHEEL_CACHE")


def test_refuses_cache_that_everybody_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)

    with pytest.raises(FileAccessError) as caught:
        check_cache(tmp_path, "CUWHEEL_CACHE")

    assert caught.value.why.startswith(f"everybody can write to {tmp_path}, ")
    assert "CUWHEEL_CACHE" in caught.value.fix


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    cache = tmp_path / "outer" / "cache"
    cache.mkdir(parents=True)
    return cache


def test_refuses_cache_that_everybody_can_replace(inner: Path) -> None:
    inner.parent.chmod(0o777)

    with pytest.raises(FileAccessError, match=f"everybody can write to {inner.parent}, and so"):
        check_cache(inner, "CUWHEEL_CACHE")


@pytest.mark.parametrize("mode", [0o1777, 0o775])
def test_takes_cache_that_others_can_not_replace(mode: int, inner: Path) -> None:
    """As in `/tmp`, or in a folder of a group."""
    inner.parent.chmod(mode)

    check_cache(inner, "CUWHEEL_CACHE")


def test_follows_links(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "cache").symlink_to("open")

    with pytest.raises(FileAccessError):
        check_cache(tmp_path / "cache", "CUWHEEL_CACHE")


@pytest.mark.parametrize(
    ("owner", "mode", "user", "result"),
    [
        (_ME, 0o755, _ME, "trusted"),
        (0, 0o755, _ME, "trusted"),
        (_OTHER, 0o755, _ME, f"belongs to user {_OTHER}, who shares it with none of your groups"),
        (_OTHER, 0o755, 0, f"belongs to user {_OTHER}, and you are root"),
        (_OTHER, 0o2775, 0, f"belongs to user {_OTHER}, and you are root"),
        (_OTHER, 0o2775, _ME, "trusted"),
    ],
)
def test_checks_owner_and_group(owner: int, mode: int, user: int, result: str, cache: Path) -> None:
    os.chown(cache, owner, _GROUP)
    cache.chmod(mode)

    assert result in check_as(cache, user, _GROUP)


def test_refuses_cache_of_a_foreign_group(cache: Path) -> None:
    os.chown(cache, _OTHER, _GROUP)
    cache.chmod(0o2775)

    assert "shares it with none of your groups" in check_as(cache, _ME, _ME)


@pytest.mark.parametrize(
    ("owner", "mode", "result"),
    [
        (0, 0o777, "everybody can write"),
        (0, 0o2777, "everybody can write"),  # with fsGroup
        (0, 0o1777, "trusted"),
        (_ME, 0o755, "trusted"),
    ],
)
def test_mode_of_a_pods_volume_decides(owner: int, mode: int, result: str, volume: Path) -> None:
    """A folder of the user's own in it changes nothing."""
    os.chown(volume, owner, _GROUP)
    volume.chmod(mode)
    own = volume / "cuwheel"
    own.mkdir(mode=0o700)
    os.chown(own, _ME, _GROUP)

    assert result in check_as(own, _ME, _GROUP)
