"""Source trees as the stage source copies them: what counts, whose time they get."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import SourceError
from cuwheel.sources.tree import FOLDER_EPOCH, identify
from cuwheel.stages.source import source
from cuwheel.system.files import list_tree
from cuwheel.system.process import run
from tests.support.factories import make_job, make_target, make_workspace
from tests.support.sourced import NEWEST, commit, make_sdist, modes_and_times

if TYPE_CHECKING:
    from cuwheel.workspace.workspace import Workspace


def test_gives_all_files_one_time(sdist: Path, workspace: Workspace) -> None:
    tree = source(make_job(make_target(source_override=sdist), workspace))

    assert tree.epoch == NEWEST
    assert {time for _, time in modes_and_times(workspace.work / "source")} == {NEWEST}


def test_lifts_epoch_to_what_zip_can_hold(project: Path, workspace: Workspace) -> None:
    for name in list_tree(project):
        os.utime(project / name, (0, 0))

    tree = source(make_job(make_target(source_override=make_sdist(project)), workspace))

    assert tree.epoch == 315_619_200


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


def test_does_not_copy_work_folder_into_itself(project: Path) -> None:
    workspace = make_workspace(project / "out")
    workspace.log("build").touch()

    tree = source(make_job(make_target(source_override=project), workspace))

    assert not (tree.path / "out").exists()


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


def test_tells_changed_folders_apart(project: Path, workspace: Workspace) -> None:
    first = source(make_job(make_target(source_override=project), workspace))
    (project / "src" / "tiny.cu").write_text("// other\n")

    second = source(make_job(make_target(source_override=project), workspace))

    assert first.sha256 != second.sha256
