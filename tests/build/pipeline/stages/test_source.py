"""Sources from an index, from an address, and from `--source`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import DownloadError, HashMismatchError, SourceError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.build.inputs.tree import FOLDER_EPOCH
from cuwheel.build.pipeline.stages.source import source
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Resource
from cuwheel.build.workspace.records import SourceTree
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.sources import (
    commit,
    make_project,
    make_sdist,
    modes_and_times,
    resource_of,
)
from tests.support.factories import heard, make_job, make_target, make_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "run")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture
def sdist(project: Path) -> Path:
    return make_sdist(project)


def fetch(workspace: Workspace, **changes: Any) -> SourceTree:
    """Run the stage for a target with these changes."""
    return source(make_job(make_target(**changes), workspace))


def test_takes_given_archive_of_any_name_before_the_recipes_source(
    project: Path, sdist: Path, workspace: Workspace
) -> None:
    odd = sdist.rename(sdist.with_name("v1.2.3 (final)"))
    folder = Folder(path="checkout")

    tree = fetch(workspace, source=folder, root=project.parent, source_override=odd)

    assert (tree.path / "setup.py").is_file()
    assert (tree.origin, tree.sha256, tree.pinned) == (str(odd), sha256_of_file(odd), False)


def test_leaves_given_folder_as_it_is(project: Path, workspace: Workspace) -> None:
    before = modes_and_times(project)

    fetch(workspace, source_override=project)

    assert modes_and_times(project) == before


def test_removes_what_a_killed_run_left(sdist: Path, workspace: Workspace) -> None:
    workspace.folder(".source.killed.cuwheel-part")

    fetch(workspace, source_override=sdist)

    assert sorted(path.name for path in workspace.work.iterdir()) == [MARKER, "source"]


def test_refuses_missing_source(tmp_path: Path, workspace: Workspace) -> None:
    with pytest.raises(SourceError, match="nothing-here"):
        fetch(workspace, source_override=tmp_path / "nothing-here")


def test_unpacks_resource_without_its_top_folder(
    project: Path, sdist: Path, workspace: Workspace
) -> None:
    """It has the source's time, and the next run without it leaves none."""
    tree = fetch(workspace, source_override=project, resources=(resource_of(sdist),))

    folder = workspace.work / "resources"
    assert (folder / "tiny" / "setup.py").read_text() == "# setup.py\n"
    assert tree.resources == (("tiny", sdist.as_uri(), sha256_of_file(sdist)),)
    assert sorted(path.name for path in folder.iterdir()) == ["tiny"]
    assert {time for _, time in modes_and_times(folder)} == {tree.epoch}
    fetch(workspace, source_override=project)
    assert not folder.exists()


def test_places_resource_as_it_is(project: Path, sdist: Path, workspace: Workspace) -> None:
    plain = resource_of(sdist, to="deep/tiny.tgz", unpack=False)

    fetch(workspace, source_override=project, resources=(plain,))

    assert (workspace.work / "resources/deep/tiny.tgz").read_bytes() == sdist.read_bytes()


def test_takes_resource_from_repository(project: Path, workspace: Workspace) -> None:
    head = commit(project)
    pinned = GitCommit(repository=project.as_uri(), commit=head)
    resource = Resource(name="tiny", source=pinned, to="tiny", why="a test")

    tree = fetch(workspace, source_override=project, resources=(resource,))

    assert (workspace.work / "resources/tiny/src/tiny.cu").is_file()
    assert tree.resources[0][1] == f"git+{project.as_uri()}@{head}"


def test_refuses_resource_with_other_hash(project: Path, sdist: Path, workspace: Workspace) -> None:
    wrong = Archive(url=sdist.as_uri(), sha256="b" * 64)
    target = make_target(source_override=project, resources=(resource_of(sdist, source=wrong),))

    with pytest.raises(HashMismatchError):
        source(make_job(target, workspace))


def test_names_resource_that_can_not_be_had(project: Path, sdist: Path) -> None:
    lost = Archive(url="http://127.0.0.1:9/lost.tar.gz", sha256="c" * 64)
    target = make_target(source_override=project, resources=(resource_of(sdist, source=lost),))

    with pytest.raises(DownloadError) as caught:
        source(make_job(target, make_workspace(project.parent / "run"), offline=True))

    assert "it is the resource tiny" in caught.value.fix


@pytest.mark.parametrize("path", ["checkout", "./checkout/"])
def test_takes_folder_of_project(project: Path, workspace: Workspace, path: str) -> None:
    """It is pinned like the recipe, so nothing marks the wheel."""
    target = make_target(source=Folder(path=path), root=project.parent)

    tree = source(make_job(target, workspace))

    override = fetch(workspace, source_override=project)
    assert (tree.path, tree.sha256, tree.epoch) == (override.path, override.sha256, FOLDER_EPOCH)
    assert (tree.origin, tree.pinned, tree.mark) == (path, True, "")


def test_refuses_folder_without_package(project: Path, workspace: Workspace) -> None:
    with pytest.raises(SourceError, match="src contains no Python package"):
        fetch(workspace, source=Folder(path="src"), root=project)


def test_takes_only_what_git_tracks(project: Path, workspace: Workspace) -> None:
    commit(project)
    (project / ".env").write_text("TOKEN=secret")

    tree = fetch(workspace, source_override=project)

    assert not (tree.path / ".env").exists()
    assert ".env" in heard(workspace)


def test_states_commit_and_changes_of_given_checkout(project: Path, workspace: Workspace) -> None:
    plain = fetch(workspace, source_override=project)
    head = commit(project)
    unchanged = fetch(workspace, source_override=project)
    (project / "setup.py").write_text("# other\n")

    tree = fetch(workspace, source_override=project)

    assert plain.state == "a folder, not under version control"
    assert plain.mark == unchanged.mark == f"h{plain.sha256[:12]}"
    assert (unchanged.commit, unchanged.state) == (head, f"commit {head[:12]}, unchanged")
    assert tree.state == f"commit {head[:12]}, 1 file changed: setup.py"


def test_marks_other_archive_than_the_recipes(sdist: Path, workspace: Workspace) -> None:
    digest = sha256_of_file(sdist)
    pinned = Archive(url="https://example.invalid/x.tar.gz", sha256=digest)

    same = fetch(workspace, source=pinned, source_override=sdist)
    other = fetch(workspace, source_override=sdist)

    assert (same.mark, other.mark) == ("", f"h{digest[:12]}")


def test_refuses_tracked_file_that_became_a_fifo(project: Path, workspace: Workspace) -> None:
    commit(project)
    (project / "setup.py").unlink()
    os.mkfifo(project / "setup.py")

    with pytest.raises(SourceError, match="could not be copied"):
        fetch(workspace, source_override=project)
