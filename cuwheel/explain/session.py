"""The session `explain`: logs of this project and of any other, read and explained."""

from __future__ import annotations

import io
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cuwheel.errors import UsageError, of_system_error
from cuwheel.explain.explanation import Explainer
from cuwheel.explain.log_text import is_text
from cuwheel.explain.report import (
    WIDTH,
    AnswerDocument,
    ExplainDocument,
    explained_log,
    explanation_as_text,
)
from cuwheel.system.output.terminal import report_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cuwheel.explain.report import Amount
    from cuwheel.system.console import Console


_STDIN = "-"
_START = 4096  # bytes that show whether a file is text


def explain_session(names: Sequence[str], folder: Path, console: Console, *, as_json: bool) -> None:
    """Explain logs; the answer goes to standard output.

    Args:
        names: files, folders of files, or `-` for standard input.
        folder: what relative ones are relative to.
        console: says how much.
        as_json: print a list of data instead of text.

    Raises:
        UsageError: a name is no file or folder, or a folder holds no text.
        FileAccessError: a file can't be read.
    """
    explainer = Explainer()
    logs = list(_logs(names, folder))
    made = []
    for name, path in logs:
        with _opened(path) as stream:
            made.append((name, explainer.explain(stream)))
    if as_json:
        console.answer(ExplainDocument(logs=tuple(explained_log(one, name) for name, one in made)))
        return
    shown = [(name, one) for name, one in made if one.failed] or made[:1]
    width = min(report_terminal().width, WIDTH)
    amount: Amount = "short" if console.is_quiet else "whole" if console.is_verbose else "usual"
    told = (explanation_as_text(one, name, width=width, amount=amount) for name, one in shown)
    _write("\n\n".join(told))
    if len(made) > len(shown):
        _write(f"\n{len(made) - len(shown)} of {len(made)} logs show no failure")


def explained(log: Path, known: Mapping[str, str], console: Console) -> str:
    """What a log says, for the reader of an error.

    Args:
        log: the file.
        known: facts that need not stand in it, as `{"cuda": "12.2"}`.
        console: where it will be read.

    Raises:
        OSError: it can't be read.
    """
    with log.open("rb") as stream:
        found = Explainer().explain(stream, known)
    return explanation_as_text(found, log.name, width=min(console.terminal.width, WIDTH))


def explain_lines(names: Sequence[str], folder: Path, console: Console) -> None:
    """Answer `{"id", "log"}` with `{"id", "causes": [slug, …]}`, line by line.

    Args:
        names: files, or `-` for standard input.
        folder: what relative ones are relative to.
        console: prints the answers.

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
                    causes = tuple(one.cause.slug for one in explainer.explain(log).causes)
                    console.answer(AnswerDocument(id=question["id"], causes=causes))


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
    """Their names and paths; None is standard input."""
    for name in names:
        path = folder / name
        if name == _STDIN:
            yield "standard input", None
        elif path.is_dir():
            inside = [one for one in sorted(path.rglob("*")) if _is_text(one)]
            if not inside:
                raise UsageError(f"{name} contains no logs", fix="give a folder with text files")
            yield from ((str(Path(name) / one.relative_to(path)), one) for one in inside)
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
        with path.open("rb") as stream:
            yield stream
    except OSError as problem:
        raise of_system_error(problem) from problem


def _write(text: str) -> None:
    """Print; a log may hold what the terminal's encoding can't show."""
    sys.stdout.buffer.write(f"{text}\n".encode(sys.stdout.encoding or "utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
