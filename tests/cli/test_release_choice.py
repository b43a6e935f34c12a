"""A release on a command line that its recipe doesn't pin, from a local index."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import DownloadError, LockError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.build.recipe.source import Archive
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.cli.release_choice import at_release
from cuwheel.cli.target_choice import requested_targets
from tests.support.build.drafts import Index
from tests.support.build.patched_sources import SETUP
from tests.support.build.updates import Project, make_updated

_ONLINE, _OFFLINE = BuildRequest(), BuildRequest(offline=True)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    made = Index(folder=tmp_path / "simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", made.url)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def project(tmp_path: Path, index: Index) -> Project:
    """A recipe that pins 1.0 of two releases."""
    return make_updated(tmp_path, index, SETUP)


@pytest.fixture
def caller(tmp_path: Path, project: Project) -> Caller:
    folders = {"CUWHEEL_CACHE": str(tmp_path / "cache"), "CUWHEEL_PROJECT": str(project.root)}
    return Caller({**os.environ, **folders})


def test_takes_the_sdist_of_the_index(project: Project, caller: Caller, index: Index) -> None:
    entry, request = at_release(project.entry, "2.0", _ONLINE, Console(), caller)

    assert entry.recipe is not None
    assert entry.recipe.version == "2.0"
    assert request.source is not None
    digest = hashlib.sha256(request.source.read_bytes()).hexdigest()
    page = (index.folder / "tiny-up" / "index.html").read_text()
    assert digest in page


def test_knows_the_sdist_without_the_index_next_time(project: Project, caller: Caller) -> None:
    with pytest.raises(LockError):
        at_release(project.entry, "2.0", _OFFLINE, Console(), caller)
    first = at_release(project.entry, "2.0", _ONLINE, Console(), caller)

    assert at_release(project.entry, "2.0", _OFFLINE, Console(), caller)[1].source == (
        first[1].source
    )


def test_leaves_the_recipes_own_release(project: Project, caller: Caller) -> None:
    entry, request = at_release(project.entry, "1.0", _OFFLINE, Console(), caller)

    assert (entry, request) == (project.entry, _OFFLINE)


def test_takes_the_source_that_is_given(project: Project, caller: Caller, tmp_path: Path) -> None:
    own = BuildRequest(source=tmp_path)

    entry, request = at_release(project.entry, "3.0", own, Console(), caller)

    assert entry.recipe is not None
    assert (entry.recipe.version, request) == ("3.0", own)


def test_takes_the_newest_toolkit(caller: Caller) -> None:
    request = BuildRequest(targets=("tiny-up==2.0", "tiny_up-130==2.0"))

    found = [(entry.recipe, tag) for entry, tag, _ in requested_targets(request, Console(), caller)]

    assert [(recipe.version, tag) for recipe, tag in found if recipe] == [("2.0", "130")] * 2


@pytest.mark.parametrize(("version", "kind"), [("9.9", DownloadError), ("new", UsageError)])
def test_refuses_what_is_no_release(
    version: str, kind: type[Exception], project: Project, caller: Caller
) -> None:
    with pytest.raises(kind):
        at_release(project.entry, version, _ONLINE, Console(), caller)


def test_names_the_declaration_in_the_way(project: Project, caller: Caller) -> None:
    entry = project.entry
    assert entry.recipe is not None
    recipe = dataclasses.replace(entry.recipe, source=Archive(url="u", sha256="0" * 64))

    with pytest.raises(UsageError) as caught:
        at_release(dataclasses.replace(entry, recipe=recipe), "2.0", _ONLINE, Console(), caller)

    assert caught.value.why.startswith("`source` in recipes/tiny_up.py")
