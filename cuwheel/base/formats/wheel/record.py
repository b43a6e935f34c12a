"""RECORD, the table of a wheel's files with their hashes and sizes: written, read, compared.

The form is the one of the specification "Recording installed projects" (packaging.python.org).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from cuwheel.base import limits

# Hashes that RECORD may have instead of SHA-256, the weakest one.
STRONGER = frozenset({"sha384", "sha512", "sha3_256", "sha3_384", "sha3_512", "blake2b"})
WEAK = frozenset({"md5", "sha1", "sha224"})  # which the specification forbids
SIGNATURES = ("RECORD.jws", "RECORD.p7s")  # never listed in RECORD, invalid once it is rewritten


class RecordFormatError(ValueError):
    """A RECORD is no table."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """Facts of a member: SHA-256 in RECORD's form, size in bytes."""

    digest: str
    size: int


class ContentHash:
    """Hash of a member that comes in pieces."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0

    def update(self, piece: bytes) -> None:
        """Add the next piece."""
        self._digest.update(piece)
        self._size += len(piece)

    def content(self) -> Content:
        """Return the facts of all pieces so far."""
        return Content(digest=record_digest("sha256", self._digest.digest()), size=self._size)


def record_digest(algorithm: str, digest: bytes) -> str:
    """Return a hash in RECORD's form: `sha256=` and Base64 for URLs, without padding."""
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"{algorithm}={text}"


def record_text(contents: Mapping[str, Content], dist_info: str) -> str:
    """Return the table of a wheel's other members, in their order, and of RECORD itself."""
    rows = [(name, content.digest, content.size) for name, content in contents.items()]
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerows([*rows, (f"{dist_info}/RECORD", "", "")])
    return text.getvalue()


def record_rows(text: str) -> tuple[tuple[str, str, str], ...]:
    """Return the rows of a table: name, hash and size, empty where they are missing.

    Raises:
        RecordFormatError: it is no table: cut off within quotes, or filled with zeros as files are
            after a power failure; or it has more rows than a wheel can have files.
    """
    if "\0" in text:  # Python 3.10's csv fails on it, later ones take it for a letter
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
    """Return the differences between RECORD, perhaps empty, and the contents, as file and fact."""
    record = f"{dist_info}/RECORD"
    try:
        rows = record_rows(text)
    except RecordFormatError as problem:
        return ((record, f"it is not a table of files: {problem}"),)
    if not rows:
        return ((record, "it is missing or empty"),)
    listed = [name for name, _, _ in rows]
    unlisted = {f"{dist_info}/{name}" for name in SIGNATURES}.union(listed)
    faults = [(name, "RECORD lists it twice") for name in repeated(listed)]
    faults += [(name, "RECORD doesn't list it") for name in sorted(set(contents) - unlisted)]
    first = {row[0]: row for row in reversed(rows)}  # a repeated name is checked once
    faults += [
        (name, fault)
        for name in dict.fromkeys(listed)
        for fault in _row_faults(first[name], record, contents, digest_of)
    ]
    return tuple(faults)


def _row_faults(
    row: tuple[str, str, str],
    record: str,
    contents: Mapping[str, Content],
    digest_of: Callable[[str, str], str],
) -> Iterator[str]:
    name, digest, size = row
    if name not in contents:
        if not name.endswith("/"):  # a folder, which installers don't look at
            yield "RECORD lists it, but it doesn't exist"
    elif name == record:
        if digest or size:
            yield "RECORD contains a hash or size of itself"
    else:
        content = contents[name]
        algorithm = digest.partition("=")[0]
        is_stronger = algorithm in STRONGER
        real = digest_of(name, algorithm) if is_stronger else content.digest
        if algorithm in WEAK:
            yield f"its hash in RECORD is of {algorithm}, which is forbidden: sha256 is the weakest"
        elif digest.rstrip("=") != real:
            yield f"its hash in RECORD is {digest or 'missing'}, its real hash is {real}"
        elif size != str(content.size):
            yield f"its size in RECORD is {size or 'missing'}, its real size is {content.size}"


def repeated(names: Iterable[str]) -> list[str]:
    """Return those that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)
