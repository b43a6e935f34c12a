"""The pages for people: what there is, for what it is, and the line to copy. They load nothing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from cuwheel.index.facts import oldest_glibc, pythons
from cuwheel.system.quantities import plural, show_size
from cuwheel.wheel.publication import STATEMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cuwheel.index.entries import Entry
    from cuwheel.index.facts import WheelFacts

_ADDRESS = "ADDRESS"  # stands for where the site is, until a browser knows it
_TITLES = (
    *("package", "version", "CUDA", "Python", "framework", "archs"),
    *("oldest driver", "glibc", "size", "date"),
)
_CHOICES = ("CUDA", "Python", "framework", "archs")  # columns that can be chosen from
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem;
  padding: 0 1rem; color: #1c2024; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid #e3e6e9;
  vertical-align: top; overflow-wrap: break-word; }
form { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; }
input, select { font: inherit; padding: .25rem; max-width: 100%; }
pre { background: #f3f5f7; padding: .6rem; overflow-x: auto; }
code { font-size: .9em; overflow-wrap: anywhere; }
section { border-top: 1px solid #e3e6e9; padding-top: .5rem; }
.yanked { color: #b3261e; } .scroll { overflow-x: auto; }
.scroll td:nth-last-child(-n+2) { white-space: nowrap; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8ea; background: #16181a; } th, td, section { border-color: #333; }
  pre { background: #22262a; } a { color: #7cc0ff; } .yanked { color: #ff8a80; }
  input, select { color: inherit; background: #22262a; border: 1px solid #555; } }
"""
_FILTER = """
const form = document.forms[0], rows = [...document.querySelectorAll('tbody tr')];
const names = [...form.querySelectorAll('select')].map(one => one.name);
const show = () => {
  const words = form.text.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let count = 0;
  for (const row of rows) {
    const fits = words.every(word => row.dataset.text.includes(word)) && names.every(name =>
      !form[name].value || row.dataset[name].split('|').includes(form[name].value));
    row.hidden = !fits;
    count += fits;
  }
  document.getElementById('count').textContent = count;
};
form.addEventListener('input', show);
form.addEventListener('submit', event => event.preventDefault());
form.hidden = false;
for (const [name, value] of new URLSearchParams(location.search))
  if (form[name]) form[name].value = value;
show();
"""
_FILL = """
const address = new URL('../../', location).href.replace(/\\/$/, '');
for (const one of document.querySelectorAll('code'))
  one.textContent = one.textContent.replaceAll('ADDRESS', address);
"""


@dataclass(frozen=True, kw_only=True)
class ListedWheel:
    """A wheel as the pages show it.

    Attributes:
        entry: as the index has it.
        cuda: `cu130`; empty: it isn't for one release.
        facts: what is in it.
    """

    entry: Entry
    cuda: str
    facts: WheelFacts

    @cached_property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """What can be chosen of it, by column."""
        return {
            "CUDA": (self.cuda,),
            "Python": (pythons(self.entry),),
            "framework": (self.entry.framework,),
            "archs": self.facts.archs,
        }

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The columns behind the package's name."""
        entry, facts = self.entry, self.facts
        return (
            f"{entry.shown_version}{' (yanked)' if entry.yanked is not None else ''}",
            self.cuda or ", ".join(map(str, facts.cuda)),
            *self.choices["Python"],
            entry.framework,
            _archs(facts),
            ", ".join(facts.drivers),
            oldest_glibc(entry),
            show_size(entry.size),
            entry.uploaded[:10],
        )


def people_pages(
    wheels: Iterable[ListedWheel], *, files: str, address: str
) -> tuple[bytes, dict[str, bytes]]:
    """The page of all wheels, and one for each project by its path below `packages/`.

    Args:
        wheels: all of them.
        files: address of the wheels' folder; empty: `files/` in the site.
        address: of the site; empty: the browser fills it in.
    """
    ordered = sorted(
        wheels, key=lambda one: (one.entry.project, one.entry.version, one.entry.name), reverse=True
    )
    projects: dict[str, list[ListedWheel]] = defaultdict(list)
    for one in reversed(ordered):
        projects[one.entry.project].insert(0, one)
    pages = {
        f"{project}/index.html": _project_page(project, found, files, address).encode()
        for project, found in projects.items()
    }
    rows = [one for found in projects.values() for one in found]
    return _home_page(rows).encode(), pages


def _home_page(wheels: Sequence[ListedWheel]) -> str:
    head = "".join(f"<th>{title}</th>" for title in _TITLES)
    rows = "\n".join(map(_row, wheels))
    return _page(
        "CUDA wheels",
        f"""<h1>CUDA wheels</h1>
<p><span id="count">{len(wheels)}</span> of {plural(len(wheels), "wheel")}. For installers:
<a href="simple/index.html">simple/</a>{_cuda_links(wheels)}.</p>
<form hidden><label>search <input name="text" type="search" size="24"></label>
{_selects(wheels)}</form>
<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></div>
<script>{_FILTER}</script>""",
    )


def _cuda_links(wheels: Iterable[ListedWheel]) -> str:
    tags = sorted({one.cuda for one in wheels} - {""})
    return "".join(f', <a href="{tag}/simple/index.html">{tag}/simple/</a>' for tag in tags)


def _selects(wheels: Sequence[ListedWheel]) -> str:
    found = []
    for title in _CHOICES:
        values = sorted({value for one in wheels for value in one.choices[title]})
        options = "".join(f"<option>{escape(value)}</option>" for value in values if value)
        name = title.lower()
        found.append(
            f'<label>{title} <select name="{name}"><option value="">any</option>{options}</select>'
            "</label>"
        )
    return "\n".join(found)


def _row(one: ListedWheel) -> str:
    entry = one.entry
    chosen = " ".join(
        f'data-{title.lower()}="{escape("|".join(values))}"'
        for title, values in one.choices.items()
    )
    link = f"packages/{quote(entry.project)}/index.html#{entry.quoted}"
    cells = [f'<a href="{escape(link)}">{escape(entry.project)}</a>', *map(escape, one.cells)]
    text = escape(" ".join((entry.name.lower(), *one.cells)).lower())
    yanked = ' class="yanked"' if entry.yanked is not None else ""
    return f'<tr{yanked} {chosen} data-text="{text}"><td>{"</td><td>".join(cells)}</td></tr>'


def _archs(facts: WheelFacts) -> str:
    return ", ".join([*facts.archs, *(f"{arch} (PTX)" for arch in facts.ptx)])


def _project_page(project: str, wheels: Sequence[ListedWheel], files: str, address: str) -> str:
    parts = "\n".join(_section(one, files or "../../files", address or _ADDRESS) for one in wheels)
    unknown = "" if address else f"<p>{_ADDRESS} is the address of this folder.</p>"
    script = "" if address else f"<script>{_FILL}</script>"
    return _page(
        project,
        f"""<p><a href="../../index.html">all wheels</a></p>
<h1>{escape(project)}</h1>
<noscript>{unknown}</noscript>
{parts}
{script}""",
    )


def _section(one: ListedWheel, files: str, address: str) -> str:
    entry = one.entry
    files = entry.at or files
    file = f"{files}/{entry.quoted}"
    facts = [(title, text) for title, text in zip(_TITLES[1:], one.cells, strict=True) if text]
    rows = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    statement = _statement_link(entry, files)
    yanked = ""
    if entry.yanked is not None:
        yanked = f'<p class="yanked">Yanked: {escape(entry.yanked)}</p>'
    return f"""<section id="{escape(entry.quoted)}">
<h2><a href="{escape(file)}">{escape(entry.name)}</a></h2>
{yanked}<table><tbody>{rows}
<tr><th>SHA-256</th><td><code>{entry.sha256}</code>{statement}</td></tr></tbody></table>
{_lines(one, file if "://" in files else f"{address}/files/{entry.quoted}", address)}
</section>"""


def _statement_link(entry: Entry, files: str) -> str:
    if not entry.has_statement:
        return ""
    address = f"{files}/{entry.quoted}{STATEMENT}"
    return f', <a href="{escape(address)}">provenance</a>'


def _lines(one: ListedWheel, file: str, address: str) -> str:
    """What to copy: for pip, for uv's pyproject.toml, for requirements with hashes."""
    entry = one.entry
    index = f"{address}/{f'{one.cuda}/' if one.cuda else ''}simple/"
    name = f"cuwheel-{one.cuda}" if one.cuda else "cuwheel"
    texts = {
        "pip": f"pip install '{entry.project} @ {file}#sha256={entry.sha256}'",
        "requirements.txt": f"{entry.project} @ {file} --hash=sha256:{entry.sha256}",
        "uv, pyproject.toml": f"""[[tool.uv.index]]
name = "{name}"
url = "{index}"
explicit = true

[tool.uv.sources]
{entry.project} = {{ index = "{name}" }}

[project]
dependencies = ["{entry.project}=={entry.shown_version}"]""",
    }
    return "\n".join(
        f"<h3>{title}</h3><pre><code>{escape(text)}</code></pre>" for title, text in texts.items()
    )


def _page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
{body}
</html>
"""
