"""The source of the site: what docs/ holds, and pages that are made for the site alone.

The generator (docs/adr/0041) gets a folder of pages that link to each other. On the way there a
link to a file that is no page becomes a download, TROUBLESHOOTING.md becomes one page a cause, and
the lists of docs/index.md become the navigation.
"""

from __future__ import annotations

import functools
import os.path
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.cli.reference.pages import page, table
from cuwheel.cli.reference.troubleshooting import (
    cause_text,
    error_classes,
    errors_section,
    findings_section,
)
from cuwheel.explain.catalogue import causes, groups
from cuwheel.explain.explanation import Explainer
from cuwheel.paths import ROOT
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cuwheel.explain.catalogue import FailureCause, Group

_TROUBLESHOOTING = PurePosixPath("TROUBLESHOOTING.md")
# Pages at the top level of the repository, and where the site has them.
_TOP = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_NOT_SHOWN = PurePosixPath("docs/package.md")  # the text of the package index, as the first page
_CAUSES = PurePosixPath("troubleshooting/index.md")
_ERRORS = PurePosixPath("reference/errors.md")
_FINDINGS = PurePosixPath("reference/findings.md")
_SECTIONS = {
    "": _CAUSES,
    "tools": _CAUSES,
    "what-cuwheel-says": _ERRORS,
    "what-the-audit-finds": _FINDINGS,
    "what-diagnose-finds": _FINDINGS,
}
_DECISIONS = PurePosixPath("adr/index.md")
# Folders that are a page of the site.
_FOLDERS = {"docs/adr": _DECISIONS}
_FILES = PurePosixPath("files")  # what is linked to and is no page

_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)\s#]*)(#[^)\s]*)?(?=\))")
_FOLDER_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)\s#]+)\)")
_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
_FENCE = re.compile(r"^(?:```.*?^```$)", re.MULTILINE | re.DOTALL)
_CAUSES_INTRO = """\
What compilers, installers, loaders and frameworks print when something goes wrong, for packages
built by anyone. Search for a line of your log: the page of its cause has samples of such output.
`cuwheel explain LOG` does the same with a whole log, and says what to do in your case."""
_DECISIONS_INTRO = "What was decided, and why; the newest last."


@dataclass(frozen=True, kw_only=True)
class SitePage:
    """A page of the site's source.

    Attributes:
        origin: the file of the repository that its links start from.
        text: in Markdown.
    """

    origin: PurePosixPath
    text: str


def write_site_source(folder: Path) -> None:
    """Fill a folder with what the generator makes the site from.

    Raises:
        OSError: a page can't be read, or the folder can't be written.
    """
    docs = ROOT / "docs"
    kept = shutil.ignore_patterns("*.md", "__pycache__")
    shutil.copytree(docs, folder, ignore=kept, dirs_exist_ok=True)
    shutil.copy(docs / "site" / "conf.py", folder)
    pages = site_pages()
    for name, made in pages.items():
        written = folder / name
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(_linked(PurePosixPath(name), made, folder), encoding="utf-8")


def site_pages() -> dict[str, SitePage]:
    """Every page: path below the site's source, and text as on the page of the repository."""
    found = {
        str(_place(origin)): SitePage(origin=origin, text=read_text(ROOT / origin))
        for origin in _written_pages()
    }
    index = found["index.md"]
    made = {
        str(_CAUSES): SitePage(origin=_TROUBLESHOOTING, text=_causes_page()),
        str(_ERRORS): SitePage(
            origin=_TROUBLESHOOTING, text=page(["# Errors of cuwheel", *errors_section("##")])
        ),
        str(_FINDINGS): SitePage(
            origin=_TROUBLESHOOTING,
            text=page(["# Findings of audit and diagnose", *findings_section()]),
        ),
        str(_DECISIONS): SitePage(
            origin=PurePosixPath("docs/adr/index.md"), text=_decisions_page(found)
        ),
        "index.md": SitePage(origin=index.origin, text=index.text + _navigation(index)),
    }
    explainer = Explainer()
    for group in groups():
        for cause in group.causes:
            text = _cause_page(cause, group, explainer)
            made[str(_cause_place(cause.slug))] = SitePage(origin=_TROUBLESHOOTING, text=text)
    return found | made


def _written_pages() -> Iterator[PurePosixPath]:
    """Those that stand in the repository."""
    yield from map(PurePosixPath, _TOP)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = PurePosixPath(path.relative_to(ROOT).as_posix())
        if name != _NOT_SHOWN:
            yield name


def _place(origin: PurePosixPath) -> PurePosixPath:
    """Where the site's source has a file of the repository that is a page, or is in docs/."""
    if str(origin) in _TOP:
        return PurePosixPath(_TOP[str(origin)])
    return origin.relative_to("docs")


def _cause_place(slug: str) -> PurePosixPath:
    return _CAUSES.with_name(f"{slug}.md")


def _cause_page(cause: FailureCause, group: Group, explainer: Explainer) -> str:
    """A cause, with everything that is known to be printed: that is what people search for."""
    others = [f"```\n{sample}\n```" for sample in cause.examples[1:]]
    akin = [f"[{causes()[slug].title}](#{slug})" for slug in cause.akin]
    return page(
        [
            "---\norphan: true\n---",  # the sidebar of each page would list them all
            f"# {cause.title}",
            f"Shows at: {cause.stage}. Group: [{group.title}](#tools).",
            cause_text(cause, explainer),
            *([f"**Not to be confused with.** {'; '.join(akin)}"] if akin else []),
            *(["## It also looks like this", *others] if others else []),
        ]
    )


def _causes_page() -> str:
    parts = ["# Failure causes", _CAUSES_INTRO]
    for group in groups():
        rows = [(f"[{one.title}](#{one.slug})", one.stage) for one in group.causes]
        parts += [f"## {group.title}", group.about, table(("what", "where it shows"), rows)]
    return page(parts)


def _decisions_page(written: Mapping[str, SitePage]) -> str:
    """The list of decisions, from their titles."""
    names = sorted(name for name in written if name.startswith("adr/"))
    titles = {name: written[name].text.splitlines()[0].removeprefix("# ") for name in names}
    rows = [f"- [{title}]({PurePosixPath(name).name})" for name, title in titles.items()]
    stems = [PurePosixPath(name).stem for name in names]
    return page(["# Decisions", _DECISIONS_INTRO, "\n".join(rows), _toctree("", stems)])


def _navigation(index: SitePage) -> str:
    """What the generator takes the navigation from: each list of links, below its heading."""
    parts = []
    for section in re.split(r"^## ", index.text, flags=re.MULTILINE)[1:]:
        listed = re.findall(r"^- \[[^\]]*\]\(([^)]+)\)", section, re.MULTILINE)
        places = [_target(index.origin, *_split(link)) for link in listed]
        names = [str(place.with_suffix("")) for place, _ in places if place]
        parts.append(_toctree(section.partition("\n")[0], names))
    return "\n" + page(parts)


def _toctree(caption: str, names: list[str]) -> str:
    head = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join([*head, "", *names, "```"])


def _linked(name: PurePosixPath, made: SitePage, folder: Path) -> str:
    """A page's text with links that work on the site; what they lead to is copied."""

    def to_page(found: re.Match[str]) -> str:
        path, anchor = found[1], (found[2] or "").removeprefix("#")
        place, label = _target(made.origin, path, anchor)
        if place is None:
            return f"#{label}"
        _copy(ROOT / made.origin.parent / path, folder / place)
        start = "" if place == name else os.path.relpath(place, name.parent)
        return f"{start}#{label}" if label else start

    def without_folder(found: re.Match[str]) -> str:
        path = _resolved(made.origin, found[2])
        is_folder = (ROOT / path).is_dir() and str(path) not in _FOLDERS
        return found[1] if is_folder else found[0]

    def change(text: str) -> str:
        text = _FOLDER_LINK.sub(without_folder, text)
        return _ANCHOR.sub(lambda found: f"({_label(found[1])})=", _LINK.sub(to_page, text))

    return _outside_code(made.text, change)


def _copy(file: Path, place: Path) -> None:
    """Take a file along that a page links to; where it isn't there, the generator says so."""
    if place.suffix != ".md" and file.is_file() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """A text in Markdown with everything changed but its blocks of code."""
    parts, end = [], 0
    for block in _FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def _target(origin: PurePosixPath, path: str, anchor: str) -> tuple[PurePosixPath | None, str]:
    """Where a link of a page leads on the site: file and anchor; no file: a label of the site."""
    target = _resolved(origin, path) if path else origin
    if target == _TROUBLESHOOTING:
        return _troubleshooting_target(anchor)
    if str(target) in _FOLDERS:
        return _FOLDERS[str(target)], anchor
    if str(target) in _TOP or target.parts[0] == "docs":
        return _place(target), anchor
    # What is in Markdown and no page of the site is shown as it stands.
    name = f"{target.name}.txt" if target.suffix == ".md" else target.name
    return _FILES / target.with_name(name), ""


def _troubleshooting_target(anchor: str) -> tuple[PurePosixPath | None, str]:
    """Where the site has an entry of TROUBLESHOOTING.md."""
    if anchor in causes():
        return _cause_place(anchor), ""
    if place := _SECTIONS.get(anchor):
        return place, ""
    return None, _label(anchor)  # of an error or a finding; the generator knows them


def _label(anchor: str) -> str:
    """An anchor as it is called on the site, where headings of other pages may have its name."""
    return f"error-{anchor}" if anchor in _error_anchors() else anchor


@functools.cache
def _error_anchors() -> frozenset[str]:
    return frozenset(kind.anchor for kind in error_classes())


def _resolved(origin: PurePosixPath, path: str) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(origin.parent / path))


def _split(link: str) -> tuple[str, str]:
    path, _, anchor = link.partition("#")
    return path, anchor


if __name__ == "__main__":
    write_site_source(Path(sys.argv[1]))
