"""Pinned sources: from an index, an address, a repository, or the project."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, SourceError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.pipeline.stages.source import source
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Sdist
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.sources import (
    COMMITTED,
    commit,
)
from tests.support.factories import make_job, make_target, make_workspace
from tests.support.servers.http import Site, serving


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


def test_takes_commit_of_repository(project: Path, workspace: Workspace) -> None:
    head = commit(project)
    pinned = GitCommit(repository=project.as_uri(), commit=head)
    (workspace.folder(".commit") / "killed").mkdir()

    tree = source(make_job(make_target(source=pinned), workspace))

    assert (tree.path / "setup.py").read_text() == "# setup.py\n"
    assert (tree.origin, tree.epoch) == (f"git+{project.as_uri()}@{head}", COMMITTED)
    assert tree.pinned
    assert not (workspace.work / ".commit").exists()


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


def test_reports_what_to_fetch_and_where_to_put_it(workspace: Workspace) -> None:
    pinned = Archive(url="http://127.0.0.1:9/tiny-1.tar.gz", sha256="a" * 64)
    started = time.monotonic()

    with pytest.raises(DownloadError) as caught:
        source(make_job(make_target(source=pinned), workspace))

    assert time.monotonic() - started < 30
    assert "http://127.0.0.1:9/tiny-1.tar.gz" in caught.value.what
    assert f"put the file at {workspace.cache / 'downloads' / ('a' * 64)}" in caught.value.fix
    assert f"`-- --source FILE` (its SHA-256 is {'a' * 64})" in caught.value.fix


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../outside", "not inside the project"),
        ("link", "not inside the project"),
        (".", "not inside the project"),
        ("chekout", "doesn't exist"),
    ],
)
def test_refuses_folder_that_is_not_inside_project(
    project: Path, workspace: Workspace, path: str, reason: str
) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "setup.py").touch()
    (project / "link").symlink_to(outside)

    with pytest.raises(SourceError, match="can't be used") as caught:
        source(make_job(make_target(source=Folder(path=path), root=project), workspace))

    assert reason in caught.value.why
