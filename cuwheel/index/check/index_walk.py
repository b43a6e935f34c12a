"""One index on its way through the check: its list of projects, their pages, their files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from packaging.utils import canonicalize_name

from cuwheel.errors import DownloadError
from cuwheel.fetch.urls import redact_url
from cuwheel.index.check.file_rules import FileCheck
from cuwheel.index.check.listing import read_listing, read_projects
from cuwheel.index.check.page_rules import (
    best_hash,
    form_findings,
    is_readable,
    page_findings,
    variant_labels,
)
from cuwheel.index.check.reading import RawPage
from cuwheel.index.check.rules import Finding
from cuwheel.index.check.snapshot import Seen, change_findings
from cuwheel.system.parallel import Stop, run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cuwheel.index.check.listing import ListedFile, Listing
    from cuwheel.index.check.reading import Reader
    from cuwheel.index.check.result import CheckRequest, CheckResult
    from cuwheel.index.check.snapshot import Projects
    from cuwheel.system.console import Console
    from cuwheel.system.output.live import Downloads

Result = TypeVar("Result")

_BATCH = 8  # projects whose pages are held at once; a page of others may have 32 MiB
_FORMS = {False: "HTML", True: "JSON"}


@dataclass(frozen=True, kw_only=True)
class _Pages:
    """The pages of a project as they came, or what was wrong with them."""

    project: str
    raw: tuple[RawPage, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class IndexWalk:
    """One index on its way through the check.

    Attributes:
        name: for findings, and in the snapshot.
        url: with a slash at its end; may hold a user and password.
        asked: how.
        result: takes the findings.
        checked: keys of files that were checked already, through another index.
        console: shows how it goes.
    """

    name: str
    url: str
    asked: CheckRequest
    result: CheckResult
    checked: set[int]
    console: Console

    def check(self, reader: Reader, before: Projects | None) -> Projects:
        """Check all of it; what it offers."""
        asked: tuple[str, ...] = tuple(map(canonicalize_name, self.asked.projects))
        projects = iter(dict.fromkeys(asked) or self._projects(reader))
        now: Projects = {}
        while batch := tuple(islice(projects, _BATCH)):
            now |= self._check_batch(batch, reader)
        if before is not None:
            gone: Iterable[str] = asked or {**before, **now}
            for project in gone:
                changes = change_findings(
                    self._where(project), before.get(project, {}), now.get(project, {})
                )
                self.result.add(changes)
        return now

    def _where(self, project: str) -> str:
        return f"{self.name}/{project}"

    def _projects(self, reader: Reader) -> list[str]:
        """Normalised names.

        Raises:
            DownloadError: there is no list.
        """
        pages = _read_pages(reader, "", self.url)
        listed = {}
        for page in pages.raw:
            names = _read(read_projects, page)
            if isinstance(names, str):
                self._add("page", self.name, names)
            else:
                listed[page.is_json] = names
        for fault in pages.faults if listed else ():
            self._add("page", self.name, fault)
        if not listed:
            raise DownloadError(
                f"{redact_url(self.url)} is not a package index",
                why="; ".join(pages.faults) or "it has no list of projects (PEP 503 or 691)",
                fix="give the address used as pip's --index-url; if the index lists no "
                "projects, name them with --only",
            )
        links = listed[False] if listed.keys() == {False} else ()
        if links and not any(_is_project(name, url) for name, url in links):
            raise DownloadError(
                f"{redact_url(self.url)} is not a package index",
                why="none of the links on its page leads to the page of a project",
                fix="give the address used as pip's --index-url",
            )
        for names in listed.values():
            self._check_names(names)
        found = [{str(canonicalize_name(name)) for name, _ in names} for names in listed.values()]
        every = found[0].union(*found[1:])
        for name in sorted(every - found[0].intersection(*found[1:])):
            self._add("forms", self.name, f"only one form of the list of projects has {name}")
        return sorted(every)

    def _check_names(self, names: Iterable[tuple[str, str]]) -> None:
        seen: Counter[str] = Counter()
        for name, url in names:
            project = canonicalize_name(name)
            seen[project] += 1
            if url and not _is_project(name, url):
                fact = f"{name} is linked as {redact_url(url)}, which has to end in {project}/"
                self._add("project-name", self.name, fact)
        for name, count in seen.items():
            if count > 1:
                self._add("project-name", self.name, f"{name} is listed {count} times")

    def _add(self, code: str, where: str, fact: str) -> None:
        self.result.add([Finding(code=code, where=where, fact=fact)])

    def _check_batch(self, projects: tuple[str, ...], reader: Reader) -> Projects:
        stop = Stop()
        asking = replace(reader, stop=stop)
        tasks = [partial(_read_pages, asking, one, f"{self.url}{one}/") for one in projects]
        listings = {pages.project: self._listings(pages) for pages in run_all(tasks, stop)}
        offered: Projects = {}
        for project, (files, is_read) in listings.items():
            digests = self._check_files(project, files, reader)
            if is_read:
                offered[project] = {
                    one.name: Seen(
                        hash=_known_hash(one) or digests.get(one.name, ""),
                        date=one.uploaded,
                        yanked=one.yanked,
                    )
                    for one in files
                }
        return offered

    def _listings(self, pages: _Pages) -> tuple[tuple[ListedFile, ...], bool]:
        """The files of a project, those of JSON first, as it says more; whether a page was read."""
        where = self._where(pages.project)
        findings = [Finding(code="page", where=where, fact=fact) for fact in pages.faults]
        read: dict[str, Listing] = {}
        for page in pages.raw:
            listing = _read(partial(read_listing, where=where), page)
            if isinstance(listing, str):
                findings.append(Finding(code="page", where=where, fact=listing))
            else:
                read[_FORMS[page.is_json]] = listing
        if not pages.raw and not pages.faults:
            findings.append(Finding(code="page", where=where, fact="there is none"))
        for listing in read.values():
            findings += page_findings(pages.project, listing)
        if len(read) == len(_FORMS):
            findings += form_findings(read["HTML"], read["JSON"])
        self.result.add(findings)
        self.result.pages += bool(read)
        files: dict[str, ListedFile] = {}
        for form in ("JSON", "HTML"):
            if form in read:
                found = (one for one in read[form].files if is_readable(read[form], one))
                files = {**{one.name: one for one in found}, **files}
        return tuple(files.values()), bool(read)

    def _check_files(
        self, project: str, files: Sequence[ListedFile], reader: Reader
    ) -> dict[str, str]:
        """Check the files that weren't yet; hashes as measured, by name."""
        new = [one for one in files if one.key not in self.checked]
        labels = variant_labels(one.name for one in files)
        self.checked.update(one.key for one in new)
        stop = Stop()
        sizes = [one.size or 0 for one in new]
        with self.console.downloads(project, sum(sizes), files=len(new)) as bar:
            asking = replace(reader, stop=stop, console=bar)
            checks = [
                FileCheck(
                    where=f"{self._where(project)}: {one.name}",
                    file=one,
                    reader=asking,
                    is_quick=self.asked.is_quick,
                    labels=tuple(labels.get(one.name, ())),
                )
                for one in new
            ]
            run_all([partial(_run, one, bar) for one in checks], stop)
        self.result.files += len(new)
        self.result.unhashed += sum(one.is_quick for one in checks)
        self.result.add(finding for one in checks for finding in one.findings)
        return {one.file.name: one.digest for one in checks}


def _is_project(name: str, url: str) -> bool:
    """Whether an address is that of a project's page."""
    at = url.removesuffix("index.html").rstrip("/").rpartition("/")[2]
    return at == canonicalize_name(name)


def _read(read: Callable[[RawPage], Result], page: RawPage) -> Result | str:
    """What a page says, or why it can't be read."""
    try:
        return read(page)
    except (ValueError, RecursionError) as problem:
        return f"{_FORMS[page.is_json]}: {problem}"


def _read_pages(reader: Reader, project: str, url: str) -> _Pages:
    """Both forms of a page, as far as they are offered."""
    found = [(form, reader.page(url, is_json=kind)) for kind, form in _FORMS.items()]
    return _Pages(
        project=project,
        raw=tuple(one for _, one in found if isinstance(one, RawPage)),
        faults=tuple(f"{form}: the server {one}" for form, one in found if isinstance(one, str)),
    )


def _run(check: FileCheck, bar: Downloads) -> None:
    check.run()
    bar.finish(check.file.name, check.file.size or 0)


def _known_hash(file: ListedFile) -> str:
    best = best_hash(file.hashes)
    return f"{best}={file.hashes[best]}" if best else ""
