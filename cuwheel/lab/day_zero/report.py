"""Verdicts on a framework's release: as a table, and as a page in HTML or Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path

import rich.console
import rich.markup
import rich.table

from cuwheel.base.spelling import as_typed
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.output import html
from cuwheel.base.system.output.documents import as_file
from cuwheel.base.system.output.github import block, cell
from cuwheel.base.system.quantities import plural, show_size, show_time
from cuwheel.build.workspace.masking import PublicText
from cuwheel.lab.day_zero.verdict import DayZeroDocument, State, Verdict

_COLOURS: dict[State, str] = {
    "works": "green",
    "works with changes": "yellow",
    "broken": "red",
    "unknown": "cyan",
}
_LABELS = {"works": "good", "works with changes": "warning", "broken": "bad", "unknown": "open"}
_TITLES = ("recipe", "verdict", "changes, or cause", "compiled", "time")


def print_verdicts(document: DayZeroDocument, terminal: rich.console.Console) -> None:
    """Print a row for each recipe, then each change as a diff with its command."""
    table = rich.table.Table(box=None, pad_edge=False, header_style="bold")
    for title in _TITLES:
        table.add_column(title, overflow="fold", no_wrap=title in {"recipe", "time"})
    for verdict in document.verdicts:
        name, _, *rest = map(rich.markup.escape, _row(verdict))
        table.add_row(name, f"[{_COLOURS[verdict.state]}]{verdict.state}[/]", *rest)
    terminal.print(table)
    for verdict in document.verdicts:
        if verdict.diff:
            terminal.print("")
            terminal.out(verdict.diff, highlight=False)
        if verdict.command:
            terminal.print(f"{verdict.recipe}: `{as_typed(verdict.command)}`", soft_wrap=True)
        if verdict.error:
            terminal.print(f"{verdict.recipe}: {verdict.error}", markup=False, soft_wrap=True)
        if verdict.log:
            terminal.print(f"{verdict.recipe}: log {verdict.log}", markup=False, soft_wrap=True)
    terminal.print("")
    terminal.print(summary_of(document), soft_wrap=True)


def summary_of(document: DayZeroDocument) -> str:
    """Return `torch==2.15.0 (CUDA 13.2), Python 3.12: 3 recipes: 2 works, 1 broken`."""
    counts = Counter(verdict.state for verdict in document.verdicts)
    named = ", ".join(f"{counts[state]} {state}" for state in _COLOURS if counts[state])
    recipes = plural(len(document.verdicts), "recipe")
    start = f"{document.framework} (CUDA {document.cuda}), Python {document.python}"
    start += "".join(f", sm_{arch}" for arch in document.archs)
    kept = f"; held back: {', '.join(document.held_back)}" if document.held_back else ""
    tried = [verdict for verdict in document.verdicts if verdict.target]
    is_quick = tried and not any(verdict.files for verdict in tried)
    quick = "; no file of a package was compiled" if is_quick else ""
    return f"{start}: {recipes}: {named or 'none was tried'}{quick}{kept}"


def write_reports(document: DayZeroDocument, json: Path | None, page: Path | None) -> None:
    """Write a document as JSON, and as a page: Markdown for a name in `.md`, else HTML.

    Raises:
        OSError: a file can't be written.
    """
    text = PublicText({}, names=False)
    if json:
        write_atomically(json, text.of(as_file(document)))
    if page:
        is_markdown = page.suffix == ".md"
        content = "\n".join(_markdown(document)) if is_markdown else _html(document)
        write_atomically(page, text.of(content))


def _row(verdict: Verdict) -> tuple[str, ...]:
    detail = verdict.why or ", ".join(verdict.changes)
    return (
        f"{verdict.recipe} {verdict.version}".strip(),
        verdict.state,
        detail,
        "\n".join(_files(verdict)),
        show_time(verdict.seconds),
    )


def _files(verdict: Verdict) -> Iterator[str]:
    for file in verdict.files:
        figures = f"{show_time(file.seconds)}, {show_size(file.peak_memory)}"
        yield f"{Path(file.file).name} ({file.part} of {verdict.count}): {figures}"
    if verdict.target and not verdict.files:
        yield "nothing (--quick)"
    if verdict.wheel:
        yield verdict.wheel


def _markdown(document: DayZeroDocument) -> Iterator[str]:
    yield from (f"# Day zero of {document.framework}", "")
    yield from (f"{document.date}. {summary_of(document)}.", "")
    yield f"| {' | '.join(_TITLES)} |"
    yield f"|{' --- |' * len(_TITLES)}"
    for verdict in document.verdicts:
        yield f"| {' | '.join(cell(text.replace(chr(10), '; ')) for text in _row(verdict))} |"
    for verdict in document.verdicts:
        if verdict.diff or verdict.error:
            yield from ("", f"## {verdict.recipe}")
            yield from block(verdict.diff or verdict.error)
            if verdict.diff:
                yield from ("", f"`{as_typed(verdict.command)}`")
    yield ""


def _html(document: DayZeroDocument) -> str:
    rows = []
    for verdict in document.verdicts:
        name, state, detail, files, seconds = map(escape, _row(verdict))
        label = html.label(state, _LABELS[verdict.state])
        more = f"<pre>{escape(verdict.diff or verdict.error)}</pre>"
        if verdict.diff:
            more += f"<code>{escape(as_typed(verdict.command))}</code>"
        files = files.replace("\n", "<br>")
        rows.append(html.row((name, label, detail + more, files, seconds)))
    title = f"Day zero of {document.framework}"
    body = f"<h1>{escape(title)}</h1>\n<p>{escape(summary_of(document))}. {document.date}.</p>\n"
    return html.page(title, body + html.table(_TITLES, rows))
