"""Drafts from sources that are on no index."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.drafts.given_source import is_given, read_given
from cuwheel.build.drafts.upstream import Upstream
from cuwheel.build.recipe.source import Archive, Folder, GitCommit
from tests.support.build.drafts import write_tree
from tests.support.factories import commit_all, make_workspace

FILES = {"setup.py": "NAME = 'Tiny_Draft'\nsetup(name=NAME, version='1.5')\n", "x.cu": ""}


def read(text: str, folder: Path, version: str = "") -> Upstream:
    root, workspace = folder / "project", make_workspace(folder)
    upstream, tree = read_given(text, version, root, folder / "source", workspace)
    assert (tree / "x.cu").is_file()
    return upstream


@pytest.mark.parametrize("text", ["git+https://x.invalid/a@b", "a/b", "./a", "a-1.0.tar.gz"])
def test_tells_sources_from_names(text: str) -> None:
    assert is_given(text)
    assert not is_given("torch-scatter")


def test_reads_commit(tmp_path: Path) -> None:
    repository = write_tree(tmp_path / "upstream", FILES)
    commit = commit_all(repository)

    upstream = read(f"git+{repository.as_uri()}@{commit}", tmp_path)

    assert (upstream.project, upstream.version) == ("tiny-draft", "1.5")
    assert upstream.given == GitCommit(repository=repository.as_uri(), commit=commit)


def test_reads_archive(tmp_path: Path) -> None:
    tree, path = write_tree(tmp_path / "tiny", FILES), tmp_path / "v1.5.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tree, "tiny")

    upstream = read(str(path), tmp_path)

    address = path.as_uri().replace("1.5", "{version}")
    assert upstream.given == Archive(url=address, sha256=sha256_of_file(path))


def test_reads_folder_of_the_project(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "project" / "mine", {"setup.py": "setup()", "x.cu": ""})

    upstream = read(str(tree), tmp_path, "0.1")

    assert (upstream.project, upstream.version) == ("mine", "0.1")
    assert upstream.given == Folder(path="mine")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("git+https://x.invalid/a@v1.0", "git ls-remote https://x.invalid/a"),
        ("git+https://x.invalid/a", "git ls-remote https://x.invalid/a"),
        ("./nowhere", "git+https://…@COMMIT"),
        ("{folder}", "git+file://"),
    ],
)
def test_refuses_what_pins_nothing(text: str, fix: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "elsewhere", FILES)

    with pytest.raises(UsageError) as caught:
        read(text.format(folder=tree), tmp_path)

    assert fix in caught.value.fix


@pytest.mark.parametrize("text", [f"git+http://[::1/x@{'0' * 40}", "http://[::1/x-1.0.tar.gz"])
def test_names_malformed_address(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"http://\[::1/x.* is not a URL"):
        read(text, tmp_path)


def test_requests_version_that_the_build_computes(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "project" / "mine", {"setup.py": "setup(version=f())"})

    with pytest.raises(UsageError) as caught:
        read(str(tree), tmp_path)

    assert "--version" in caught.value.fix
