"""Source trees as the stage source copies them: their files and times."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cuwheel.base.errors import SourceError
from cuwheel.base.formats.wheel.publication import WHEEL_FOLDER
from cuwheel.base.system.files import list_tree
from cuwheel.base.system.folders.output_folder import claim
from cuwheel.base.system.process import run
from cuwheel.build.inputs.tree import (
    FOLDER_EPOCH,
    describe_source_change,
    identify,
    read_source_state,
)
from cuwheel.build.pipeline.stages.source import source
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.sources import NEWEST, commit, make_sdist, modes_and_times
from tests.support.factories import make_job, make_target, make_workspace


@pytest.mark.parametrize(("time", "epoch"), [(NEWEST, NEWEST), (0, 315_619_200)])
def test_gives_all_files_one_time_that_zip_can_hold(
    time: int, epoch: int, project: Path, workspace: Workspace
) -> None:
    for name in list_tree(project):
        os.utime(project / name, (time, time))

    tree = source(make_job(make_target(source_override=make_sdist(project)), workspace))

    assert tree.epoch == epoch
    assert {time for _, time in modes_and_times(workspace.work / "source")} == {epoch}


def test_gives_same_tree_whatever_the_modes(project: Path, workspace: Workspace) -> None:
    (project / "setup.py").chmod(0o600)
    (project / "src").chmod(0o775)
    (project / "src" / "tiny.cu").chmod(0o777)

    tree = source(make_job(make_target(source_override=project), workspace))

    kinds = {mode for mode, _ in modes_and_times(tree.path)}
    assert kinds == {"0o100644", "0o100755", "0o40755"}


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


def test_does_not_copy_folders_of_builds(project: Path) -> None:
    """This one's own, and earlier ones'; a marker of something else hides no source."""
    before = identify(project)
    workspace = make_workspace(project / "out")
    earlier = make_workspace(project, work=project / "x" / "tiny-130")
    for each in (workspace, earlier):
        each.log("build").touch()
        each.lock.touch()
    claim(project / "wheels", WHEEL_FOLDER)
    (project / "wheels" / "tiny-1.0-py3-none-any.whl").touch()

    tree = source(make_job(make_target(source_override=project), workspace))

    assert {path.name for path in tree.path.iterdir()} == {"setup.py", "src"}
    assert identify(project, without=workspace.folders) == before
    (project / "src" / ".cuwheel-folder.json").write_text('{"kind": 1}')
    assert identify(project, without=workspace.folders) != before


def test_keeps_link_inside(project: Path, workspace: Workspace) -> None:
    """Broken ones too, which a package may well bring."""
    (project / "src" / "link.py").symlink_to("../setup.py")
    (project / "more").symlink_to("src")
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")

    tree = source(make_job(make_target(source_override=project), workspace))

    assert (tree.path / "src" / "link.py").readlink() == Path("../setup.py")
    assert (tree.path / "more" / "tiny.cu").is_file()
    assert (tree.path / "a").readlink() == Path("b")


def test_refuses_links_that_lead_out(project: Path, workspace: Workspace) -> None:
    (project / "secret").symlink_to("/etc/hostname")
    (project / "src" / "up").symlink_to("../..")

    with pytest.raises(SourceError) as caught:
        source(make_job(make_target(source_override=project), workspace))

    assert "secret leads outside of it" in caught.value.why
    assert "src/up leads outside of it" in caught.value.why


def test_gives_same_tree_from_clone_and_copies(project: Path, workspace: Workspace) -> None:
    """Of a clone at an old commit, of an archive of it unpacked today, and of a plain copy."""
    commit(project)
    clone, unpacked, copied = (project.parent / name for name in ("clone", "unpacked", "copied"))
    unpacked.mkdir()
    for command in (
        ("git", "clone", "-q", project, clone),
        ("git", "-C", project, "archive", "-o", "../all.tar", "HEAD"),
        ("tar", "-x", "--touch", "-C", unpacked, "-f", project.parent / "all.tar"),
    ):
        run(command, env=os.environ)
    shutil.copytree(project, copied, copy_function=shutil.copy)

    trees = [
        source(make_job(make_target(source_override=folder), workspace))
        for folder in (project, clone, unpacked, copied)
    ]

    assert {(tree.sha256, tree.epoch) for tree in trees} == {(trees[0].sha256, FOLDER_EPOCH)}
    assert len({identify(folder) for folder in (project, clone, unpacked, copied)}) == 1


def test_describes_changes_since_the_last_build(project: Path) -> None:
    before = read_source_state(project)
    (project / "build").mkdir()
    (project / "build" / "x.o").touch()
    assert describe_source_change(before, read_source_state(project)) == ""
    (project / "setup.py").write_text("other")
    (project / "src" / "tiny.cu").unlink()
    for number in range(5):
        (project / "src" / f"n{number}.cu").touch()

    change = describe_source_change(before, read_source_state(project))

    assert change == (
        "1 file changed: setup.py; 5 files new: src/n0.cu, src/n1.cu, src/n2.cu and 2 more; "
        "1 file gone: src/tiny.cu"
    )


def test_names_commits_since_the_last_build(project: Path) -> None:
    first = commit(project)[:12]
    before = read_source_state(project)
    (project / "src" / "tiny.cu").write_text("other")
    second = commit(project)[:12]

    change = describe_source_change(before, read_source_state(project))

    assert first != second
    assert change == f"commit {first} -> {second}; 1 file changed: src/tiny.cu"
