"""The HTML page of a nightly run, its summary as text, and the command that gets that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.output import html
from cuwheel.base.system.process import run as run_program
from cuwheel.base.system.quantities import show_time
from cuwheel.build.workspace.masking import PublicText
from cuwheel.lab.nightly.record import STATES, NightlyRun, Step

PAGE = "index.html"
_EARLIER = 30  # runs that the page links
_KINDS = {"passed": "good", "failed": "bad", "ended": "warning", "running": "warning"}
_LEGEND = {
    "failed": "it failed, and why",
    "ended": "it was stopped by the time limit or a person",
    "skipped": "not run, and why",
    "passed": "it succeeded",
}
_STYLE = """
td:nth-child(-n+4) { white-space: nowrap; }
td:last-child { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; margin: .4rem 0; font-size: .85em; }
"""
SUMMARY = "summary.txt"
REPORT_VARIABLE = "CUWHEEL_NIGHTLY_REPORT"
_TIME_LIMIT = 600.0  # seconds; a mail server may not answer
# `process.run` can't give a program a file as standard input.
_SCRIPT = 'exec /bin/sh -c "$1" <"$2"'


def page_of(run: NightlyRun, earlier: Sequence[tuple[str, NightlyRun]]) -> str:
    """Return the page of a run, with links to earlier ones by their folders' names."""
    started = run.started.partition("+")[0].replace("T", " ")
    gpu = f"{', '.join(run.gpus)}, driver {run.driver}" if run.gpus else "no GPU"
    about = f"{started} UTC on {run.host}, {gpu}, commit {run.commit[:12] or 'unknown'}"
    legend = ", ".join(f"{_label(state)} {_LEGEND[state]}" for state in STATES)
    items = "\n".join(
        f'<li><a href="../{quote(name)}/{PAGE}">{escape(name)}</a> {_label(before.state)} '
        f"{escape(before.counts)}</li>"
        for name, before in earlier[:_EARLIER]
    )
    body = f"""<h1>Nightly {_label(run.state)}</h1>
<p>{escape(about)}</p>
<p>{escape(run.counts)}, in {show_time(run.seconds)}.</p>
{html.table(("step", "of", "state", "time", ""), map(_row, run.steps))}
<p>{legend}</p>
{f"<h2>Before</h2><ul>{items}</ul>" if items else ""}"""
    return html.page(f"Nightly {started} UTC: {run.state}", body, style=_STYLE)


def _row(step: Step) -> str:
    seconds = show_time(step.seconds) if step.seconds else ""
    cells = (escape(step.name), escape(step.about), _label(step.state), seconds, _detail(step))
    return html.row(cells)


def _detail(step: Step) -> str:
    links = [(step.log, "log")] if step.log else []
    links += [(page, page.rpartition("/")[2]) for page in step.pages]
    shown = ", ".join(f'<a href="{quote(path)}">{escape(name)}</a>' for path, name in links)
    text = " ".join(filter(None, (escape(step.detail), shown)))
    if not step.explanation:
        return text
    return (
        f"{text}<details><summary>what the log says</summary>"
        f"<pre>{escape(step.explanation)}</pre></details>"
    )


def _label(state: str) -> str:
    return html.label(state, _KINDS.get(state, "idle"))


def write_summary(run: NightlyRun, folder: Path) -> Path:
    """Write a run's summary into its report's folder: Markdown that can be sent as a mail.

    Raises:
        OSError: the folder can't be written.
    """
    path = folder / SUMMARY
    text = "\n".join(_lines(run, folder)) + "\n"
    write_atomically(path, PublicText({}, names=False).of(text))
    return path


def run_hook(command: str, folder: Path, environ: Mapping[str, str]) -> int:
    """Run the user's command with the summary as input, and return its exit status.

    Its log is written into the report's folder, whose path is in a variable.

    Raises:
        CommandFailedError: there is no shell.
    """
    argv = ["/bin/sh", "-c", _SCRIPT, "nightly", command, str(folder / SUMMARY)]
    env = {**environ, REPORT_VARIABLE: str(folder / PAGE)}
    log = folder / "logs" / "on-failure.log"
    log.parent.mkdir(exist_ok=True)
    try:
        return run_program(argv, env=env, log=log, timeout=_TIME_LIMIT, check=False).status
    finally:
        if log.is_file():
            PublicText({}, names=False).copy_file(log, log)


def _lines(run: NightlyRun, folder: Path) -> Iterator[str]:
    yield f"nightly on {run.host}, {run.started}: {run.state}\n"
    yield f"{run.counts}, in {show_time(run.seconds)}"
    yield f"commit: {run.commit or 'unknown'}"
    yield f"GPU: {', '.join(run.gpus) or 'none'}"
    yield f"report: {folder / PAGE}\n"
    for step in run.steps:
        detail = f": {step.detail}" if step.detail else ""
        yield f"- {step.state:<7} {step.title} ({show_time(step.seconds)}){detail}"
    for step in run.steps:
        if step.state == "failed":
            yield f"\n## {step.title}\n"
            if step.log:
                yield f"log: {folder / step.log}\n"
            # Four tildes: a log may hold three backticks.
            yield f"~~~~\n{step.explanation or step.detail}\n~~~~"
