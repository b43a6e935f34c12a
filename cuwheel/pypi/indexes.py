"""Find a file on the package indexes that this machine's pip and uv are configured for."""

from __future__ import annotations

import configparser
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pypi_simple
import tomli
from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion, Version

from cuwheel.errors import DownloadError, HashMismatchError, UnknownProjectError
from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.fetch.urls import is_local, redact_url
from cuwheel.pypi.pages import lacks, read_project_page, with_credentials
from cuwheel.system.files import checked_sha256
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.system.parallel import Stop


# Most specific first, as uv and pip rank them (uv's "Environment variables", pip's
# "Configuration").
_MAIN_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_MORE_VARIABLES = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")

# What a configuration file raises that can't be read, or has something else where we look.
_MALFORMED = (OSError, ValueError, configparser.Error, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, kw_only=True)
class IndexFile:
    """A file that an index offers.

    Attributes:
        name: of the file.
        url: may hold the index's user and password.
        sha256: as the index states it; empty where it doesn't.
        size: bytes; None where the index doesn't say.
    """

    name: str
    url: str
    sha256: str
    size: int | None


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of a project, as an index shows it.

    Attributes:
        version: of it.
        sdist: its source; None where it has none.
        wheels: names of its wheels.
        is_yanked: whether all of its files were withdrawn (PEP 592).
    """

    version: Version
    sdist: IndexFile | None
    wheels: tuple[str, ...]
    is_yanked: bool

    @property
    def is_final(self) -> bool:
        """Whether pip would take it without being asked for this very version."""
        return not (self.version.is_prerelease or self.is_yanked)


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What an index knows: the required file, or why it isn't it.

    Attributes:
        url: of the file; empty if it isn't there.
        reason: why not.
        others: SHA-256 of the sdists of this release that are there instead.
    """

    url: str = ""
    reason: str = ""
    others: tuple[str, ...] = ()


def find_sdist(
    project: str,
    version: str,
    sha256: str,
    *,
    indexes: Iterable[str],
    retry_policy: RetryPolicy = RETRY_POLICY,
) -> str:
    """Give the address of a release's sdist, which may hold the index's user and password.

    Args:
        project: its name.
        version: the release.
        sha256: of the sdist; where an index gives no hashes, the release's sdist is taken.
        indexes: addresses of simple indexes (PEP 503 or 691), asked in this order.
        retry_policy: how long to go on trying.

    Raises:
        DownloadError: no index has it.
        HashMismatchError: an index has this release, with another file.
    """
    answers = {}
    attempts = Attempts(retry_policy)
    for index in indexes:
        attempts.reset_count()
        page = read_project_page(index, project, attempts)
        answers[index] = (
            _Answer(reason=page) if isinstance(page, str) else _choose(index, page, version, sha256)
        )
        if answers[index].url:
            return answers[index].url
    said = "; ".join(f"{redact_url(index)}: {answer.reason}" for index, answer in answers.items())
    others = [other for answer in answers.values() for other in answer.others]
    if others:
        raise HashMismatchError(
            f"no index has the sdist of {project} {version} that the recipe pins",
            why=f"the recipe's SHA-256 is {sha256}; {said}",
            fix="correct the recipe's `sha256` only if you know that upstream's file changed",
        )
    raise DownloadError(
        f"no index has the sdist of {project} {version}",
        why=said,
        fix="set UV_DEFAULT_INDEX or PIP_INDEX_URL to your index, or pass the source with `-- "
        "--source FILE`",
    )


def find_wheels(
    project: str,
    *,
    indexes: Iterable[str],
    retry_policy: RetryPolicy = RETRY_POLICY,
    stop: Stop | None = None,
) -> tuple[IndexFile, ...]:
    """Give all wheels of a project that the first index with it has.

    Args:
        project: its name.
        indexes: addresses of simple indexes, asked in this order.
        retry_policy: how long to go on trying.
        stop: ends it early.

    Raises:
        DownloadError: no index has the project.
    """
    index, page = _first_page(project, indexes, Attempts(retry_policy, stop), "wheels of ")
    wheels = [found for found in page.packages if found.package_type == "wheel"]
    return tuple(_file_of(found, index) for found in wheels)


def find_releases(
    project: str,
    *,
    indexes: Iterable[str],
    retry_policy: RetryPolicy = RETRY_POLICY,
    stop: Stop | None = None,
) -> tuple[Release, ...]:
    """Give all releases of a project that the first index with it has, the newest last.

    Args:
        project: its name.
        indexes: addresses of simple indexes, asked in this order.
        retry_policy: how long to go on trying.
        stop: ends it early.

    Raises:
        UnknownProjectError: every index answers, and none has the project.
        DownloadError: an index can't be asked, and no other has the project.
    """
    index, page = _first_page(project, indexes, Attempts(retry_policy, stop))
    found: dict[Version, _Files] = {}
    for file in page.packages:
        try:
            version = Version(file.version or "")
        except InvalidVersion:
            continue  # of the time before PEP 440
        files = found.setdefault(version, _Files())
        files.yanked.append(file.is_yanked)
        if file.package_type == "sdist":
            files.sdist = _file_of(file, index)
        elif file.package_type == "wheel":
            files.wheels.append(file.filename)
    return tuple(
        Release(
            version=version,
            sdist=files.sdist,
            wheels=tuple(files.wheels),
            is_yanked=all(files.yanked),
        )
        for version, files in sorted(found.items())
    )


@dataclass(kw_only=True)
class _Files:
    """What a page shows of one release."""

    sdist: IndexFile | None = None
    wheels: list[str] = field(default_factory=list)
    yanked: list[bool] = field(default_factory=list)


def _first_page(
    project: str, indexes: Iterable[str], attempts: Attempts, wanted: str = ""
) -> tuple[str, pypi_simple.ProjectPage]:
    """The first index that has a project, and its page of it."""
    said = {}
    for index in indexes:
        attempts.reset_count()
        page = read_project_page(index, project, attempts)
        if isinstance(page, pypi_simple.ProjectPage):
            return index, page
        said[index] = page
    has_answers = bool(said) and set(said.values()) == {lacks(project)}
    why = "; ".join(f"{redact_url(index)}: {answer}" for index, answer in said.items())
    if not has_answers:
        raise DownloadError(
            f"{wanted}{project} can't be looked up",
            why=why or "no index is configured that can be read without a network",
            fix="see that the index can be reached (network, HTTPS_PROXY, SSL_CERT_FILE), or name "
            "yours with UV_DEFAULT_INDEX or PIP_INDEX_URL",
        )
    raise (DownloadError if wanted else UnknownProjectError)(
        f"no index has {wanted}{project}",
        why=why,
        fix="set UV_DEFAULT_INDEX or PIP_INDEX_URL to your index",
    )


def _file_of(found: pypi_simple.DistributionPackage, index: str) -> IndexFile:
    return IndexFile(
        name=found.filename,
        url=with_credentials(found.url, index),
        sha256=_sha256(found),
        size=found.size,
    )


def _choose(index: str, page: pypi_simple.ProjectPage, version: str, sha256: str) -> _Answer:
    sdists = [found for found in page.packages if _is_sdist_of(found, version)]
    for found in sdists:
        if _sha256(found) in {"", sha256}:
            return _Answer(url=with_credentials(found.url, index))
    others = tuple(map(_sha256, sdists))
    if others:
        return _Answer(reason=f"has SHA-256 {', '.join(others)}", others=others)
    return _Answer(reason=f"has {page.project}, but no sdist of {version}")


def _sha256(found: pypi_simple.DistributionPackage) -> str:
    """As the index states it, in small letters; empty where it states none."""
    return checked_sha256(found.digests.get("sha256", ""))


def _is_sdist_of(found: pypi_simple.DistributionPackage, version: str) -> bool:
    if found.package_type != "sdist" or found.version is None:
        return False
    return canonicalize_version(found.version) == canonicalize_version(version)


def configured_indexes(
    environ: Mapping[str, str] = os.environ,
    files: Iterable[Path] | None = None,
    *,
    offline: bool = False,
) -> tuple[str, ...]:
    """The indexes to ask, the main one first; PyPI where nothing is configured.

    Args:
        environ: uv's and pip's variables; they win over the files, as with pip and uv.
        files: configuration files of uv (`*.toml`) and pip, most specific first; by default where
            uv and pip look for their own.
        offline: give those alone that take no network.

    Raises:
        DownloadError: a configuration file can't be understood.
    """
    chosen = _config_files(environ) if files is None else files
    configs = [_read_config(path) for path in chosen if path.is_file()]
    main = [environ.get(name, "") for name in _MAIN_VARIABLES]
    main += [url for urls, _ in configs for url in urls]
    more = [environ.get(name, "") for name in _MORE_VARIABLES]
    more += [url for _, urls in configs for url in urls]
    first = next(filter(None, main), pypi_simple.PYPI_SIMPLE_ENDPOINT)
    words = [first, *(word for text in more for word in text.split())]
    every = dict.fromkeys(map(_without_name, words))
    return tuple(url for url in every if is_local(url) or not offline)


def _without_name(word: str) -> str:
    """UV_DEFAULT_INDEX and UV_INDEX may hold `name=url`."""
    name, sign, url = word.partition("=")
    return url if sign and "/" not in name else word


def _config_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where uv ("Configuration files") and pip ("Configuration") look on Linux, nearest first."""
    home = Path(environ.get("HOME", "/"))
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    if environ.get("UV_CONFIG_FILE"):
        yield Path(environ["UV_CONFIG_FILE"])
    else:
        yield user / "uv" / "uv.toml"
        yield from (Path(folder) / "uv" / "uv.toml" for folder in system)
        yield Path("/etc/uv/uv.toml")
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return  # pip's way to say: read none
    if environ.get("PIP_CONFIG_FILE"):
        yield Path(environ["PIP_CONFIG_FILE"])
    yield Path(sys.prefix) / "pip.conf"
    yield user / "pip" / "pip.conf"
    yield home / ".pip" / "pip.conf"
    yield from (Path(folder) / "pip" / "pip.conf" for folder in system)
    yield Path("/etc/pip.conf")


def _read_config(path: Path) -> tuple[list[str], list[str]]:
    """The main and the other indexes that one file names."""
    try:
        text = read_text(path)
        return _of_uv(tomli.loads(text)) if path.suffix == ".toml" else _of_pip(text)
    except _MALFORMED as problem:
        # Not its own words: they quote the line, and a password may stand there.
        line = getattr(problem, "lineno", None)
        raise DownloadError(
            f"{path} can't be read, so the package index to use is unknown",
            why=type(problem).__name__ + (f" in line {line}" if line else ""),
            fix="correct the file, or set UV_DEFAULT_INDEX to the index",
        ) from problem


def _of_uv(config: dict[str, Any]) -> tuple[list[str], list[str]]:
    tables: list[dict[str, Any]] = config.get("index", [])
    main = [table["url"] for table in tables if table.get("default")]
    more = [table["url"] for table in tables if not table.get("default")]
    return [*main, config.get("index-url", "")], [*more, *config.get("extra-index-url", [])]


def _of_pip(text: str) -> tuple[list[str], list[str]]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    found: dict[str, str] = {}
    for section in ("global", "install"):  # the latter wins
        found.update(parser[section] if parser.has_section(section) else {})
    return [found.get("index-url", "")], [found.get("extra-index-url", "")]
