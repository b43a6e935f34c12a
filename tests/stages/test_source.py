"""Sources from an index, from an address, and from `--source`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import DownloadError, HashMismatchError, SourceError
from cuwheel.model.source import Archive, Folder, GitCommit, Resource
from cuwheel.sources.tree import FOLDER_EPOCH
from cuwheel.stages.source import source
from cuwheel.system.files import sha256_of_file
from tests.support.factories import make_job, make_target, make_workspace
from tests.support.sourced import (
    commit,
    make_project,
    make_sdist,
    modes_and_times,
    resource_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "run")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture
def sdist(project: Path) -> Path:
    return make_sdist(project)


def test_marks_given_archive_as_unpinned(sdist: Path, workspace: Workspace) -> None:
    tree = source(make_job(make_target(source_override=sdist), workspace))

    assert not tree.pinned
    assert (tree.origin, tree.sha256) == (str(sdist), sha256_of_file(sdist))


def test_leaves_given_folder_as_it_is(project: Path, workspace: Workspace) -> None:
    before = modes_and_times(project)

    source(make_job(make_target(source_override=project), workspace))

    assert modes_and_times(project) == before


def test_removes_what_a_killed_run_left(sdist: Path, workspace: Workspace) -> None:
    workspace.folder(".source.killed")

    source(make_job(make_target(source_override=sdist), workspace))

    assert [path.name for path in workspace.work.iterdir()] == ["source"]


def test_refuses_missing_source(tmp_path: Path, workspace: Workspace) -> None:
    with pytest.raises(SourceError, match="nothing-here"):
        source(make_job(make_target(source_override=tmp_path / "nothing-here"), workspace))


def test_refuses_source_without_package(tmp_path: Path, workspace: Workspace) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README").touch()

    with pytest.raises(SourceError, match="no Python package"):
        source(make_job(make_target(source_override=tmp_path / "empty"), workspace))


def test_unpacks_archive_of_any_name(sdist: Path, workspace: Workspace) -> None:
    odd = sdist.rename(sdist.with_name("v1.2.3 (final)"))
    digest = sha256_of_file(odd)

    tree = source(make_job(make_target(source=Archive(url=odd.as_uri(), sha256=digest)), workspace))

    assert (tree.path / "setup.py").is_file()


def test_unpacks_resource_without_its_top_folder(
    project: Path, sdist: Path, workspace: Workspace
) -> None:
    target = make_target(source_override=project, resources=(resource_of(sdist),))

    tree = source(make_job(target, workspace))

    assert (workspace.work / "resources" / "tiny" / "setup.py").read_text() == "# setup.py\n"
    assert tree.resources == (("tiny", sdist.as_uri(), sha256_of_file(sdist)),)
    assert sorted(path.name for path in (workspace.work / "resources").iterdir()) == ["tiny"]


def test_places_resource_as_it_is(project: Path, sdist: Path, workspace: Workspace) -> None:
    plain = resource_of(sdist, to="deep/tiny.tgz", unpack=False)

    source(make_job(make_target(source_override=project, resources=(plain,)), workspace))

    assert (workspace.work / "resources/deep/tiny.tgz").read_bytes() == sdist.read_bytes()


def test_takes_resource_from_repository(project: Path, workspace: Workspace) -> None:
    head = commit(project)
    pinned = GitCommit(repository=project.as_uri(), commit=head)
    resource = Resource(name="tiny", source=pinned, to="tiny", why="a test")

    tree = source(make_job(make_target(source_override=project, resources=(resource,)), workspace))

    assert (workspace.work / "resources/tiny/src/tiny.cu").is_file()
    assert tree.resources[0][1] == f"git+{project.as_uri()}@{head}"


def test_gives_resources_the_time_of_the_source(
    project: Path, sdist: Path, workspace: Workspace
) -> None:
    tree = source(
        make_job(make_target(source_override=project, resources=(resource_of(sdist),)), workspace)
    )

    times = {time for _, time in modes_and_times(workspace.work / "resources")}
    assert times == {tree.epoch}


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


def test_forgets_resources_of_the_run_before(
    project: Path, sdist: Path, workspace: Workspace
) -> None:
    source(
        make_job(make_target(source_override=project, resources=(resource_of(sdist),)), workspace)
    )

    source(make_job(make_target(source_override=project), workspace))

    assert not (workspace.work / "resources").exists()


@pytest.mark.parametrize("path", ["checkout", "./checkout/"])
def test_takes_folder_of_project(project: Path, workspace: Workspace, path: str) -> None:
    target = make_target(source=Folder(path=path), root=project.parent)

    tree = source(make_job(target, workspace))

    given = source(make_job(make_target(source_override=project), workspace))
    assert (tree.path, tree.sha256, tree.epoch) == (given.path, given.sha256, FOLDER_EPOCH)
    assert (tree.origin, tree.pinned) == (path, True)


def test_takes_given_source_before_folder(project: Path, sdist: Path, workspace: Workspace) -> None:
    own = Folder(path="checkout")

    tree = source(
        make_job(make_target(source=own, root=project.parent, source_override=sdist), workspace)
    )

    assert (tree.origin, tree.pinned) == (str(sdist), False)


def test_refuses_folder_without_package(project: Path, workspace: Workspace) -> None:
    with pytest.raises(SourceError, match="src contains no Python package"):
        source(make_job(make_target(source=Folder(path="src"), root=project), workspace))
