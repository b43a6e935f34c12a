"""What the session new says at its end: what was found, guessed and not known, and what is next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import rich.markup

from cuwheel.drafts.choices import NOBODY
from cuwheel.drafts.target_choice import ARCHS, TOOLKIT
from cuwheel.paths import project_folder
from cuwheel.spelling import as_typed
from cuwheel.system.output.terminal import report_terminal
from cuwheel.system.quantities import plural
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.drafts.draft import Draft
    from cuwheel.drafts.readers.survey import Survey
    from cuwheel.drafts.upstream import Upstream

_WIDTH = 100  # columns


def print_draft(draft: Draft, upstream: Upstream, survey: Survey, path: Path) -> None:
    """Print the report.

    Args:
        draft: what was written.
        upstream: the release that it is of.
        survey: what was read.
        path: the recipe's file.
    """
    terminal = report_terminal()
    for line in _lines(draft, upstream, survey, path):
        terminal.print(line)


def _lines(draft: Draft, upstream: Upstream, survey: Survey, path: Path) -> Iterator[str]:
    project = project_folder()
    shown = path.relative_to(project) if path.is_relative_to(project) else path
    count = len(read_text(path).splitlines())
    release = f"{upstream.project} {upstream.version}"
    yield f"[bold]{shown}[/]: {plural(count, 'line')}, drafted from the source of {release}"
    if not upstream.is_newest:
        yield f"  {upstream.newer}"
    yield f"  read: {_read(survey)}"
    yield ""
    yield "[bold]Guessed[/] (each has its place in the draft; check it, then remove the comment)"
    yield from _listed(draft.notes("guess"))
    yield ""
    yield "[bold]To find out[/]"
    yield from _listed(draft.notes("find out"))
    yield ""
    yield "[bold]Next[/]"
    target = f"build-{draft.name}-{TOOLKIT.replace('.', '')}"
    if NOBODY in read_text(path):
        yield f"  write your handle into `maintainers` in {shown}"
    yield as_typed(f"  nox -s lock -- {' '.join(_locks(draft))}")
    yield as_typed(f"  nox -s {target} -- --arch {ARCHS[1]} --until preflight")
    yield as_typed(f"  nox -s {target} -- --arch {ARCHS[1]}")


def _locks(draft: Draft) -> Iterator[str]:
    """Those that the recipe has: the build's, and one for the smoke test if it requires more."""
    yield f"build:{draft.name}"
    smoke = next(one.value for one in draft.fields if one.name == "smoke")
    if "requires" in getattr(smoke, "given", {}):
        yield f"smoke:{draft.name}"


def _read(survey: Survey) -> str:
    kernels = sum(name.endswith(".cu") for name in survey.device_files)
    parts = [
        f"build backend {survey.system.module}",
        plural(len(survey.findings), "fact") + " in its build files",
        plural(kernels, ".cu file"),
        plural(len(survey.variables()), "environment variable"),
    ]
    return ", ".join(parts)


def _listed(notes: Iterable[tuple[str, str]]) -> Iterator[str]:
    found = list(notes)
    for field, text in found:
        yield from map(
            rich.markup.escape,
            textwrap.wrap(
                f"{field}: {text}",
                width=_WIDTH,
                initial_indent="  ",
                subsequent_indent="      ",
                break_long_words=False,
                break_on_hyphens=False,
            ),
        )
    if not found:
        yield "  nothing"
