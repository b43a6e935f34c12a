"""A journal that isn't one of an installation: an error, and nothing is removed."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError
from cuwheel.base.system.console import silent_console
from cuwheel.check.diagnose.facts.environment import PythonEnvironment
from cuwheel.publish.install.transaction import changing, needs_recovery, recover


@pytest.fixture
def environment(tmp_path: Path) -> PythonEnvironment:
    """An environment with one file, which no interpreter has described."""
    return _environment(tmp_path / "env")


def _environment(prefix: Path) -> PythonEnvironment:
    site = prefix / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (site / "toy.py").write_text("before")
    return PythonEnvironment(
        python=prefix / "python",
        version="3.12.1",
        prefix=prefix,
        sites=(site,),
        suffixes=(),
        is_conda=False,
        markers={},
        distributions={},
        scheme=dict.fromkeys(("data", "purelib", "platlib", "scripts", "include"), site),
    )


def _kill(environment: PythonEnvironment) -> None:
    """Leave what an installation has left that was killed after it changed a file."""
    module = environment.sites[0] / "toy.py"
    aside = environment.prefix / "aside"
    with changing(environment, planned=[module], replaced=[]) as transaction:
        module.write_text("after")
        subprocess.run(["cp", "-a", transaction.folder, aside], check=True)
    aside.rename(environment.journal)


def _content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def _refused(environment: PythonEnvironment) -> InstallError:
    before = _content(environment.prefix)
    with pytest.raises(InstallError) as caught:
        recover(environment, silent_console())
    assert _content(environment.prefix) == before
    return caught.value


def test_undoes_what_was_killed(environment: PythonEnvironment) -> None:
    _kill(environment)

    recover(environment, silent_console())

    assert _content(environment.prefix) == {
        "site-packages": None,
        "site-packages/toy.py": b"before",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"new": [], "sav',
        "[]",
        "[" * 100_000,
        '{"new": [], "saved": []}',
        '{"new": [1], "saved": {}}',
        '{"new": ["toy.py"], "saved": {}}',
        '{"new": ["\\u0000"], "saved": {}}',
        '{"files": []}',
    ],
)
def test_keeps_damaged_journal(
    text: str, environment: PythonEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kill(environment)
    (environment.journal / "journal.json").write_text(text)
    monkeypatch.chdir(environment.sites[0])

    _refused(environment)


def test_keeps_journal_without_its_copies(environment: PythonEnvironment) -> None:
    _kill(environment)
    (environment.journal / "saved" / "0").unlink()

    assert "copies 0 are missing" in _refused(environment).why


@pytest.mark.parametrize("name", ["notes.txt", "saved/notes.txt"])
def test_keeps_folder_of_others(name: str, environment: PythonEnvironment) -> None:
    (environment.journal / name).parent.mkdir(parents=True)
    (environment.journal / name).write_text("mine")

    assert "notes.txt" in _refused(environment).why


def test_keeps_file_in_place_of_the_folder(environment: PythonEnvironment) -> None:
    environment.journal.write_text("mine")

    assert "it is no folder" in _refused(environment).why


def test_follows_no_link_in_place_of_the_folder(
    environment: PythonEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    environment.journal.symlink_to(tmp_path / "mine")

    assert "it is no folder" in _refused(environment).why


def test_removes_what_was_killed_before_or_after_the_change(
    environment: PythonEnvironment,
) -> None:
    for name in ("saved/0", "finished.json"):
        (environment.journal / name).parent.mkdir(parents=True, exist_ok=True)
        (environment.journal / name).write_text("{}")
        recover(environment, silent_console())

        assert not needs_recovery(environment)


def test_begins_nothing_where_a_journal_is(environment: PythonEnvironment) -> None:
    _kill(environment)

    with (
        pytest.raises(InstallError, match="interrupted meanwhile"),
        changing(environment, planned=[], replaced=[]),
    ):
        pass

    assert (environment.journal / "saved" / "0").read_text() == "before"


def test_names_command_that_keeps_the_copies_of_a_moved_environment(
    environment: PythonEnvironment, tmp_path: Path
) -> None:
    _kill(environment)
    moved = _moved(environment, tmp_path / "it's moved")

    error = _refused(moved)
    subprocess.run(shlex.split(error.fix.split("`")[1]), check=True)

    [copy] = moved.prefix.glob("cuwheel-install-1/saved/0")
    assert copy.read_text() == "before"
    assert json.loads(copy.parent.with_name("journal.json").read_text())["saved"]
    assert not needs_recovery(moved)


def _moved(environment: PythonEnvironment, to: Path) -> PythonEnvironment:
    environment.prefix.rename(to)
    changed = (to / "site-packages" / "toy.py").read_text()
    moved = _environment(to)
    (to / "site-packages" / "toy.py").write_text(changed)
    return moved
