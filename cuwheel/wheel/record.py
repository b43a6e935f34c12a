"""RECORD, the table of a wheel's files with their hashes and sizes: written, read, compared.

The form is the one of the specification "Recording installed projects" (packaging.python.org).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from cuwheel import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# What RECORD may have beside SHA-256, which is the weakest that it may have.
STRONGER = frozenset({"sha384", "sha512", "sha3_256", "sha3_384", "sha3_512", "blake2b"})
SIGNATURES = ("RECORD.jws", "RECORD.p7s")  # never listed in RECORD, void once that is rewritten


class RecordFormatError(ValueError):
    """A RECORD is no table."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What is known of a member once it was read: SHA-256 as RECORD writes it, size in bytes."""

    digest: str
    size: int


class ContentHash:
    """Hashes a member that comes in pieces."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0

    def update(self, piece: bytes) -> None:
        """Take the next piece."""
        self._digest.update(piece)
        self._size += len(piece)

    def content(self) -> Content:
        """What all pieces so far make."""
        return Content(digest=record_digest("sha256", self._digest.digest()), size=self._size)


def record_digest(algorithm: str, digest: bytes) -> str:
    """A hash as RECORD writes it: `sha256=` and Base64 for URLs, without padding."""
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"{algorithm}={text}"


def record_text(rows: Iterable[tuple[object, ...]]) -> str:
    """The table of these rows: name, hash, size."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def record_rows(text: str) -> tuple[tuple[str, str, str], ...]:
    """The rows of a table: name, hash and size, empty where they are missing.

    Raises:
        RecordFormatError: it is no table: cut off within quotes, or filled with zeros as files are
            after a power failure; or it has more rows than a wheel can have files.
    """
    # Python 3.10's csv fails on it, later ones take it for a letter.
    if "\0" in text:
        raise RecordFormatError("it contains a zero byte")
    table = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        filled = islice(filter(None, table), limits.RECORD_ROWS + 1)
        rows = [(*row, "", "")[:3] for row in filled]
    except csv.Error as problem:
        raise RecordFormatError(str(problem)) from problem
    if len(rows) > limits.RECORD_ROWS:
        raise RecordFormatError(f"it has more than {limits.RECORD_ROWS:,} rows")
    return tuple(rows)  # type: ignore[arg-type]


def record_faults(
    text: str,
    dist_info: str,
    contents: Mapping[str, Content],
    digest_of: Callable[[str, str], str],
) -> tuple[tuple[str, str], ...]:
    """Everything in which RECORD differs from what the wheel holds, as file and fact.

    Args:
        text: of the RECORD; empty where there is none.
        dist_info: the name of the folder that it is in.
        contents: each member's name, with its hash and size as read.
        digest_of: gives a member's hash by another algorithm, as RECORD writes it.
    """
    own = f"{dist_info}/RECORD"
    try:
        rows = record_rows(text)
    except RecordFormatError as problem:
        return ((own, f"it is not a table of files: {problem}"),)
    if not rows:
        return ((own, "it is missing or empty"),)
    listed = [name for name, _, _ in rows]
    unlisted = {f"{dist_info}/{name}" for name in SIGNATURES}.union(listed)
    faults = [(name, "RECORD lists it twice") for name in repeated(listed)]
    faults += [(name, "RECORD doesn't list it") for name in sorted(set(contents) - unlisted)]
    first: dict[str, tuple[str, str, str]] = {}  # of a name that comes often: one reading
    for row in rows:
        first.setdefault(row[0], row)
    faults += [
        (name, fault)
        for name, row in first.items()
        for fault in _row_faults(row, own, contents, digest_of)
    ]
    return tuple(faults)


def _row_faults(
    row: tuple[str, str, str],
    own: str,
    contents: Mapping[str, Content],
    digest_of: Callable[[str, str], str],
) -> Iterator[str]:
    name, digest, size = row
    if name not in contents:
        yield "RECORD lists it, but it doesn't exist"
    elif name == own:
        if digest or size:
            yield "RECORD contains a hash or size of itself"
    else:
        content = contents[name]
        algorithm = digest.partition("=")[0]
        is_other = algorithm in STRONGER
        real = digest_of(name, algorithm) if is_other else content.digest
        if digest.rstrip("=") != real:
            yield f"its hash in RECORD is {digest or 'missing'}, its real hash is {real}"
        if size != str(content.size):
            yield f"its size in RECORD is {size or 'missing'}, its real size is {content.size}"


def repeated(names: Iterable[str]) -> list[str]:
    """Those that come more than once, sorted."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return sorted(name for name, count in seen.items() if count > 1)
