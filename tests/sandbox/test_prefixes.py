"""What of a prefix is shown: all of a Python's own, of a home folder no more than programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.sandbox.backends import Mount
from cuwheel.sandbox.prefixes import interpreter_mounts, prefix_mounts


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


@pytest.mark.parametrize("is_relative", [False, True])
def test_follows_links_to_a_linked_prefix(home: Path, *, is_relative: bool) -> None:
    """As uv has it: `~/.local/bin/python3` leads to a release by its short name."""
    real = make_python(home / "pythons" / "3.12.4").parent.parent
    alias = real.with_name("3.12")
    alias.symlink_to(real.name)
    (real / "bin" / "python").symlink_to("python3")
    link = home / ".local" / "bin" / "python"
    link.parent.mkdir(parents=True)
    named = alias / "bin" / "python"
    said = Path(os.path.relpath(named, link.parent)) if is_relative else named
    link.symlink_to(said)

    shown = list(interpreter_mounts(link))

    assert shown == [
        Mount(source=real, target=real),
        Mount(source=said, target=link, kind="link"),
        Mount(source=real, target=alias),
    ]


def test_shows_a_prefix_under_another_name(home: Path, tmp_path: Path) -> None:
    prefix = make_python(home).parent.parent

    shown = [mount.target for mount in prefix_mounts(prefix, tmp_path / "python")]

    assert shown == [tmp_path / "python" / "bin", tmp_path / "python" / "lib"]
