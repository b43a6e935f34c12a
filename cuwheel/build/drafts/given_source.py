"""A source that is on no index: a commit of a repository, an archive, a folder of the project."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.urls import check_url, split_url
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.quantities import MIB
from cuwheel.build.drafts.upstream import Upstream
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.identity import stated_identity
from cuwheel.build.inputs.pinned import open_pinned
from cuwheel.build.recipe.source import Archive, Folder, GitCommit
from cuwheel.build.workspace.workspace import Workspace

_GIT = "git+"
_COMMIT = re.compile(r"(?P<repository>(?:https?|file)://.+)@(?P<commit>[0-9a-f]{40})")
_ARCHIVE = re.compile(r"(-v?\d[\w.]*)?\.(tar\.\w+|tgz|zip)$")  # with the version in its name
_MAX_SIZE = 512 * MIB  # of an archive, as a recipe's default
_FIX = "clone it on another machine, copy the clone, and give git+file:///CLONE@COMMIT"


def is_given(text: str) -> bool:
    """Return True for an address, a path or an archive, which are no project's name."""
    return (
        text.startswith((_GIT, "."))
        or text.endswith(".whl")
        or "/" in text
        or bool(_ARCHIVE.search(text))
    )


def read_given(
    text: str, version: str, root: Path, folder: Path, workspace: Workspace
) -> tuple[Upstream, Path]:
    """Fetch a source and unpack it.

    Args:
        text: `git+https://…@COMMIT`, an archive's address or path, or a folder's path.
        version: of the package, where its files leave it to the build; empty: they state it.
        root: of the project.
        folder: to make, for the unpacked source.

    Returns:
        The source with its identity, and the folder that holds its setup.py or pyproject.toml.

    Raises:
        UsageError: it is none of these, states no version, or is outside the project.
        CuwheelError: it can't be fetched, or isn't safe to unpack.
    """
    given: Archive | GitCommit | Folder
    if text.startswith(_GIT):
        given = _commit(text)
        with open_pinned(given, workspace, _FIX) as pinned:
            tree = unpack_archive(pinned.path, folder).top
        guess = given.repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
    elif Path(text).is_dir():
        given, tree = _folder(Path(text), root)
        guess = tree.name
    else:
        given, tree = _archive(text, folder, workspace)
        guess = _ARCHIVE.sub("", PurePosixPath(unquote(split_url(given.url).path)).name)
    name, release = stated_identity(tree)
    name, release = canonicalize_name(name or guess), version or release
    if not release:
        raise UsageError(
            f"the source of {name} doesn't state its version",
            why="its build computes it",
            fix="add it: --version 1.2.3",
        )
    if isinstance(given, Archive):
        address = given.url.replace(release, "{version}")
        given = Archive(url=address, sha256=given.sha256)
    return Upstream(project=name, version=release, sha256="", given=given), tree


def _commit(text: str) -> GitCommit:
    check_url(text.removeprefix(_GIT), "the source")
    match = _COMMIT.fullmatch(text.removeprefix(_GIT))
    if match:
        return GitCommit(**match.groupdict())
    address, _, revision = text.removeprefix(_GIT).rpartition("@")
    raise UsageError(
        f"{text} names no commit",
        why="a recipe pins a commit by its full id, 40 digits, since a branch or a tag can move",
        fix=f"write git+{address or revision}@ID; `git ls-remote {address or revision}` lists ids",
    )


def _folder(path: Path, root: Path) -> tuple[Folder, Path]:
    path, root = path.resolve(), root.resolve()
    if root in path.parents:
        return Folder(path=path.relative_to(root).as_posix()), path
    raise UsageError(
        f"{path} is not inside the project {root}",
        why="a recipe's source folder is part of its project, so that others have it too",
        fix=f"move it there, or commit it and give git+{path.as_uri()}@COMMIT",
    )


def _archive(text: str, folder: Path, workspace: Workspace) -> tuple[Archive, Path]:
    path = Path(text)
    if "://" not in text and not path.is_file():
        raise UsageError(
            f"there is no file or folder {text}",
            why="a project's name has no slash, and no ending of an archive",
            fix="write a project's name, git+https://…@COMMIT, or the path of what exists",
        )
    if text.endswith(".whl"):
        raise UsageError(
            f"{text} is a wheel, not a source",
            why="a recipe builds a wheel from the package's source",
            fix="write the project's name, or the address of its source archive or repository",
        )
    address = text if "://" in text else path.resolve().as_uri()
    check_url(address, "the source")
    name = PurePosixPath(unquote(split_url(address).path)).name or "source"
    file = folder.with_name(name)
    pinned = PinnedFile(name=name, sha256="", max_size=_MAX_SIZE)  # the draft will have its hash
    try:
        download(pinned, file, address, console=workspace.console)
    except DownloadError as error:  # its own fix names the temporary folder
        error.fix = "try again later, or download it on another machine, and give its path"
        raise
    return Archive(url=address, sha256=sha256_of_file(file)), unpack_archive(file, folder).top
