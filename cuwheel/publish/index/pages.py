"""The HTML pages of a site: a table of all wheels, and install commands for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from urllib.parse import quote

from cuwheel.base.formats.wheel.publication import STATEMENT
from cuwheel.base.system.output import html
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.wheelhouse.facts import WheelFacts
from cuwheel.check.audit.tags import describe_pythons, oldest_glibc
from cuwheel.check.cuda.torch_exports import describe_releases

_ADDRESS = "ADDRESS"  # of the site, which a script in the browser replaces
_TITLES = (
    *("package", "version", "CUDA", "Python", "framework", "loads with torch", "archs"),
    *("oldest driver", "glibc", "size", "date"),
)
_CHOICES = ("CUDA", "Python", "framework", "archs")  # columns with a filter
_STYLE = """
form { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; }
input, select { font: inherit; padding: .25rem; max-width: 100%; }
pre { background: #f3f5f7; padding: .6rem; overflow-x: auto; }
section { border-top: 1px solid #e3e6e9; padding-top: .5rem; }
.scrolling td:nth-last-child(-n+2) { white-space: nowrap; }
button { font: inherit; float: right; padding: .25rem .6rem; }
@media (prefers-color-scheme: dark) {
  pre { background: #22262a; }
  button, input, select { color: inherit; background: #22262a; border: 1px solid #555; } }
"""
_FILTER = """
const form = document.forms[0], rows = [...document.querySelectorAll('tbody tr')];
const names = [...form.querySelectorAll('select')].map(select => select.name);
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
for (const code of document.querySelectorAll('code'))
  code.textContent = code.textContent.replaceAll('ADDRESS', address);
"""
_COPY = """
for (const block of navigator.clipboard ? document.querySelectorAll('pre') : []) {
  const button = document.createElement('button');
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(block.textContent);
    button.textContent = 'Copied';
  });
  block.before(button);
}
"""


@dataclass(frozen=True, kw_only=True)
class ListedWheel:
    """A wheel on a page; `cuda` is `cu130`, or empty for wheels of no particular release."""

    entry: Entry
    cuda: str
    facts: WheelFacts

    @cached_property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """Its values in the columns with a filter."""
        return {
            "CUDA": (self.cuda,),
            "Python": (describe_pythons(self.entry.tags),),
            "framework": (self.entry.framework,),
            "archs": self.facts.archs,
        }

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The columns after the package's name."""
        entry, facts = self.entry, self.facts
        return (
            f"{entry.shown_version}{' (yanked)' if entry.yanked is not None else ''}",
            self.cuda or ", ".join(map(str, facts.cuda)),
            *self.choices["Python"],
            entry.framework,
            describe_releases(facts.torch),
            ", ".join([*facts.archs, *(f"{arch} (PTX)" for arch in facts.ptx)]),
            ", ".join(facts.drivers),
            oldest_glibc(entry.tags),
            show_size(entry.size),
            entry.uploaded[:10],
        )


def people_pages(
    wheels: Iterable[ListedWheel], *, files: str, address: str
) -> tuple[bytes, dict[str, bytes]]:
    """Return the page of all wheels, and that of each project by its path in `packages/`.

    Args:
        files: address of the wheels' folder; empty: `files/` in the site.
        address: of the site; empty: the browser fills it in.
    """
    projects: dict[str, list[ListedWheel]] = defaultdict(list)
    for wheel in sorted(wheels, key=lambda wheel: wheel.entry.project):
        projects[wheel.entry.project].append(wheel)
    for listed in projects.values():
        listed.sort(key=lambda wheel: (wheel.entry.version, wheel.entry.name), reverse=True)
    pages = {
        f"{project}/index.html": _project_page(project, listed, files, address).encode()
        for project, listed in projects.items()
    }
    rows = [wheel for listed in projects.values() for wheel in listed]
    return _home_page(rows).encode(), pages


def _home_page(wheels: Sequence[ListedWheel]) -> str:
    tags = sorted({wheel.cuda for wheel in wheels} - {""})
    links = "".join(f', <a href="{tag}/simple/index.html">{tag}/simple/</a>' for tag in tags)
    body = f"""<h1>CUDA wheels</h1>
<p><span id="count">{len(wheels)}</span> of {plural(len(wheels), "wheel")}. For installers:
<a href="simple/index.html">simple/</a>{links}.</p>
<form hidden><label>search <input name="text" type="search" size="24"></label>
{_selects(wheels)}</form>
{html.scrolling(html.table(_TITLES, map(_row, wheels)), "all wheels")}
<script>{_FILTER}</script>"""
    return html.page("CUDA wheels", body, style=_STYLE)


def _selects(wheels: Sequence[ListedWheel]) -> str:
    selects = []
    for title in _CHOICES:
        values = sorted({value for wheel in wheels for value in wheel.choices[title]})
        options = "".join(f"<option>{escape(value)}</option>" for value in values if value)
        selects.append(
            f'<label>{title} <select name="{title.lower()}"><option value="">any</option>'
            f"{options}</select></label>"
        )
    return "\n".join(selects)


def _row(wheel: ListedWheel) -> str:
    entry = wheel.entry
    choices = "".join(
        f' data-{title.lower()}="{escape("|".join(values))}"'
        for title, values in wheel.choices.items()
    )
    link = f"packages/{quote(entry.project)}/index.html#{entry.quoted}"
    cells = [f'<a href="{escape(link)}">{escape(entry.project)}</a>', *map(escape, wheel.cells)]
    text = escape(" ".join((entry.name.lower(), *wheel.cells)).lower())
    yanked = ' class="yanked"' if entry.yanked is not None else ""
    return html.row(cells, f'{yanked}{choices} data-text="{text}"')


def _project_page(project: str, wheels: Sequence[ListedWheel], files: str, address: str) -> str:
    parts = "\n".join(
        _section(wheel, files or "../../files", address or _ADDRESS) for wheel in wheels
    )
    unknown = "" if address else f"<p>{_ADDRESS} is the address of this folder.</p>"
    script = f"<script>{'' if address else _FILL}{_COPY}</script>"
    body = f"""<p><a href="../../index.html">all wheels</a></p>
<h1>{escape(project)}</h1>
<noscript>{unknown}</noscript>
{parts}
{script}"""
    return html.page(project, body, style=_STYLE)


def _section(wheel: ListedWheel, files: str, address: str) -> str:
    entry = wheel.entry
    files = entry.at or files
    file = f"{files}/{entry.quoted}"
    facts = [(title, text) for title, text in zip(_TITLES[1:], wheel.cells, strict=True) if text]
    rows = "".join(
        f"<tr><th scope='row'>{name}</th><td>{escape(text)}</td></tr>" for name, text in facts
    )
    statement = ""
    if entry.has_statement:
        statement = f', <a href="{escape(f"{file}{STATEMENT}")}">provenance</a>'
    yanked = ""
    if entry.yanked is not None:
        yanked = f'<p class="yanked">Yanked: {escape(entry.yanked)}</p>'
    return f"""<section id="{escape(entry.quoted)}">
<h2><a href="{escape(file)}">{escape(entry.name)}</a></h2>
{yanked}<table><tbody>{rows}
<tr><th scope="row">SHA-256</th><td><code>{entry.sha256}</code>{statement}</td></tr></tbody></table>
{_grid(wheel.facts)}
{_commands(wheel, file if "://" in files else f"{address}/files/{entry.quoted}", address)}
</section>"""


def _grid(facts: WheelFacts) -> str:
    """Return the table of libraries and archs; empty where all have code for the same."""
    if not facts.grid:
        return ""
    archs = tuple(dict.fromkeys(arch for _, known in facts.grid for arch in known))
    rows = (
        html.row([escape(name), *("yes" if arch in known else "" for arch in archs)])
        for name, known in facts.grid
    )
    table = html.table(("code for", *archs), rows)
    return html.scrolling(table, "libraries and archs") + "\n"


def _commands(wheel: ListedWheel, file: str, address: str) -> str:
    """Return install commands for pip, uv's pyproject.toml, and requirements with hashes."""
    entry = wheel.entry
    index = f"{address}/{f'{wheel.cuda}/' if wheel.cuda else ''}simple/"
    name = f"cuwheel-{wheel.cuda}" if wheel.cuda else "cuwheel"
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
        f"<h3>{title}</h3><pre tabindex='0'><code>{escape(text)}</code></pre>"
        for title, text in texts.items()
    )
