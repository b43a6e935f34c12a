"""The notes of a release, as Markdown: what is new, what failed and why, how to check it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.index.facts import cuda_tag, oldest_glibc, pythons
from cuwheel.system.output.terminal import visible
from cuwheel.system.quantities import plural, show_size
from cuwheel.wheel.publication import STATEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cuwheel.release.record import FailedTarget, Release, ReleasedWheel

NOTES = "notes.md"
CHECKSUMS = "SHA256SUMS"
_TITLES = ("", "wheel", "CUDA", "Python", "framework", "archs", "oldest driver", "glibc", "size")


def render_notes(release: Release, last: Release | None) -> str:
    """The notes.

    Args:
        release: this one.
        last: the one before; None: this is the first.
    """
    return "\n".join((*_head(release), *_wheels(release), *_failures(release, last), *_check()))


def headline(release: Release) -> str:
    """`2 wheels; 1 target failed`."""
    failed = f"; {plural(len(release.failed), 'target')} failed" if release.failed else ""
    return f"{plural(len(release.wheels), 'wheel')}{failed}"


def withdrawn_since(last: Release | None, release: Release) -> dict[str, str | None]:
    """Reasons of what was withdrawn since the release before; None: it is good again."""
    before = dict(last.withdrawn) if last else {}
    now = dict(release.withdrawn)
    new = {name: why for name, why in now.items() if before.get(name) != why}
    return {**new, **dict.fromkeys(before.keys() - now.keys())}


def _head(release: Release) -> Iterator[str]:
    since = f"New since {release.previous}" if release.previous else "The first release"
    counts = {
        change: sum(one.change == change for one in release.wheels)
        for change in ("new package", "new version", "new wheel", "new build")
    }
    named = {"new wheel": "new wheel of a known version", "new build": "new build of a known wheel"}
    told = [_count_of(count, named.get(name, name)) for name, count in counts.items() if count]
    yield f"# {release.tag}"
    yield ""
    yield f"{headline(release)}. {since}: {', '.join(told) or 'nothing'}."
    if release.works_again:
        yield f"No longer failing: {', '.join(f'`{one}`' for one in release.works_again)}."
    yield ""


def _count_of(count: int, noun: str) -> str:
    """`2 new wheels of a known version`: the noun is what stands before `of`."""
    first, of, rest = noun.partition(" of ")
    return f"{plural(count, first)}{of}{rest}"


def _wheels(release: Release) -> Iterator[str]:
    if not release.wheels:  # it may do no more than withdraw some
        return
    yield from ("## Wheels", "", *_row(_TITLES), *_row("---" for _ in _TITLES))
    for one in release.wheels:
        yield from _row(_cells(one))
    yield ""
    for one in release.wheels:
        yield f"- `{one.entry.name}`"
        yield f"  - SHA-256 `{one.entry.sha256}`"
        yield from (f"  - {line}" for line in _evidence(one))
    yield ""


def _cells(one: ReleasedWheel) -> Iterator[str]:
    entry, facts = one.entry, one.facts
    yield one.change
    yield f"`{entry.project}` {entry.version}"
    yield cuda_tag(entry) or ", ".join(map(str, facts.cuda))
    yield pythons(entry)
    yield entry.framework
    yield ", ".join((*facts.archs, *(f"{arch} (PTX)" for arch in facts.ptx)))
    yield ", ".join(facts.drivers)
    yield oldest_glibc(entry)
    yield show_size(entry.size)


def _evidence(one: ReleasedWheel) -> Iterator[str]:
    has = one.entry.has_statement
    yield f"provenance `{one.entry.name}{STATEMENT}`" if has else "no provenance"
    yield f"perf: {_text(one.perf) or 'not measured'}"
    yield f"verify: {_text(one.verify) or 'not built again'}"
    if one.log:
        yield f"log of its build: `{one.log}`"


def _failures(release: Release, last: Release | None) -> Iterator[str]:
    known = {one.target for one in last.failed} if last else set()
    if release.failed:
        yield from ("## Failed", "")
    for one in release.failed:
        yield from _failure(one, is_new=one.target not in known)
    changed = withdrawn_since(last, release)
    if changed:
        yield from ("## Withdrawn", "")
    for name, why in changed.items():
        yield f"- `{name}`: {'no longer withdrawn' if why is None else _text(why)}"
    if changed:
        yield ""


def _failure(one: FailedTarget, *, is_new: bool) -> Iterator[str]:
    since = "" if is_new else ", as in the previous release"
    yield f"- `{one.target}`, {one.date[:10]}{since}: {_text(one.what)}"
    yield f"  - because {_text(one.why)}"
    if one.fix:
        yield f"  - to fix: {_text(one.fix)}"
    yield f"  - more: TROUBLESHOOTING.md#{one.anchor}"
    if one.log:
        yield f"  - log: `{one.log}`"


def _check() -> Sequence[str]:
    return (
        "## Check it",
        "",
        (
            f"`sha256sum --check {CHECKSUMS}` in the release's folder checks all files against "
            "their hashes;"
        ),
        "`nox -s rebuild -- WHEEL` builds a wheel again from its provenance and compares.",
        "",
    )


def _row(cells: Iterator[str] | Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(words: str) -> str:
    return _text(words) if "`" not in words else words


def _text(words: str) -> str:
    """Words from elsewhere, of a log or a file, on one line and as nothing but text."""
    shown = " ".join(visible(words).split())
    for mark in ("\\", "`", "*", "_", "<", "[", "]", "|"):
        shown = shown.replace(mark, f"\\{mark}")
    return shown
