"""The declarations of what a package is built from: sources, resources, patches."""

from __future__ import annotations

from dataclasses import dataclass

from cuwheel.base.system.quantities import MIB

SOURCE_PLACEHOLDERS = ("version",)  # those in `Recipe.source`


@dataclass(frozen=True, kw_only=True)
class Sdist:
    """A source distribution from the package index that pip is configured for.

    Attributes:
        project: the project's name on the index.
        sha256: of the `.tar.gz`, 64 hexadecimal digits.
        version: the release, if it isn't the recipe's.
        max_size: bytes; a larger download is refused.
    """

    project: str
    sha256: str
    version: str = "{version}"
    max_size: int = 512 * MIB


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A source archive from upstream's own URL.

    Attributes:
        url: http(s) or file, with `{version}`.
        sha256: of the archive, 64 hexadecimal digits.
        max_size: bytes; a larger download is refused.
    """

    url: str
    sha256: str
    max_size: int = 512 * MIB


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A source in the project folder itself, next to the recipes.

    Attributes:
        path: relative to the project folder, e.g. `samples/cutensornet`.
    """

    path: str


@dataclass(frozen=True, kw_only=True)
class GitCommit:
    """One commit of a git repository, fetched with the machine's `git`, without submodules.

    Attributes:
        repository: http(s) or file.
        commit: its full id, 40 hexadecimal digits; every fetched, cached or mirrored copy is
            verified against it each time it is used.
        sha256: of the tar that `git archive` makes of the commit, 64 hexadecimal digits; empty:
            the id is enough.
    """

    repository: str
    commit: str
    sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class Resource:
    """Something besides the source that the package's build would otherwise download.

    It is downloaded and verified with the source; the build finds it at `{resources}/<to>`.

    Attributes:
        name: what it is, for messages and the provenance.
        source: where it comes from.
        to: its place, relative to the folder of all resources.
        why: the reason, one line.
        unpack: True: `to` is a folder with the archive's contents, without its single top folder;
            False: `to` is the file itself.
    """

    name: str
    source: Archive | GitCommit
    to: str
    why: str
    unpack: bool = True


@dataclass(frozen=True, kw_only=True)
class Patch:
    """One file of `patches/<recipe>/`.

    Attributes:
        file: its name, `0001-<what-it-does>.patch`.
        why: the reason, one line.
        toolkits: the CUDA releases that it applies to; empty: all of the recipe's.
    """

    file: str
    why: str
    toolkits: tuple[str, ...] = ()


Source = Sdist | Archive | GitCommit | Folder
