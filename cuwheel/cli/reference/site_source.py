"""The source of the site: docs/, and pages that are made for the site alone.

The generator (docs/adr/0041) gets a folder of pages that link to each other: a link to another file
becomes a download, TROUBLESHOOTING.md one page a cause, and the lists of docs/index.md the
navigation.
"""

from __future__ import annotations

import os.path
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cuwheel.base.errors import EXIT_CODES
from cuwheel.base.paths import ROOT
from cuwheel.base.system.regular_files import read_text
from cuwheel.check.explain.catalogue import FailureCause, Group, causes, groups
from cuwheel.check.explain.explanation import Explainer
from cuwheel.cli.reference.pages import page, table
from cuwheel.cli.reference.troubleshooting import (
    cause_text,
    errors_page,
    findings_page,
)

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
# Folders that are a page of the site: its heading, and what the pages in it are.
_FOLDERS = {
    "docs/adr": ("# Decisions", "What was decided, and why; the newest last."),
    "docs/evidence": (
        "# Evidence",
        "Measurements with date and machine; the newest last.",
    ),
}
_FILES = PurePosixPath("files")  # linked files that are no pages

_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)\s#]*)(#[^)\s]*)?(?=\))")
_FOLDER_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)\s#]+)\)")
_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
_FENCE = re.compile(r"^(?:```.*?^```$)", re.MULTILINE | re.DOTALL)
_CAUSES_INTRO = """\
What compilers, installers, loaders and frameworks print when something goes wrong, for packages
built by anyone. Search for a line of your log: the page of its cause has samples of such output.
`cuwheel explain LOG` does the same with a whole log, and says what to do in your case."""


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
    """Fill a folder with the source of the site."""
    docs = ROOT / "docs"
    ignored = shutil.ignore_patterns("*.md", "__pycache__")
    shutil.copytree(docs, folder, ignore=ignored, dirs_exist_ok=True)
    shutil.copy(docs / "site" / "conf.py", folder)
    pages = site_pages()
    for name, site_page in pages.items():
        written = folder / name
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(_linked(PurePosixPath(name), site_page, folder), encoding="utf-8")


def site_pages() -> dict[str, SitePage]:
    """Return every page by its path below the site's source, with the repository's links."""
    written = {
        str(_place(origin)): SitePage(origin=origin, text=read_text(ROOT / origin))
        for origin in _written_pages()
    }
    index = written["index.md"]
    made = (
        (_CAUSES, _TROUBLESHOOTING, _causes_page()),
        (_ERRORS, _TROUBLESHOOTING, errors_page()),
        (_FINDINGS, _TROUBLESHOOTING, findings_page()),
        *(
            (f"{_place(folder)}/index.md", folder / "index.md", _folder_page(written, folder))
            for folder in map(PurePosixPath, _FOLDERS)
        ),
        ("index.md", index.origin, index.text + _navigation(index)),
    )
    generated = {str(place): SitePage(origin=origin, text=text) for place, origin, text in made}
    explainer = Explainer()
    for group in groups():
        for cause in group.causes:
            text = _cause_page(cause, group, explainer)
            generated[str(_cause_place(cause.slug))] = SitePage(origin=_TROUBLESHOOTING, text=text)
    return written | generated


def _written_pages() -> Iterator[PurePosixPath]:
    yield from map(PurePosixPath, _TOP)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = PurePosixPath(path.relative_to(ROOT).as_posix())
        if name != _NOT_SHOWN:
            yield name


def _place(origin: PurePosixPath) -> PurePosixPath:
    """Return the site's path of a file of the repository that is a page, or is in docs/."""
    if str(origin) in _TOP:
        return PurePosixPath(_TOP[str(origin)])
    return origin.relative_to("docs")


def _cause_place(slug: str) -> PurePosixPath:
    return _CAUSES.with_name(f"{slug}.md")


def _cause_page(cause: FailureCause, group: Group, explainer: Explainer) -> str:
    """Return a cause with all output that is known for it, for people who search for it."""
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
        rows = [(f"[{cause.title}](#{cause.slug})", cause.stage) for cause in group.causes]
        parts += [f"## {group.title}", group.about, table(("what", "where it shows"), rows)]
    return page(parts)


def _folder_page(written: Mapping[str, SitePage], folder: PurePosixPath) -> str:
    heading, intro = _FOLDERS[str(folder)]
    names = sorted(name for name in written if name.startswith(f"{_place(folder)}/"))
    titles = {name: written[name].text.splitlines()[0].removeprefix("# ") for name in names}
    rows = [f"- [{title}]({PurePosixPath(name).name})" for name, title in titles.items()]
    stems = [PurePosixPath(name).stem for name in names]
    return page([heading, intro, "\n".join(rows), _toctree("", stems)])


def _navigation(index: SitePage) -> str:
    """Return the source of the navigation: each list of links, below its heading."""
    parts = []
    for section in re.split(r"^## ", index.text, flags=re.MULTILINE)[1:]:
        listed = re.findall(r"^- \[[^\]]*\]\(([^)#]+)(?:#([^)]*))?\)", section, re.MULTILINE)
        places = [_target(index.origin, path, anchor) for path, anchor in listed]
        names = [str(place.with_suffix("")) for place, _ in places if place]
        parts.append(_toctree(section.partition("\n")[0], names))
    return "\n" + page(parts)


def _toctree(caption: str, names: list[str]) -> str:
    head = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join([*head, "", *names, "```"])


def _linked(name: PurePosixPath, source: SitePage, folder: Path) -> str:
    """Return a page's text with links that work on the site; copy the linked files."""

    def to_page(match: re.Match[str]) -> str:
        path, anchor = match[1], (match[2] or "").removeprefix("#")
        place, label = _target(source.origin, path, anchor)
        if place is None:
            return f"#{label}"
        _copy(ROOT / source.origin.parent / path, folder / place)
        start = "" if place == name else os.path.relpath(place, name.parent)
        return f"{start}#{label}" if label else start

    def without_folder(match: re.Match[str]) -> str:
        path = _resolved(source.origin, match[2])
        is_folder = (ROOT / path).is_dir() and str(path) not in _FOLDERS
        return match[1] if is_folder else match[0]

    def change(text: str) -> str:
        text = _FOLDER_LINK.sub(without_folder, text)
        return _ANCHOR.sub(lambda match: f"({_label(match[1])})=", _LINK.sub(to_page, text))

    return _outside_code(source.text, change)


def _copy(file: Path, place: Path) -> None:
    """Copy a file that a page links to; the generator reports a missing one."""
    if place.suffix != ".md" and file.is_file() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change a text in Markdown, but not its blocks of code."""
    parts, end = [], 0
    for block in _FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def _target(origin: PurePosixPath, path: str, anchor: str) -> tuple[PurePosixPath | None, str]:
    """Return file and anchor of a link on the site; no file: a label of the site."""
    target = _resolved(origin, path) if path else origin
    if target == _TROUBLESHOOTING:
        return _troubleshooting_target(anchor)
    if str(target) in _FOLDERS:
        return _place(target) / "index.md", anchor
    if str(target) in _TOP or target.parts[0] == "docs":
        return _place(target), anchor
    # Other files in Markdown are shown as text.
    name = f"{target.name}.txt" if target.suffix == ".md" else target.name
    return _FILES / target.with_name(name), ""


def _troubleshooting_target(anchor: str) -> tuple[PurePosixPath | None, str]:
    """Return the same for an entry of TROUBLESHOOTING.md."""
    if anchor in causes():
        return _cause_place(anchor), ""
    if place := _SECTIONS.get(anchor):
        return place, ""
    return None, _label(anchor)  # of an error or a finding; the generator knows them


def _label(anchor: str) -> str:
    """Return an anchor's name on the site, where headings of other pages may have it."""
    return f"error-{anchor}" if anchor in EXIT_CODES else anchor


def _resolved(origin: PurePosixPath, path: str) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(origin.parent / path))
