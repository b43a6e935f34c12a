"""The check of package indexes: list of projects, pages, files, comparison with a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from cuwheel.base import limits
from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.base.fetch.indexes.pages import PageFault
from cuwheel.base.fetch.urls import check_url, is_local, local_path, redact_url
from cuwheel.base.fetch.web import certificate_fix
from cuwheel.base.formats.wheel.publication import SIMPLE
from cuwheel.base.system.console import Console, Downloads
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.publish.index.check.file_rules import FileCheck, compare_requirements
from cuwheel.publish.index.check.page_rules import best_hash, check_page, compare_forms, may_link
from cuwheel.publish.index.check.reading import (
    Budget,
    PageFile,
    RawPage,
    Reader,
    read_listing,
    read_projects,
)
from cuwheel.publish.index.check.rules import CheckResult, Violation
from cuwheel.publish.index.check.snapshot import (
    Projects,
    find_changes,
    read_snapshot,
    write_snapshot,
)

Result = TypeVar("Result")
_Pages = Mapping[str, RawPage | str | None]

_BATCH = 8  # projects whose pages are held at once; a page of others may have 32 MiB
_FORMS = ("HTML", "JSON")


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """Indexes to check.

    Attributes:
        places: folders and addresses.
        projects: empty: all.
        snapshot: file of an earlier check; None: nothing is compared.
        max_download: bytes of files.
    """

    places: tuple[str, ...]
    projects: tuple[str, ...] = ()
    is_quick: bool = False
    snapshot: Path | None = None
    max_download: int = 64 * limits.GIB


def check_indexes(request: CheckRequest, console: Console) -> CheckResult:
    """Check indexes.

    The snapshot is updated only if no published file has changed or vanished, so that the next
    check finds it again.

    Raises:
        UsageError: a folder holds no index, or the snapshot can't be read.
        DownloadError: an index doesn't answer, or has no list of projects.
    """
    indexes: dict[str, str] = {}
    for name, url in _indexes(request.places):
        indexes[name if name not in indexes else redact_url(url)] = url
    before = read_snapshot(request.snapshot) if request.snapshot else {}
    budget = Budget(request.max_download)
    result = CheckResult(indexes=tuple(map(redact_url, indexes.values())))
    now: dict[str, Projects] = {}
    with temporary_folder() as scratch:
        reader = Reader(
            scratch=scratch,
            budget=budget,
            stop=Stop(),
            console=console,
        )
        checked: set[int] = set()
        for name, url in indexes.items():
            walk = _Walk(
                name=name,
                url=url,
                request=request,
                result=result,
                checked=checked,
                reader=reader,
                console=console,
            )
            now[name] = walk.check(before.get(name))
    result.downloaded = budget.used
    if request.snapshot and not (result.counts["changed"] or result.counts["vanished"]):
        # Projects that weren't checked stay in it.
        merged = {name: {**before.get(name, {}), **now.get(name, {})} for name in {**before, **now}}
        write_snapshot(request.snapshot, merged)
    return result


def _indexes(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and address of each index; the address has a slash at its end."""
    for place in places:
        if "://" in place and not is_local(place):
            url = f"{place.rstrip('/')}/"
            check_url(url, "the index")
            yield urlsplit(url).path.strip("/") or SIMPLE, url
            continue
        folder = local_path(place) if is_local(place) else Path(place)
        folders = [*folder.glob(SIMPLE), *sorted(folder.glob(f"*/{SIMPLE}"))]
        is_index = any((folder / page).is_file() for page in ("index.html", "index.json"))
        if not folders and not is_index:
            raise UsageError(
                f"{folder} is not an index",
                why=f"it contains neither index.html nor {SIMPLE}/",
                fix="give the folder that `nox -s index -- --to DIR` wrote, a folder simple/, "
                "or an address",
            )
        for index in folders or [folder]:
            name = index.relative_to(folder).as_posix()
            yield (name if name != "." else folder.name), f"{index.absolute().as_uri()}/"


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """The check of one index.

    Attributes:
        url: with a slash at its end; may hold a user and password.
        checked: keys of files that were checked, also in other indexes.
    """

    name: str
    url: str
    request: CheckRequest
    result: CheckResult
    checked: set[int]
    reader: Reader
    console: Console

    def check(self, before: Projects | None) -> Projects:
        """Check the index, and return the files that it offers."""
        named: tuple[str, ...] = tuple(map(canonicalize_name, self.request.projects))
        projects = iter(dict.fromkeys(named) or self._projects())
        now: Projects = {}
        while batch := tuple(islice(projects, _BATCH)):
            now |= self._check_batch(batch)
        if before is not None:
            compared: Iterable[str] = named or {**before, **now}
            for project in compared:
                files, others = before.get(project, {}), now.get(project, {})
                self.result.add(find_changes(f"{self.name}/{project}", files, others))
        return now

    def _projects(self) -> list[str]:
        pages = _read_pages(self.reader, self.url)
        lists, faults = _parse(pages, read_projects)
        why = "; ".join(faults)
        silent = [page for page in pages.values() if isinstance(page, PageFault)]
        if not lists and [page.kind for page in silent] == ["unasked"] * len(_FORMS):
            raise DownloadError(
                f"{redact_url(self.url)} could not be queried",
                why=f"the server {silent[0]}",
                fix=certificate_fix(why) or "check its address and the network, and try again",
            )
        links = lists.get("HTML", ()) if "JSON" not in lists else ()
        if links and not any(_is_project(name, url) for name, url in links):
            lists, why = {}, "none of the links on its page leads to the page of a project"
        if not lists:
            raise DownloadError(
                f"{redact_url(self.url)} is not a package index",
                why=why or "it has no list of projects (PEP 503 or 691)",
                fix="give the address used as pip's --index-url; if the index lists no "
                "projects, name them with --only",
            )
        for fault in faults:
            self._add("page", fault)
        for names in lists.values():
            self._check_names(names)
        first, *others = (
            {str(canonicalize_name(name)) for name, _ in names} for names in lists.values()
        )
        projects = first.union(*others)
        for name in sorted(projects - first.intersection(*others)):
            self._add("forms", f"only one form of the list of projects has {name}")
        return sorted(projects)

    def _check_names(self, names: Iterable[tuple[str, str]]) -> None:
        counts = Counter(canonicalize_name(name) for name, _ in names)
        for name, url in names:
            if url and not _is_project(name, url):
                project = canonicalize_name(name)
                fact = f"{name} is linked as {redact_url(url)}, which has to end in {project}/"
                self._add("project-name", fact)
        for project, count in counts.items():
            if count > 1:
                self._add("project-name", f"{project} is listed {count} times")

    def _add(self, code: str, fact: str) -> None:
        self.result.add([Violation(code=code, where=self.name, fact=fact)])

    def _check_batch(self, projects: tuple[str, ...]) -> Projects:
        stop = Stop()
        reader = replace(self.reader, stop=stop)
        tasks = [partial(_read_pages, reader, f"{self.url}{project}/") for project in projects]
        offered: Projects = {}
        for project, pages in zip(projects, run_all(tasks, stop), strict=True):
            files = self._check_pages(project, pages)
            digests = self._check_files(project, files or ())
            if files is not None:
                offered[project] = {
                    file.name: _listed_hash(file) or digests.get(file.name, "") for file in files
                }
        return offered

    def _check_pages(self, project: str, pages: _Pages) -> tuple[PageFile, ...] | None:
        """Check a project's pages; return its files, preferably from JSON, or None for no page."""
        where = f"{self.name}/{project}"
        listings, faults = _parse(pages, partial(read_listing, where=where, index=self.url))
        if not any(pages.values()):
            faults.append("there is none")
        violations = [Violation(code="page", where=where, fact=fault) for fault in faults]
        for listing in listings.values():
            violations += check_page(project, listing)
        if len(listings) == len(_FORMS):
            violations += compare_forms(listings["HTML"], listings["JSON"])
        self.result.add(violations)
        self.result.pages += bool(listings)
        files: dict[str, PageFile] = {}
        for listing in listings.values():
            files |= {file.name: file for file in listing.files if may_link(listing, file)}
        return tuple(files.values()) if listings else None

    def _check_files(self, project: str, files: Sequence[PageFile]) -> dict[str, str]:
        """Check the files that weren't checked yet, and return their measured hashes by name."""
        new = [file for file in files if file.key not in self.checked]
        self.checked.update(file.key for file in new)
        stop = Stop()
        total = sum(file.size or 0 for file in new)
        with self.console.downloads(project, total, files=len(new)) as bar:
            checks = [
                FileCheck(
                    where=f"{self.name}/{project}: {file.name}",
                    file=file,
                    reader=replace(self.reader, stop=stop, console=bar),
                    is_quick=self.request.is_quick,
                )
                for file in new
            ]
            run_all([partial(_run, check, bar) for check in checks], stop)
        self.result.files += len(new)
        self.result.unhashed += sum(check.is_quick for check in checks)
        self.result.add(violation for check in checks for violation in check.violations)
        self.result.add(compare_requirements(checks))
        return {check.file.name: check.digest for check in checks}


def _is_project(name: str, url: str) -> bool:
    at = url.removesuffix("index.html").rstrip("/").rpartition("/")[2]
    return at == canonicalize_name(name)


def _read_pages(reader: Reader, url: str) -> _Pages:
    """Read both forms of a page: each a page, why there is none, or None where it isn't offered."""
    return {form: reader.page(url, is_json=form == "JSON") for form in _FORMS}


def _parse(pages: _Pages, read: Callable[[RawPage], Result]) -> tuple[dict[str, Result], list[str]]:
    """Parse the forms of a page; return those that can be parsed, and what is wrong with others."""
    parsed, faults = {}, []
    for form, page in pages.items():
        if isinstance(page, RawPage):
            try:
                parsed[form] = read(page)
            except (ValueError, RecursionError) as problem:
                faults.append(f"{form}: {problem}")
        elif page:
            faults.append(f"{form}: the server {page}")
    return parsed, faults


def _run(check: FileCheck, bar: Downloads) -> None:
    check.run()
    bar.finish(check.file.name, check.file.size or 0)


def _listed_hash(file: PageFile) -> str:
    best = best_hash(file.hashes)
    return f"{best}={file.hashes[best]}" if best else ""
