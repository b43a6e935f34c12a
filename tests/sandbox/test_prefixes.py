"""What of a prefix is shown: all of a Python's own, of a home folder no more than programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.sandbox.backends import Mount
from cuwheel.sandbox.prefixes import interpreter_mounts, prefix_mounts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make_python(prefix: Path) -> Path:
    for name in ("bin", "lib", "share"):
        (prefix / name).mkdir(parents=True)
    (prefix / "bin" / "python3").touch()
    return prefix / "bin" / "python3"


def test_shows_all_of_a_prefix_of_its_own(home: Path) -> None:
    python = make_python(home / "pythons" / "3.12")

    own = python.parent.parent

    assert list(interpreter_mounts(python)) == [Mount(source=own, target=own)]


@pytest.mark.parametrize("below", ["", ".local"])
def test_shows_only_programs_of_a_prefix_that_people_share(home: Path, below: str) -> None:
    python = make_python(home / below)
    (home / ".ssh").mkdir()

    shown = [mount.target for mount in interpreter_mounts(python)]

    assert shown == [home / below / "bin", home / below / "lib"]


def test_follows_links_to_an_interpreter(home: Path) -> None:
    python = make_python(home / "pythons" / "3.12")
    link = home / ".local" / "bin" / "python3"
    link.parent.mkdir(parents=True)
    link.symlink_to(python)

    shown = list(interpreter_mounts(link))

    prefix = python.parent.parent
    assert shown == [
        Mount(source=prefix, target=prefix),
        Mount(source=python, target=link, kind="link"),
    ]


def test_keeps_the_name_of_a_linked_prefix(home: Path) -> None:
    real = make_python(home / "3.12.4").parent.parent
    named = home / "3.12"
    named.symlink_to(real)

    shown = list(interpreter_mounts(named / "bin" / "python3"))

    assert shown == [Mount(source=real, target=real), Mount(source=real, target=named)]


def test_shows_a_prefix_under_another_name(home: Path, tmp_path: Path) -> None:
    prefix = make_python(home).parent.parent

    shown = [mount.target for mount in prefix_mounts(prefix, tmp_path / "python")]

    assert shown == [tmp_path / "python" / "bin", tmp_path / "python" / "lib"]
