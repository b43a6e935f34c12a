"""A release's folder, which is complete or not there, its notes, and the index next to it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cuwheel.base.formats.wheel.publication import STATEMENT, published_texts
from cuwheel.base.system.files import (
    PART,
    list_tree,
    naming_full_disk,
    new_folder,
    remove_tree,
    sha256_of_file,
)
from cuwheel.base.system.folders.staged_files import sync_files
from cuwheel.base.system.output.documents import as_file
from cuwheel.base.system.output.terminal import visible
from cuwheel.base.system.quantities import plural
from cuwheel.build.wheelhouse.facts import cuda_tag, keep_facts
from cuwheel.build.workspace.masking import refuse_secrets, refuse_secrets_in_wheels
from cuwheel.publish.index.pages import ListedWheel
from cuwheel.publish.index.publishing import publish
from cuwheel.publish.index.site import Site, SiteRequest, write_site
from cuwheel.publish.release.plan import Plan, ReleaseRequest, public_text
from cuwheel.publish.release.record import (
    RECORD,
    RECORDS,
    RELEASES,
    Change,
    FailedTarget,
    Release,
    ReleasedWheel,
)

NOTES = "notes.md"
CHECKSUMS = "SHA256SUMS"
# For people; `*` takes the plural.
_CHANGES: dict[Change, str] = {
    "new package": "new package*",
    "new version": "new version*",
    "new wheel": "new wheel* of a known version",
    "new build": "new build* of a known wheel",
}
_CHECK = f"""## Check it

`sha256sum --check {CHECKSUMS}` in the release's folder checks all files against their hashes;
`nox -s rebuild -- WHEEL` builds a wheel again from its provenance and compares.
"""
_TITLES = (
    *("", "wheel", "CUDA", "Python", "framework", "loads with torch", "archs"),
    *("oldest driver", "glibc", "size"),
)


def render_notes(release: Release, last: Release | None) -> str:
    """Return the notes; without a last release it is the first."""
    return "\n".join((*_head(release), *_wheels(release), *_failures(release, last), _CHECK))


def render_masked(masked: Mapping[str, int]) -> str:
    """Return the part of the notes about masked text in logs, records and these notes."""
    counts = (f"- {_text(kind)}: {count}" for kind, count in sorted(masked.items()) if count)
    return "\n".join(("## Masked", "", *(tuple(counts) or ("Nothing.",)), ""))


def headline(release: Release) -> str:
    """Return `2 wheels; 1 target failed`."""
    failed = f"; {plural(len(release.failed), 'target')} failed" if release.failed else ""
    return f"{plural(len(release.wheels), 'wheel')}{failed}"


def withdrawn_since(last: Release | None, release: Release) -> dict[str, str | None]:
    """Return the reasons of withdrawals since the last release; None: withdrawn no more."""
    before = dict(last.withdrawn) if last else {}
    now = dict(release.withdrawn)
    new = {name: why for name, why in now.items() if before.get(name) != why}
    return {**new, **dict.fromkeys(before.keys() - now.keys())}


def _head(release: Release) -> Iterator[str]:
    since = f"New since {release.previous}" if release.previous else "The first release"
    counts = Counter(wheel.change for wheel in release.wheels)
    texts = [
        f"{counts[kind]} {name.replace('*', 's' * (counts[kind] > 1))}"
        for kind, name in _CHANGES.items()
        if counts[kind]
    ]
    yield f"# {release.tag}"
    yield ""
    yield f"{headline(release)}. {since}: {', '.join(texts) or 'nothing'}."
    if release.works_again:
        yield f"No longer failing: {', '.join(f'`{wheel}`' for wheel in release.works_again)}."
    yield ""


def _wheels(release: Release) -> Iterator[str]:
    if not release.wheels:  # it may do no more than withdraw some
        return
    yield from ("## Wheels", "", *_row(_TITLES), *_row("---" for _ in _TITLES))
    for wheel in release.wheels:
        yield from _row(_cells(wheel))
    yield ""
    for wheel in release.wheels:
        yield f"- `{wheel.entry.name}`"
        yield f"  - SHA-256 `{wheel.entry.sha256}`"
        yield from (f"  - {line}" for line in _evidence(wheel))
    yield ""


def _cells(wheel: ReleasedWheel) -> tuple[str, ...]:
    entry = wheel.entry
    _, *cells, _ = ListedWheel(entry=entry, cuda=cuda_tag(entry), facts=wheel.facts).cells
    return (wheel.change, f"`{entry.project}` {entry.version}", *cells)


def _evidence(wheel: ReleasedWheel) -> Iterator[str]:
    has = wheel.entry.has_statement
    yield f"provenance `{wheel.entry.name}{STATEMENT}`" if has else "no provenance"
    yield f"perf: {_text(wheel.perf) or 'not measured'}"
    yield f"verify: {_text(wheel.verify) or 'not built again'}"
    if wheel.log:
        yield f"log of its build: `{wheel.log}`"


def _failures(release: Release, last: Release | None) -> Iterator[str]:
    known = {failure.target for failure in last.failed} if last else set()
    if release.failed:
        yield from ("## Failed", "")
    for failure in release.failed:
        yield from _failure(failure, is_new=failure.target not in known)
    changed = withdrawn_since(last, release)
    if changed:
        yield from ("## Withdrawn", "")
    for name, why in changed.items():
        yield f"- `{name}`: {'no longer withdrawn' if why is None else _text(why)}"
    if changed:
        yield ""


def _failure(failure: FailedTarget, *, is_new: bool) -> Iterator[str]:
    since = "" if is_new else ", as in the previous release"
    yield f"- `{failure.target}`, {failure.date[:10]}{since}: {_text(failure.what)}"
    yield f"  - because {_text(failure.why)}"
    if failure.fix:
        yield f"  - to fix: {_text(failure.fix)}"
    yield f"  - more: TROUBLESHOOTING.md#{failure.anchor}"
    if failure.log:
        yield f"  - log: `{failure.log}`"


def _row(cells: Iterable[str]) -> Iterator[str]:
    texts = (cell if "`" in cell else _text(cell) for cell in cells)
    yield f"| {' | '.join(texts)} |"


def _text(text: str) -> str:
    """Return foreign text, of a log or a file, on one line and without Markdown."""
    shown = " ".join(visible(text).split())
    for mark in ("\\", "`", "*", "_", "<", "[", "]", "|"):
        shown = shown.replace(mark, f"\\{mark}")
    return shown


def write_release(plan: Plan, request: ReleaseRequest, last: Release | None) -> Path:
    """Write a release into its folder, which appears when it is complete.

    The caller holds the lock of the folder that is served.

    Raises:
        WheelIndexError: a wheel has changed since the plan was made.
        DiskFullError: no space is left.
    """
    folder = request.to / RELEASES / plan.release.tag
    for part in folder.parent.glob(f".v*{PART}"):  # of a killed run
        remove_tree(part)
    text = public_text(request)
    refuse_secrets(published_texts(plan.wheels))
    with naming_full_disk(request.to), new_folder(folder) as aside:
        wheels = zip(plan.wheels, plan.release.wheels, strict=True)
        publish({path.name: (path.parent, wheel.entry) for path, wheel in wheels}, aside, {})
        refuse_secrets_in_wheels(plan.wheels)
        for place, log in plan.logs.items():
            text.copy_file(log, aside / place)
        for wheel in plan.release.wheels:
            for kind, (_, record) in plan.evidence[wheel.entry.sha256].records.items():
                text.copy_file(record, aside / RECORDS / f"{wheel.entry.name}.{kind}.json")
        release = text.record(plan.release)  # before Markdown escapes signs of a secret
        _write(aside / RECORD, as_file(release))
        notes = text.of(render_notes(release, last))
        _write(aside / NOTES, f"{notes}\n{render_masked(text.masked)}")
        _write(aside / CHECKSUMS, _checksums(aside))
        # Otherwise a power cut can leave the name with empty records and wheels.
        sync_files(aside, [str(aside / name) for name in list_tree(aside)])
    return folder


def write_index(releases: Sequence[Release], request: ReleaseRequest) -> Site:
    """Bring the index up to date with some releases."""
    last = releases[-1]
    folder = request.to / RELEASES / last.tag
    site = SiteRequest(
        folders=(),
        site=request.to,
        address=request.address,
        cache=request.cache,
        replaces_broader=True,  # the plan has checked it
    )
    if request.base_url:
        for wheel in (wheel for release in releases for wheel in release.wheels):
            keep_facts(wheel.facts, wheel.entry.sha256, request.cache)
        base = request.base_url.rstrip("/")
        published = tuple(
            replace(wheel.entry, at=f"{base}/{release.tag}")
            for release in releases
            for wheel in release.wheels
        )
        return write_site(replace(site, base_url=f"{base}/{last.tag}", published=published))
    # Wheels may have been withdrawn in the site alone, so its list is kept. Missing ones may be of
    # an older release, which ended before its index was written.
    lacking = [
        release
        for release in releases
        if not all((site.files / wheel.entry.name).is_file() for wheel in release.wheels)
    ]
    folders = {request.to / RELEASES / release.tag: release for release in lacking}
    written = write_site(replace(site, folders=tuple(folders)))
    for place, release in {**folders, folder: last}.items():
        for wheel in release.wheels:
            _share(site.files / wheel.entry.name, place / wheel.entry.name)
    return written


def _share(source: Path, final: Path) -> None:
    """Let two files of the same bytes be one, where the file system can: neither ever changes."""
    if final.samefile(source):
        return
    aside = final.with_name(f".{final.name}.link")
    with contextlib.suppress(OSError):
        aside.unlink(missing_ok=True)
        aside.hardlink_to(source)
        aside.replace(final)


def _checksums(folder: Path) -> str:
    """Return the checksums of a folder in the form of sha256sum(1)."""
    return "".join(f"{sha256_of_file(folder / name)}  {name}\n" for name in list_tree(folder))


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
