"""Search of sdists, wheels and releases on the indexes that pip and uv are configured for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_version
from packaging.version import Version

from cuwheel.base.errors import DownloadError, HashMismatchError
from cuwheel.base.fetch.indexes.offers import Offer, offers_on
from cuwheel.base.fetch.indexes.pages import PageFault, lacks, link_fault, read_project_page
from cuwheel.base.fetch.indexes.uv_settings import uv_settings
from cuwheel.base.fetch.pip_settings import pip_settings
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import is_local, redact_url
from cuwheel.base.system.parallel import Stop


@dataclass(frozen=True, kw_only=True)
class IndexRelease:
    """Release of a project on an index.

    Attributes:
        sdist: its source; None where it has none.
        is_yanked: all of its files were withdrawn (PEP 592).
    """

    version: Version
    sdist: Offer | None
    wheels: tuple[str, ...]
    is_yanked: bool

    @property
    def is_final(self) -> bool:
        """True if pip would choose it without a request for this very version."""
        return not (self.version.is_prerelease or self.is_yanked)


def find_sdist(
    project: str,
    version: str,
    sha256: str,
    *,
    indexes: Iterable[str],
) -> str:
    """Return the address of a release's sdist, which may hold the index's user and password.

    Args:
        sha256: of the sdist; where an index gives no hashes, the release's sdist is taken.
        indexes: addresses of simple indexes (PEP 503 or 691), searched in this order.

    Raises:
        DownloadError: no index has it.
        HashMismatchError: an index has this release, with another file.
    """
    reasons: dict[str, str] = {}
    has_others = False
    attempts, normal = Attempts(), canonicalize_version(version)
    for index in indexes:
        attempts.reset_count()
        page = read_project_page(index, project, attempts)
        if isinstance(page, str):
            reasons[index] = page
            continue
        sdists = [
            offer
            for offer in offers_on(page, index, project)
            if canonicalize_version(offer.version) == normal and not offer.is_wheel
        ]
        if chosen := next((sdist for sdist in sdists if sdist.sha256 in {"", sha256}), None):
            if not (why := link_fault(chosen.url, index)):
                return chosen.url
            reasons[index] = why
        elif sdists:
            has_others = True
            reasons[index] = f"has SHA-256 {', '.join(sdist.sha256 for sdist in sdists)}"
        else:
            reasons[index] = f"has {page.project}, but no sdist of {version}"
    why = "; ".join(f"{redact_url(index)}: {reason}" for index, reason in reasons.items())
    if has_others:
        raise HashMismatchError(
            f"no index has the sdist of {project} {version} that the recipe pins",
            why=f"the recipe's SHA-256 is {sha256}; {why}",
            fix="correct the recipe's `sha256` only if you know that upstream's file changed",
        )
    raise DownloadError(
        f"no index has the sdist of {project} {version}",
        why=why,
        fix="set UV_DEFAULT_INDEX or PIP_INDEX_URL to your index, or pass the source with `-- "
        "--source FILE`",
    )


def find_wheels(
    project: str,
    *,
    indexes: Iterable[str],
    stop: Stop | None = None,
) -> tuple[Offer, ...]:
    """Return all wheels of a project on the first index that has it; raises DownloadError."""
    index, offers = _first_offers(project, indexes, Attempts(stop), "wheels of ")
    return _checked((offer for offer in offers if offer.is_wheel), index)


def find_releases(project: str, *, indexes: Iterable[str]) -> tuple[IndexRelease, ...]:
    """Return all releases of a project on the first index that has it, the newest last.

    Raises DownloadError; it `is_missing` where every index answers and none has the project.
    """
    by_version: defaultdict[Version, list[Offer]] = defaultdict(list)
    index, files = _first_offers(project, indexes, Attempts())
    for offer in files:
        by_version[offer.version].append(offer)
    releases = []
    for version, offers in sorted(by_version.items()):
        sdists = _checked((offer for offer in offers if not offer.is_wheel), index)
        release = IndexRelease(
            version=version,
            sdist=sdists[-1] if sdists else None,
            wheels=tuple(offer.name for offer in offers if offer.is_wheel),
            is_yanked=all(offer.yanked is not None for offer in offers),
        )
        releases.append(release)
    return tuple(releases)


def _first_offers(
    project: str, indexes: Iterable[str], attempts: Attempts, wanted: str = ""
) -> tuple[str, list[Offer]]:
    reasons = {}
    for index in indexes:
        attempts.reset_count()
        page = read_project_page(index, project, attempts)
        if not isinstance(page, PageFault):
            return index, [*offers_on(page, index, project)]
        reasons[index] = page
    has_answers = bool(reasons) and set(reasons.values()) == {lacks(project)}
    why = "; ".join(f"{redact_url(index)}: {reason}" for index, reason in reasons.items())
    if not has_answers:
        raise DownloadError(
            f"{wanted}{project} can't be looked up",
            why=why or "no index is configured that can be read without a network",
            fix="see that the index can be reached (network, HTTPS_PROXY, SSL_CERT_FILE), or name "
            "yours with UV_DEFAULT_INDEX or PIP_INDEX_URL",
        )
    fix = "set UV_DEFAULT_INDEX or PIP_INDEX_URL to your index"
    if wanted:
        raise DownloadError(f"no index has {wanted}{project}", why=why, fix=fix)
    raise unknown_project(f"no index has {project}", why=why, fix=fix)


def unknown_project(what: str, *, why: str, fix: str) -> DownloadError:
    """Return the error for a project, a release or a source that no index has."""
    error = DownloadError(what, why=why, fix=fix, anchor="unknown-project")
    error.is_missing = True
    return error


def _checked(offers: Iterable[Offer], index: str) -> tuple[Offer, ...]:
    known = tuple(offers)
    for offer in known:
        if why := link_fault(offer.url, index):
            raise DownloadError(
                f"{offer.name} can't be downloaded from {redact_url(index)}",
                why=why,
                fix="use another index: set UV_DEFAULT_INDEX or PIP_INDEX_URL",
            )
    return known


def configured_indexes(environ: Mapping[str, str], *, offline: bool = False) -> tuple[str, ...]:
    """Return the indexes to search, the main one first; PyPI where nothing is configured.

    uv's variables win over its files, and both over pip's.

    Raises:
        InstallError: a configuration file can't be understood.
    """
    uv, pip = uv_settings(environ), pip_settings(environ)
    tables: list[dict[str, Any]] = uv.get("index", [])
    main = [environ.get("UV_DEFAULT_INDEX", ""), environ.get("UV_INDEX_URL", "")]
    main += [table["url"] for table in tables if table.get("default")]
    main += [uv.get("index-url", ""), pip.get("index-url", "")]
    more = [environ.get("UV_INDEX", ""), environ.get("UV_EXTRA_INDEX_URL", "")]
    more += [table["url"] for table in tables if not table.get("default")]
    more += [*uv.get("extra-index-url", ()), pip.get("extra-index-url", "")]
    first = next(filter(None, main), None) or _default_index()
    entries = [first, *(entry for text in more for entry in text.split())]
    urls = dict.fromkeys(map(_without_name, entries))
    return tuple(url for url in urls if is_local(url) or not offline)


def joined_indexes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the configured indexes where all that have a project count: pip's, or by uv's setting.

    Empty where the first that has a project is the only one to count, as uv does it.
    """
    strategy = environ.get("UV_INDEX_STRATEGY") or uv_settings(environ).get("index-strategy", "")
    is_joined = strategy.startswith("unsafe") or pip_settings(environ).get("extra-index-url")
    return configured_indexes(environ) if is_joined else ()


def _default_index() -> str:
    import pypi_simple  # noqa: PLC0415 - slow, and seldom needed

    return pypi_simple.PYPI_SIMPLE_ENDPOINT


def _without_name(entry: str) -> str:
    """Return the URL of an entry of UV_DEFAULT_INDEX or UV_INDEX, which may be `name=url`."""
    name, sign, url = entry.partition("=")
    return url if sign and "/" not in name else entry
