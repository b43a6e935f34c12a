"""Sources from an index, from an address, and from `--source`."""

from __future__ import annotations

import os
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import DownloadError, HashMismatchError, SourceError
from cuwheel.model.source import Archive, Folder, GitCommit, Resource, Sdist
from cuwheel.stages.source import source
from cuwheel.system.files import list_tree, sha256_of_file
from tests.support.factories import commit_all, make_job, make_target, make_workspace
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from cuwheel.workspace.workspace import Workspace

NEWEST = 1_700_000_000  # seconds since 1970
COMMITTED = 1_600_000_000


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "run")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A source tree whose newest file is setup.py."""
    folder = tmp_path / "checkout"
    (folder / "src" / "build").mkdir(parents=True)
    files = {"setup.py": NEWEST, "src/tiny.cu": NEWEST - 5, "src/build/in.cu": NEWEST - 9}
    for name, stamp in files.items():
        (folder / name).write_text(f"# {name}\n")
        os.utime(folder / name, (stamp, stamp))
    return folder


@pytest.fixture
def sdist(project: Path) -> Path:
    path = project.parent / "tiny_cuda-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in list_tree(project):
            tar.add(project / name, f"tiny_cuda-1.2.3/{name}")
    return path


def commit(folder: Path) -> str:
    return commit_all(folder, GIT_COMMITTER_DATE=f"{COMMITTED} +0000")


def resource_of(sdist: Path, **changes: Any) -> Resource:
    """A resource that is this archive, with some of its fields changed."""
    pinned = Archive(url=sdist.as_uri(), sha256=sha256_of_file(sdist))
    fields = {"name": "tiny", "source": pinned, "to": "tiny", "why": "a test", **changes}
    return Resource(**fields)


def modes_and_times(folder: Path) -> set[tuple[str, int]]:
    found = [path.stat() for path in (folder, *folder.rglob("*"))]
    return {(oct(status.st_mode), int(status.st_mtime)) for status in found}


def test_takes_sdist_from_index(
    sdist: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = sha256_of_file(sdist)
    page = f'<a href="/{sdist.name}#sha256={digest}">{sdist.name}</a>'
    site = Site(
        files={"/simple/tiny-cuda/": page.encode(), f"/{sdist.name}": sdist.read_bytes()},
    )
    target = make_target(source=Sdist(project="tiny_cuda", version="1.2.3", sha256=digest))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    with serving(site):
        monkeypatch.setenv("UV_DEFAULT_INDEX", site.url("/simple"))
        tree = source(make_job(target, workspace))

    assert (tree.path / "setup.py").read_text() == "# setup.py\n"
    assert (tree.origin, tree.sha256) == ("pkg:pypi/tiny-cuda@1.2.3", digest)
    assert tree.pinned


def test_needs_no_network_the_second_time(sdist: Path, workspace: Workspace) -> None:
    digest = sha256_of_file(sdist)
    place = workspace.cache / "downloads" / digest / sdist.name
    place.parent.mkdir(parents=True)
    place.write_bytes(sdist.read_bytes())
    pinned = Sdist(project="tiny-cuda", version="1.2.3", sha256=digest)

    tree = source(
        make_job(make_target(source=pinned), make_workspace(workspace.cache.parent), offline=True)
    )

    assert tree.sha256 == digest


def test_takes_archive_from_address(sdist: Path, workspace: Workspace) -> None:
    pinned = Archive(url=sdist.as_uri(), sha256=sha256_of_file(sdist))

    tree = source(make_job(make_target(source=pinned), workspace))

    assert (tree.origin, tree.pinned) == (sdist.as_uri(), True)


def test_gives_all_files_one_time(sdist: Path, workspace: Workspace) -> None:
    tree = source(make_job(make_target(source_override=sdist), workspace))

    assert tree.epoch == NEWEST
    assert {time for _, time in modes_and_times(workspace.work / "source")} == {NEWEST}


def test_lifts_epoch_to_what_zip_can_hold(project: Path, workspace: Workspace) -> None:
    for name in list_tree(project):
        os.utime(project / name, (0, 0))

    tree = source(make_job(make_target(source_override=project), workspace))

    assert tree.epoch == 315_619_200


def test_gives_same_tree_whatever_the_modes(project: Path, workspace: Workspace) -> None:
    (project / "setup.py").chmod(0o600)
    (project / "src").chmod(0o775)
    (project / "src" / "tiny.cu").chmod(0o777)

    tree = source(make_job(make_target(source_override=project), workspace))

    kinds = {mode for mode, _ in modes_and_times(tree.path)}
    assert kinds == {"0o100644", "0o100755", "0o40755"}


def test_marks_given_archive_as_unpinned(sdist: Path, workspace: Workspace) -> None:
    tree = source(make_job(make_target(source_override=sdist), workspace))

    assert not tree.pinned
    assert (tree.origin, tree.sha256) == (str(sdist), sha256_of_file(sdist))


def test_copies_given_folder_without_litter(project: Path, workspace: Workspace) -> None:
    for name in ("build/x.o", "dist/x.whl", ".git/HEAD", "src/__pycache__/x.pyc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / "tiny.egg-info").mkdir()
    (project / "tiny.egg-info" / "PKG-INFO").touch()

    tree = source(make_job(make_target(source_override=project), workspace))

    names = [str(name) for name in list_tree(tree.path)]
    assert names == ["setup.py", "src/build/in.cu", "src/tiny.cu"]
    assert not tree.pinned


def test_does_not_copy_work_folder_into_itself(project: Path) -> None:
    workspace = make_workspace(project / "out")
    workspace.log("build").touch()

    tree = source(make_job(make_target(source_override=project), workspace))

    assert not (tree.path / "out").exists()


def test_leaves_given_folder_as_it_is(project: Path, workspace: Workspace) -> None:
    before = modes_and_times(project)

    source(make_job(make_target(source_override=project), workspace))

    assert modes_and_times(project) == before


def test_keeps_link_inside(project: Path, workspace: Workspace) -> None:
    (project / "src" / "link.py").symlink_to("../setup.py")
    (project / "more").symlink_to("src")

    tree = source(make_job(make_target(source_override=project), workspace))

    assert (tree.path / "src" / "link.py").readlink() == Path("../setup.py")
    assert (tree.path / "more" / "tiny.cu").is_file()


def test_refuses_links_that_lead_out(project: Path, workspace: Workspace) -> None:
    (project / "secret").symlink_to("/etc/hostname")
    (project / "src" / "up").symlink_to("../..")

    with pytest.raises(SourceError) as caught:
        source(make_job(make_target(source_override=project), workspace))

    assert "secret leads out of it" in caught.value.why
    assert "src/up leads out of it" in caught.value.why


def test_takes_epoch_from_commit(project: Path, workspace: Workspace) -> None:
    commit(project)

    tree = source(make_job(make_target(source_override=project), workspace))

    assert tree.epoch == COMMITTED


def test_takes_epoch_from_files_when_some_are_changed(project: Path, workspace: Workspace) -> None:
    commit(project)
    (project / "setup.py").write_text("# changed\n")
    os.utime(project / "setup.py", (NEWEST + 1, NEWEST + 1))

    tree = source(make_job(make_target(source_override=project), workspace))

    assert tree.epoch == NEWEST + 1


def test_tells_changed_folders_apart(project: Path, workspace: Workspace) -> None:
    first = source(make_job(make_target(source_override=project), workspace))
    (project / "src" / "tiny.cu").write_text("// other\n")

    second = source(make_job(make_target(source_override=project), workspace))

    assert first.sha256 != second.sha256


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


def test_takes_commit_of_repository(project: Path, workspace: Workspace) -> None:
    head = commit(project)
    pinned = GitCommit(repository=project.as_uri(), commit=head)

    tree = source(make_job(make_target(source=pinned), workspace))

    assert (tree.path / "setup.py").read_text() == "# setup.py\n"
    assert (tree.origin, tree.epoch) == (f"git+{project.as_uri()}@{head}", COMMITTED)
    assert tree.pinned


def test_leaves_no_tar_of_commit(project: Path, workspace: Workspace) -> None:
    pinned = GitCommit(repository=project.as_uri(), commit=commit(project))
    (workspace.work / ".commit" / "killed").mkdir(parents=True)

    source(make_job(make_target(source=pinned), workspace))

    assert [path.name for path in workspace.work.iterdir()] == ["source"]


def test_refuses_file_under_name_of_commit(
    project: Path, sdist: Path, workspace: Workspace
) -> None:
    pinned = GitCommit(repository="http://127.0.0.1:9/checkout", commit=commit(project))
    place = workspace.cache / "downloads" / f"git-{pinned.commit}"
    place.mkdir(parents=True)
    for suffix in ("tar", "pack"):
        (place / f"checkout-{pinned.commit}.{suffix}").write_bytes(sdist.read_bytes())

    with pytest.raises(DownloadError, match="is not in the cache"):
        source(
            make_job(
                make_target(source=pinned), make_workspace(workspace.cache.parent), offline=True
            )
        )

    assert not (workspace.work / "source").exists()


def test_says_what_to_fetch_and_where_to_put_it(workspace: Workspace) -> None:
    pinned = Archive(url="http://127.0.0.1:9/tiny-1.tar.gz", sha256="a" * 64)
    started = time.monotonic()

    with pytest.raises(DownloadError) as caught:
        source(make_job(make_target(source=pinned), workspace))

    assert time.monotonic() - started < 30
    assert "http://127.0.0.1:9/tiny-1.tar.gz" in caught.value.what
    assert f"put the file at {workspace.cache / 'downloads' / ('a' * 64)}" in caught.value.fix
    assert f"`-- --source FILE` (its SHA-256 is {'a' * 64})" in caught.value.fix


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
    assert (tree.path, tree.sha256, tree.epoch) == (given.path, given.sha256, NEWEST)
    assert (tree.origin, tree.pinned) == (path, True)


def test_takes_time_of_folder_from_commit_of_project(project: Path, workspace: Workspace) -> None:
    commit(project.parent)

    tree = source(
        make_job(make_target(source=Folder(path="checkout"), root=project.parent), workspace)
    )

    assert tree.epoch == COMMITTED


def test_takes_given_source_before_folder(project: Path, sdist: Path, workspace: Workspace) -> None:
    own = Folder(path="checkout")

    tree = source(
        make_job(make_target(source=own, root=project.parent, source_override=sdist), workspace)
    )

    assert (tree.origin, tree.pinned) == (str(sdist), False)


def test_refuses_missing_folder_of_project(project: Path, workspace: Workspace) -> None:
    with pytest.raises(SourceError) as caught:
        source(make_job(make_target(source=Folder(path="chekout"), root=project.parent), workspace))

    assert 'Folder(path="chekout")' in caught.value.what
    assert caught.value.why == f"there is no folder {project.parent / 'chekout'}"


@pytest.mark.parametrize("path", ["../outside", "link", "."])
def test_refuses_folder_that_is_not_inside_project(
    project: Path, workspace: Workspace, path: str
) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "setup.py").touch()
    (project / "link").symlink_to(outside)

    with pytest.raises(SourceError, match="can't be used") as caught:
        source(make_job(make_target(source=Folder(path=path), root=project), workspace))

    assert "not inside the project" in caught.value.why


def test_refuses_folder_without_package(project: Path, workspace: Workspace) -> None:
    with pytest.raises(SourceError, match="src holds no Python package"):
        source(make_job(make_target(source=Folder(path="src"), root=project), workspace))
