"""Text for publication without secrets, folders, users and hosts; files that can't be masked."""

from __future__ import annotations

import bisect
import dataclasses
import io
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from cuwheel.base import limits
from cuwheel.base.errors import WheelIndexError
from cuwheel.base.fetch.urls import USER_INFO
from cuwheel.base.formats.wheel.archive import open_wheel
from cuwheel.base.system.files import new_file
from cuwheel.base.system.output.terminal import visible
from cuwheel.base.system.regular_files import open_file, read_regular
from cuwheel.build.workspace.masking.callers_values import machine_names, secret_values
from cuwheel.build.workspace.masking.secret_forms import lowered, places_of, secret_forms

Span = tuple[int, int, str]  # begin, end, kind

# ECMA-48: of a control sequence, of an operating system command, of a character set.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-?=>])"
)
_BLANKS = " \t│┃|"  # around a line, with the frames of tables and tracebacks
_BLOCK = 1 << 20  # characters of a log that are read at once
_OVERLAP = 1 << 16  # of these, kept for the next block: no secret is longer
_ADDRESS = "user or password of an address"
_Record = TypeVar("_Record")
_WORD = re.compile(r"[A-Za-z0-9_]")
_LONG = 16  # characters: such a value is no part of another word by chance


class PublicText:
    """A filter that makes text fit to be published, and counts what it has masked.

    Args:
        folders: path → placeholder.
        environ: the caller's variables; None: this process's.
        names: mask the names of user and host too.
    """

    def __init__(
        self,
        folders: Mapping[Path, str],
        *,
        environ: Mapping[str, str] | None = None,
        names: bool = True,
    ) -> None:
        self.masked: Counter[str] = Counter()
        self._values = secret_values(os.environ if environ is None else environ)
        paths = {
            str(path): name
            for folder, name in folders.items()
            for path in (folder.resolve(), folder)
            if path.name  # a home may be /
        }
        self._placeholders = {**(machine_names() if names else {}), **paths}
        # `/home/al` is no part of `/home/alice`; the longest comes first.
        patterns = sorted(
            (rf"{_before(name)}{re.escape(name)}(?![\w+-])" for name in self._placeholders),
            key=len,
            reverse=True,
        )
        self._names = re.compile("|".join(patterns) or r"(?!)")

    def of(self, text: str) -> str:
        """Return a text without secrets, folders, names, passwords in addresses, and controls."""
        plain = self._without_secrets(visible(_ESCAPES.sub("", text)))
        return self._names.sub(lambda name: self._placeholders[name[0]], plain)

    def record(self, record: _Record) -> _Record:
        """Return a dataclass with each of its texts masked, at any depth."""
        return cast("_Record", self._masked(record))

    def copy_file(self, source: Path, target: Path) -> None:
        """Write a file's text, masked, to another or to itself, at once.

        Raises:
            OSError: one can't be read or written.
        """
        with (
            io.TextIOWrapper(open_file(source), encoding="utf-8", errors="replace") as text,
            new_file(target) as stream,
        ):
            masked = io.TextIOWrapper(stream, encoding="utf-8")
            self.copy(text, masked)
            masked.detach()

    def copy(self, source: TextIO, target: TextIO) -> None:
        """Write a text of any length, masked."""
        rest = ""
        while block := source.read(_BLOCK):
            rest += block
            end = self._end_of_block(rest)
            target.write(self.of(rest[:end]))
            rest = rest[end:]
        target.write(self.of(rest))

    def kinds_in(self, text: str) -> tuple[str, ...]:
        """Return the kinds of secrets in a text."""
        return _kinds(text, self._spans(text))

    def kinds_in_metadata(self, text: str) -> tuple[str, ...]:
        """Return the kinds of secrets in METADATA or JSON, without examples of a description."""
        fields, _, _ = text.partition("\n\n")
        return _kinds(fields, self._tokens(text))

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.of(value)
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._masked, value))
        if isinstance(value, dict):  # a name may announce a secret
            return {
                name: self.of(f"{name}={item}").removeprefix(f"{name}=")
                if isinstance(item, str)
                else self._masked(item)
                for name, item in value.items()
            }
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return dataclasses.replace(
                value, **{name: self._masked(getattr(value, name)) for name in names}
            )
        return value

    def _end_of_block(self, text: str) -> int:
        """Return the end of a block: at a line's end, outside of any secret."""
        last = max(0, len(text) - _OVERLAP)
        end = text.rfind("\n", 0, last) + 1 or last
        first = max(0, end - _OVERLAP)
        around = text[first : end + _OVERLAP]
        spans = self._spans(around)
        return next((first + begin for begin, to, _ in spans if begin < end - first < to), end)

    def _without_secrets(self, text: str) -> str:
        pieces, last = [], 0
        for begin, end, kind in self._spans(text):
            self.masked[kind] += 1
            pieces += [text[last:begin], f"<masked: {kind}>"]
            last = end
        shown = "".join((*pieces, text[last:]))
        # But for git's own user.
        self.masked[_ADDRESS] += sum(user != "//git@" for user in USER_INFO.findall(shown))
        return USER_INFO.sub("//", shown)

    def _spans(self, text: str) -> list[Span]:
        """Return the secrets in a text by position, overlapping ones as one of the first's kind."""
        spans: list[Span] = []
        for begin, end, kind in sorted((*self._in_lines(text), *self._across_lines(text))):
            if spans and begin < spans[-1][1]:
                first = spans[-1]
                spans[-1] = (first[0], max(end, first[1]), first[2])
            else:
                spans.append((begin, end, kind))
        return spans

    def _in_lines(self, text: str) -> Iterator[Span]:
        yield from self._values_in(text)
        lower = lowered(text)
        for form in secret_forms():
            yield from ((*span, form.kind) for span in form.spans(text, lower))

    def _across_lines(self, text: str) -> Iterator[Span]:
        """Yield secrets that a line break divides, as a narrow terminal writes them."""
        joined, breaks = _joined(text)
        if not breaks:
            return
        starts, removed = [], 0  # of the lines behind breaks, in the joined text
        for begin, end in breaks:
            starts.append(begin - removed)
            removed += end - begin
        for begin, end, kind in self._tokens(joined):
            first, last = bisect.bisect_right(starts, begin), bisect.bisect_left(starts, end)
            if first < last:
                yield _place(begin, breaks, starts), _place(end - 1, breaks, starts) + 1, kind

    def _tokens(self, joined: str) -> Iterator[Span]:
        yield from self._values_in(joined)
        lower = lowered(joined)
        for form in secret_forms():
            if form.is_token:
                yield from ((*span, form.kind) for span in form.spans(joined, lower))

    def _values_in(self, text: str) -> Iterator[Span]:
        """Yield the caller's values; a short one only as a word of its own."""
        for value, kind in self._values.items():
            for begin in places_of(value, text):
                end = begin + len(value)
                if len(value) >= _LONG or not (
                    _WORD.match(text[max(0, begin - 1) : begin]) or _WORD.match(text[end : end + 1])
                ):
                    yield begin, end, kind


def _joined(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Join a text's lines without blanks and backslashes at breaks; return those spans too."""
    pieces, breaks, at, begin = [], [], 0, 0
    for number, line in enumerate(text.split("\n")):
        body = line.lstrip(_BLANKS) if number else line
        if number:
            breaks.append((begin, at + len(line) - len(body)))
        kept = body.removesuffix("\r").removesuffix("\\").rstrip(_BLANKS)
        begin = at + len(line) - len(body) + len(kept)
        at += len(line) + 1
        pieces.append((kept, body))
    return "".join((*(kept for kept, _ in pieces[:-1]), pieces[-1][1])), breaks


def _place(at: int, breaks: list[tuple[int, int]], starts: list[int]) -> int:
    """Return the position in the text itself of a character of the joined text."""
    line = bisect.bisect_right(starts, at)
    return at - starts[line - 1] + breaks[line - 1][1] if line else at


def _kinds(fields: str, spans: Iterable[Span]) -> tuple[str, ...]:
    has_password = any(":" in user for user in USER_INFO.findall(fields))
    kinds = [_ADDRESS] if has_password else []
    return tuple(dict.fromkeys((*kinds, *(kind for _, _, kind in spans))))


def _before(name: str) -> str:
    """Return a lookbehind for a name: `/root` is no part of `build/root`, but of `-I/root`."""
    if not name.startswith("/"):
        return r"(?<![A-Za-z0-9_-])"
    return "" if name.count("/") > 1 else r"(?:(?<![\w.~>-])|(?<=-[A-Z]))"


def refuse_secrets(files: Iterable[Path]) -> None:
    """Check that no file holds a secret of a known form, or one of the caller's.

    Raises:
        WheelIndexError: some do.
        OSError: a file can't be read, or is too large.
    """
    text = PublicText({}, names=False)
    holding = {}
    clean: set[str] = set()  # statements of one project's wheels have most lines in common
    for path in files:
        content = read_regular(path, limit=limits.JSON).decode(errors="replace")
        lines = [line for line in content.splitlines() if line not in clean]
        if kinds := text.kinds_in("\n".join((path.name, *lines))):
            holding[path] = kinds
        else:
            clean.update(lines)
    _refuse(holding, "a statement can't be masked, as its bytes are hashed and signed")


def refuse_secrets_in_wheels(wheels: Iterable[Path]) -> None:
    """Check that METADATA, bills of materials and names of files hold no token and no password.

    Descriptions show examples such as `password = "x"`: only forms that are secrets without their
    surroundings count, the caller's values, and passwords in addresses of fields.

    Raises:
        WheelIndexError: some do.
        OSError: a file can't be read.
    """
    text = PublicText({}, names=False)
    holding = {}
    for path in wheels:
        with open_wheel(path) as wheel:
            boms = [name for name in wheel.names if name.startswith(f"{wheel.dist_info}/sboms/")]
            texts = ("METADATA", *(name.removeprefix(f"{wheel.dist_info}/") for name in boms))
            contents = [(wheel.read(name) or b"").decode("utf-8", "replace") for name in texts]
            contents.append("\n".join((path.name, *wheel.names)))
            kinds = [kind for content in contents for kind in text.kinds_in_metadata(content)]
        if kinds:
            holding[path] = tuple(dict.fromkeys(kinds))
    _refuse(holding, "a wheel can't be masked, as its bytes are hashed")


def _refuse(holding: Mapping[Path, tuple[str, ...]], why_not: str) -> None:
    if holding:
        raise WheelIndexError(
            f"{len(holding)} files would publish a secret",
            why="\n".join(f"{path} holds: {', '.join(kinds)}" for path, kinds in holding.items()),
            fix=f"revoke that secret, then build the wheel again without it; {why_not}: to publish "
            f"all else, move the file away: mv {shlex.quote(str(next(iter(holding))))} DIR",
        )
