"""The command `explain`: logs in, causes out, as text for a terminal or as JSON."""

from __future__ import annotations

import io
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

from cuwheel.base.errors import UsageError, of_system_error
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.base.system.output import github
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import printable, report_terminal
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import open_file
from cuwheel.check.explain.explanation import (
    ExplainedCause,
    Explainer,
    Explanation,
    LogLine,
    Question,
    Sureness,
)
from cuwheel.check.explain.log_text import is_text

_STDIN = "-"
_START = 4096  # bytes that show whether a file is text
_WIDTH = 100  # columns, unless the terminal is narrower
_LABEL = 10
_LEAST = 20  # columns of text next to a label
_EVIDENCE = 2  # lines shown for a cause
_LONGEST = 400  # characters of a line of the log
_HOW_TO_ADD = "docs/how-to/failure-catalogue.md"
Amount = Literal["short", "first", "usual", "whole"]
_ON_A_SCREEN: tuple[Amount, ...] = ("usual", "first", "short")
_PROMPT = 3  # lines of a terminal below the message


@dataclass(frozen=True, kw_only=True)
class ExplainedLog:
    """What a log says.

    Attributes:
        log: its name, as it was given.
        lines: how many it has.
        unread: lines that were only counted; the limit on the work for a log was met.
        failed: whether what wrote it came to a bad end.
        causes: the likeliest first; empty: none is known, or nothing failed.
        error: the line that says what failed.
        question: a command that decides between the first two causes.
        remedy: the advice that the failed tool printed.
        overcome: slugs of what went wrong on the way and was overcome.
        facts: what it says of the machine and the tools, by name: `{"cuda": "12.2"}`.
    """

    log: str
    lines: int
    unread: int
    failed: bool
    causes: tuple[ExplainedCause, ...]
    error: LogLine | None
    question: Question | None
    remedy: LogLine | None
    overcome: tuple[str, ...]
    facts: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ExplainDocument:
    """What `explain --json` prints.

    Attributes:
        logs: in the order in which they were named.
    """

    SCHEMA: ClassVar[Schema] = Schema("explain", "2.1")

    logs: tuple[ExplainedLog, ...]


@dataclass(frozen=True, kw_only=True)
class AnswerDocument:
    """A line that `explain --jsonl` answers a line with.

    Attributes:
        id: of the question, as it was given.
        causes: slugs, the likeliest first; empty: none is known, or nothing failed.
        weights: how sure each of them is.
        error: the line that says what failed; empty: nothing did.
    """

    SCHEMA: ClassVar[Schema] = Schema("explain-answer", "1.1")

    id: Any
    causes: tuple[str, ...]
    weights: tuple[Sureness, ...]
    error: str


def explain_session(
    names: Sequence[str],
    folder: Path,
    console: Console,
    *,
    known: Mapping[str, str] | None = None,
    as_json: bool,
) -> None:
    """Explain logs on standard output.

    Args:
        names: files, folders of files, or `-` for standard input.
        folder: the base of relative names.
        known: facts of the machine that wrote them.

    Raises:
        UsageError: a name is no file or folder, or a folder holds no text.
        FileAccessError: a file can't be read.
    """
    explainer = Explainer()
    results = []
    for name, path in list(_logs(names, folder)):
        with _opened(path) as stream:
            results.append((name, explainer.explain(stream, known)))
    if as_json:
        logs = tuple(explained_log(explanation, name) for name, explanation in results)
        console.answer(ExplainDocument(logs=logs))
        return
    shown = [result for result in results if result[1].failed] or results[:1]
    width = min(report_terminal().width, _WIDTH)
    amount: Amount = "short" if console.is_quiet else "whole" if console.is_verbose else "usual"
    texts = (explanation_as_text(log, name, width=width, amount=amount) for name, log in shown)
    output = "\n\n".join(texts) + "\n"
    if len(results) > len(shown):
        output += f"\n{len(results) - len(shown)} of {len(results)} logs show no failure\n"
    # Characters that the terminal's encoding lacks are escaped.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.buffer.write(printable(output).encode(encoding, "backslashreplace"))
    sys.stdout.buffer.flush()
    for name, explanation in results:
        if explanation.failed:
            _annotate(name, explanation, folder, console)


def _annotate(name: str, explanation: Explanation, folder: Path, console: Console) -> None:
    """Annotate a log with its likeliest cause, and add this to the summary, in GitHub Actions."""
    cause = next(iter(explanation.causes), None)
    line = cause.evidence[0] if cause and cause.evidence else explanation.error
    title = cause.title if cause else "no known cause"
    rows = {"error": line.text.strip()[:_LONGEST] if line else ""}
    if cause:
        rows |= {"because": cause.why, "to fix": cause.fix, "more": as_typed(cause.anchor)}
    console.annotate(
        "error",
        "\n".join(f"{label}: {text}" for label, text in rows.items() if text),
        title=f"{name}: {title}",
        file=folder / name,
        line=line.line if line else 0,
    )
    console.add_to_summary(github.table({name: title, **rows}))


def explained(log: Path, known: Mapping[str, str], console: Console) -> str:
    """Return the explanation of a log, for an error message: no longer than the screen is high.

    Args:
        known: facts that the log need not contain, `{"cuda": "12.2"}`.

    Raises:
        OSError: it can't be read.
    """
    with open_file(log) as stream:
        explanation = Explainer().explain(stream, known)
    terminal = console.terminal
    for amount in _ON_A_SCREEN:
        text = explanation_as_text(
            explanation, log.name, width=min(terminal.width, _WIDTH), amount=amount
        )
        if text.count("\n") < terminal.height - _PROMPT:
            break
    return text


def explain_lines(names: Sequence[str], folder: Path, console: Console) -> None:
    """Answer `{"id", "log"}` with `{"id", "causes": [slug, …]}`, line by line.

    Args:
        names: files, or `-` for standard input.
        folder: the base of relative names.

    Raises:
        UsageError: a name is no file, or a line is not of that form.
        FileAccessError: a file can't be read.
    """
    explainer = Explainer()
    for name, path in _logs(names, folder):
        with _opened(path) as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    question = _read_question(line, f"{name}:{number}")
                    log = io.BytesIO(question["log"].encode("utf-8", "surrogatepass"))
                    console.answer(_answer(question["id"], explainer.explain(log)))


def _answer(question: Any, explanation: Explanation) -> AnswerDocument:
    return AnswerDocument(
        id=question,
        causes=tuple(cause.slug for cause in explanation.causes),
        weights=tuple(cause.weight for cause in explanation.causes),
        error=explanation.error.text.strip() if explanation.error else "",
    )


def _read_question(line: bytes, location: str) -> dict[str, Any]:
    try:
        question = json.loads(line)
        if isinstance(question["log"], str) and "id" in question:
            return dict(question)
        why = "`log` is not a string"
    except (ValueError, TypeError) as problem:
        why = str(problem)
    except KeyError as problem:
        why = f"it has no {problem}"
    raise UsageError(
        f"{location} can't be read", why=why, fix='write one {"id": …, "log": "…"} in each line'
    )


def _logs(names: Iterable[str], folder: Path) -> Iterator[tuple[str, Path | None]]:
    """Yield names and paths; None is standard input."""
    for name in names:
        path = folder / name
        if name == _STDIN:
            yield "standard input", None
        elif path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if _is_text(file)]
            if not files:
                raise UsageError(f"{name} contains no logs", fix="give a folder with text files")
            yield from ((str(Path(name) / file.relative_to(path)), file) for file in files)
        elif path.is_file() and not _is_text(path):
            raise UsageError(
                f"{name} is not a text file",
                why="it contains zero bytes, like programs and archives",
                fix="unpack it first, or give the log itself",
            )
        elif path.exists():
            yield name, path
        else:
            raise UsageError(
                f"there is no log {name}",
                why=f"{path} doesn't exist",
                fix="give a file, a folder, or - for standard input: nox -s explain -- build.log",
            )


def _is_text(path: Path) -> bool:
    if not path.is_file():
        return False
    with _opened(path) as stream:
        return is_text(stream.read(_START))


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        yield sys.stdin.buffer
        return
    try:
        # A pipe of the shell, `<(ssh node cat log)`, is no regular file; devices and sockets fail.
        with path.open("rb") if path.is_fifo() else open_file(path) as stream:
            yield stream
    except OSError as problem:
        raise of_system_error(problem) from problem


def explanation_as_text(
    explanation: Explanation, name: str, *, width: int = _WIDTH, amount: Amount = "usual"
) -> str:
    """Return an explanation as text.

    Args:
        amount: `short` is a line for each cause, `first` has the others' titles only, `whole` has
            all evidence.
    """
    counted = plural(explanation.lines, "line")
    if explanation.unread:
        counted += f" ({explanation.unread} only counted: the log takes too much work)"
    if explanation.causes:
        count = len(explanation.causes)
        what = "the cause" if count == 1 else f"{count} causes, the most likely first"
        if explanation.question:
            what = "one of two causes"
        lines = _wrapped(f"{name}: {what}, from {counted}", width)
        for number, cause in enumerate(explanation.causes, 1):
            if amount == "short":
                lines += _wrapped(f"{number}. {cause.title}: {cause.fix}", width)
            elif amount == "first" and number > 1:
                lines += _wrapped(f"{number}. {cause.title} ({cause.weight})", width)
            else:
                lines += ["", *_cause(number, cause, width, is_whole=amount == "whole")]
        lines += _decision(explanation, width)
    elif explanation.failed:
        lines = [*_unknown(explanation, name, width), *_decision(explanation, width)]
    else:
        lines = _wrapped(f"{name}: no failure found in {counted}", width)
        if explanation.overcome:
            overcome = ", ".join(explanation.overcome)
            lines += _wrapped(f"  errors on the way that did not stop it: {overcome}", width)
    return "\n".join(lines)


def explained_log(explanation: Explanation, name: str) -> ExplainedLog:
    """Convert an explanation to a part of the document."""
    return ExplainedLog(
        log=name,
        lines=explanation.lines,
        unread=explanation.unread,
        failed=explanation.failed,
        causes=explanation.causes,
        error=explanation.error,
        question=explanation.question,
        remedy=explanation.remedy,
        overcome=explanation.overcome,
        facts=dict(explanation.facts),
    )


def _cause(number: int, cause: ExplainedCause, width: int, *, is_whole: bool) -> Iterator[str]:
    yield from _wrapped(f"{number}. {cause.title} ({cause.weight})", width)
    for line in cause.evidence if is_whole else cause.evidence[:_EVIDENCE]:
        yield from _labelled(f"line {line.line}", line.text[:_LONGEST], width)
    yield from _labelled("because", cause.why, width)
    yield from _labelled("to fix", cause.fix, width)
    yield from _labelled("confirm", cause.confirm, width)
    yield from _labelled("more", as_typed(cause.anchor), width)
    for link in cause.links if is_whole else ():
        yield from _labelled("", link, width)


def _decision(explanation: Explanation, width: int) -> Iterator[str]:
    """Yield what decides between two causes, and the failed tool's advice."""
    if question := explanation.question:
        yield ""
        titles = {cause.slug: number for number, cause in enumerate(explanation.causes, 1)}
        yield from _labelled("to decide", question.command, width)
        for output, slug in question.answers.items():
            yield from _labelled("", f"{output}: it is {titles[slug]}", width)
    shown = {line.line for cause in explanation.causes[:1] for line in cause.evidence}
    remedy = explanation.remedy
    if remedy and not explanation.question and remedy.line not in shown:
        yield ""
        advice = f"line {remedy.line}: {remedy.text.strip()[:_LONGEST]}"
        yield from _labelled("the tool", advice, width)


def _unknown(explanation: Explanation, name: str, width: int) -> Iterator[str]:
    error = explanation.error.line if explanation.error else 0
    headline = f"{name}: it failed with an error that is not in the catalogue, in line {error}:"
    yield from (*_wrapped(headline, width), "")
    for number, line in explanation.context.items():
        mark = ">" if number == error else " "
        yield from _wrapped(line[:_LONGEST] or " ", width, start=f"  {mark} {number:>7}  ")
    yield ""
    place = "Search for the text of that line in the issues of the tool or package that printed it."
    yield from _wrapped(place, width, "  ")
    hint = as_typed(f"If you find the cause, {_HOW_TO_ADD} describes how to add it.")
    yield from _wrapped(hint, width, "  ")


def _labelled(label: str, text: str, width: int) -> Iterator[str]:
    """Yield a label and its text, wrapped to the width."""
    start = f"   {label:<{max(_LABEL, len(label) + 1)}}"
    for line in text.splitlines():
        yield from _wrapped(line, width, start)
        start = " " * len(start)


def _wrapped(text: str, width: int, start: str = "") -> list[str]:
    """Return a line as several that fit, all with the indent of the first."""
    room = max(width - len(start), _LEAST)
    lines = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
    # A longer path or command begins at the left, and is cut as a terminal cuts it.
    parts = [line[at : at + room] for line in lines for at in range(0, max(len(line), 1), room)]
    return [f"{' ' * len(start) if index else start}{part}" for index, part in enumerate(parts)]
