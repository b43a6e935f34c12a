"""The project of a command: its recipes, and the place of its results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.base import paths
from cuwheel.base.caller import Caller, read_caller
from cuwheel.base.paths import ROOT, find_project
from tests.support.lint.environ_readers import is_offence


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.environ['PATH']",
        "import os; os.getenv('PATH')",
        "from os import environ",
        "def run(environ=os.environ): ...",
        "from cuwheel.base.caller import Caller, read_caller",
    ],
)
def test_lint_finds_readers_of_variables(code: str) -> None:
    assert is_offence(code)


def test_caller_keeps_the_variables_that_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", "/before")
    caller = read_caller()
    monkeypatch.setenv("CUWHEEL_CACHE", "/after")

    assert caller.environ["CUWHEEL_CACHE"] == "/before"
    assert caller.cache == Path("/before")
    assert "CUWHEEL_CACHE" not in repr(caller)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder without recipes, as if cuwheel were installed there."""
    monkeypatch.setattr(paths, "ROOT", tmp_path / "site")
    monkeypatch.delenv("CUWHEEL_PROJECT", raising=False)
    return tmp_path / "site"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "recipes").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "deeper").mkdir(parents=True)
    return tmp_path / "project"


@pytest.mark.usefixtures("project")
def test_checkout_is_its_own_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("CUWHEEL_PROJECT", raising=False)

    assert (find_project(), Caller(os.environ).roots) == (ROOT, (ROOT,))


@pytest.mark.parametrize("below", [".", "deep", "deep/deeper"])
def test_finds_project_upwards(
    installed: Path, project: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.chdir(project / below)

    assert find_project() == Caller(os.environ).project == project
    assert Caller(os.environ).roots == (project, installed)


def test_there_may_be_none(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_project() is None
    assert Caller(os.environ).project == tmp_path
    assert Caller(os.environ).roots == (installed,)


def test_named_projects_come_first(
    installed: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "other"))
    monkeypatch.chdir(project)

    assert Caller(os.environ).roots == (tmp_path / "other", project, installed)
    assert Caller(os.environ).project == project


@pytest.mark.usefixtures("installed")
def test_takes_no_recipes_of_strangers_above(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every user who can write into /tmp could have code run there."""
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    monkeypatch.setattr(paths, "_ROOT_USER", 4712)

    monkeypatch.chdir(project / "deep")
    assert find_project() is None

    monkeypatch.chdir(project)
    assert find_project() == project

    project.chmod(0o1777)  # as /tmp
    assert find_project() is None


@pytest.mark.usefixtures("installed")
def test_takes_no_link_of_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in /tmp could lead to scripts of root's that aren't recipes."""
    (tmp_path / "public" / "deep").mkdir(parents=True)
    link = tmp_path / "public" / "recipes"
    link.symlink_to("/usr")
    if os.getuid() == 0:
        os.lchown(link, 4711, -1)
    monkeypatch.setattr(os, "getuid", lambda: 4712)

    monkeypatch.chdir(tmp_path / "public" / "deep")

    assert find_project() is None


def test_shows_path_as_it_is_typed_where_nox_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path / "here"))

    assert Caller(os.environ).shown(tmp_path / "here" / "dist") == "dist"
    assert Caller(os.environ).shown(tmp_path / "dist") == f"{tmp_path}/dist"
