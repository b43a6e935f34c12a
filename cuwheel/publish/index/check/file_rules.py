"""Rules for a file: it is there, is the one that the page lists, and isn't damaged."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    canonicalize_version,
    parse_wheel_filename,
)

from cuwheel.base import limits
from cuwheel.base.errors import (
    CuwheelError,
    DownloadError,
    HashMismatchError,
    UnsafeArchiveError,
)
from cuwheel.base.fetch.indexes.pages import beside
from cuwheel.base.fetch.remote_file import open_remote
from cuwheel.base.fetch.urls import is_local, redact_url
from cuwheel.base.formats.wheel.archive import Wheel, member_faults, open_wheel
from cuwheel.base.formats.wheel.metadata import header, headers
from cuwheel.base.formats.wheel.record import (
    Content,
    ContentHash,
    RecordFormatError,
    record_faults,
    record_rows,
)
from cuwheel.base.formats.wheel.variants import split_variant
from cuwheel.base.system.files import hash_of_file
from cuwheel.base.system.quantities import show_size
from cuwheel.base.system.regular_files import open_file
from cuwheel.publish.index.check.page_rules import best_hash
from cuwheel.publish.index.check.reading import PageFile, Reader
from cuwheel.publish.index.check.rules import Violation

_SHOWN = 3  # faults of one wheel that a finding names
_PART = 64 << 10  # bytes of a wheel per range request; METADATA and RECORD are small
_RESOLVED = ("requires-dist", "provides-extra", "requires-python")  # what a resolver reads
_METADATA = ".metadata"  # PEP 658: behind the address's path


@dataclass(kw_only=True)
class FileCheck:
    """The check of one file.

    Attributes:
        digest: its measured hash, `sha256=...`; empty where it wasn't read.
    """

    where: str
    file: PageFile
    reader: Reader
    is_quick: bool
    violations: list[Violation] = field(default_factory=list)
    digest: str = ""
    # Lines of METADATA for a resolver; None where it wasn't read.
    requirements: frozenset[tuple[str, str]] | None = None

    def run(self) -> None:
        """Collect all violations, a server's errors among them."""
        try:
            if self.is_quick:
                self._check_parts()
            else:
                self._check_whole()
        except UnsafeArchiveError as problem:
            self._add("archive", problem.why)
        except CuwheelError as problem:
            is_missing = isinstance(problem, DownloadError) and problem.is_missing
            code = "missing" if is_missing else "unreachable"
            self._add(code, f"{problem.what}: {problem.why}")
        except FileNotFoundError:
            self._add("missing", f"there is no file {redact_url(self.file.url)}")
        except OSError as problem:
            self._add("unreachable", problem.strerror or str(problem))

    def _add(self, code: str, fact: str) -> None:
        self.violations.append(Violation(code=code, where=self.where, fact=fact))

    def _check_size(self, size: int | None) -> None:
        listed = self.file.size
        if None not in (size, listed) and size != listed:
            self._add("size", f"the page says {listed} bytes, it has {size}")

    def _metadata(self) -> bytes | None:
        """Return the announced METADATA file; None where there is none, or a wrong one."""
        announced = self.file.metadata
        if announced is None:
            return None
        url = beside(self.file.url, _METADATA)
        content = self.reader.metadata(url)
        if content is None:
            self._add("metadata-missing", f"there is nothing at {redact_url(url)}")
            return None
        if len(content) > limits.METADATA:
            self._add("metadata", f"it has more than {show_size(limits.METADATA)}")
            return None
        algorithm = best_hash(announced)
        actual = hashlib.new(algorithm, content).hexdigest() if algorithm else ""
        if algorithm and actual != announced[algorithm]:
            fact = f"its {algorithm} is {actual}, the page says {announced[algorithm]}"
            self._add("metadata", fact)
            return None
        return content

    def _check_parts(self) -> None:
        head = self.reader.head(self.file.url)
        if not head.is_there:
            self._add("missing", f"there is nothing at {redact_url(self.file.url)}")
            return
        metadata = self._metadata()
        if not self.file.name.endswith(".whl"):
            self._check_size(head.size)
            return
        try:
            with open_remote(self.file.url, window=_PART) as stream:
                self._check_size(stream.seek(0, io.SEEK_END))
                with open_wheel(Path(self.file.name), stream) as wheel:
                    contents = _listed_contents(wheel)
                    self._check_wheel(
                        wheel, contents, metadata, lambda name, _: contents[name].digest
                    )
        except DownloadError as problem:
            self._check_size(head.size)
            self._add("unread", problem.why)

    def _check_whole(self) -> None:
        listed, budget = self.file.size, self.reader.budget
        most = min(limits.INDEX_FILE if listed is None else listed, budget.left, limits.INDEX_FILE)
        if not is_local(self.file.url) and (not budget.left or (listed or 0) > most):
            self._add("unread", "the limit of --max-download is reached")
            return
        try:
            with self.reader.whole(self.file.url, self.file.name, most) as path:
                self._check_content(path)
        except HashMismatchError as problem:
            code = "unread" if listed is None else "size"
            self._add(code, f"{problem.why}; {most} should be read")

    def _check_content(self, path: Path) -> None:
        size = path.stat().st_size
        algorithm = best_hash(self.file.hashes)
        actual = hash_of_file(path, algorithm or "sha256")
        self.digest = f"{algorithm or 'sha256'}={actual}"
        if algorithm and actual != self.file.hashes[algorithm]:
            listed = self.file.hashes[algorithm]
            fact = f"its {algorithm} is {actual}, the page says {listed}; it has {size} bytes"
            self._add("hash", fact)
            return
        self._check_size(size)
        metadata = self._metadata()
        if self.file.name.endswith(".whl"):
            with open_wheel(path) as wheel, open_file(path) as stream:
                contents = {
                    member.name: _content(member.pieces())
                    for member in wheel.members(stream.fileno())
                }
                self._check_wheel(wheel, contents, metadata, wheel.digest)

    def _check_wheel(
        self,
        wheel: Wheel,
        contents: Mapping[str, Content],
        metadata: bytes | None,
        digest_of: Callable[[str, str], str],
    ) -> None:
        if faults := member_faults(wheel):
            self._add("archive", _describe(faults))
        record = wheel.read_text("RECORD")
        if faults := record_faults(record, wheel.dist_info, contents, digest_of):
            self._add("record", _describe(faults))
        inside = wheel.read("METADATA")
        if inside is None:
            self._add("archive", "it has no METADATA")
            return
        if metadata is not None and metadata != inside:
            self._add("metadata", _difference(metadata, inside))
        self._check_headers(inside.decode("utf-8", "replace"))

    def _check_headers(self, text: str) -> None:
        self.requirements = frozenset(line for line in headers(text) if line[0] in _RESOLVED)
        name, version, pythons = (
            "".join(header(text, key)[:1]) for key in ("name", "version", "requires-python")
        )
        with contextlib.suppress(InvalidWheelFilename):  # the page's rules report it
            project, released = parse_wheel_filename(split_variant(self.file.name)[0])[:2]
            stated = canonicalize_name(name), canonicalize_version(version)
            if stated != (project, canonicalize_version(released)):
                self._add("wheel-name", f"METADATA says {name} {version}")
        listed = self.file.requires_python
        with contextlib.suppress(InvalidSpecifier):  # the page's rules report it
            if SpecifierSet(listed) != SpecifierSet(pythons):
                fact = f"the page says {listed or 'any'}, METADATA {pythons or 'any'}"
                self._add("requires-python", fact)


def compare_requirements(checks: Iterable[FileCheck]) -> Iterator[Violation]:
    """Yield wheels with other requirements than the first wheel of their release."""
    firsts: dict[tuple[str, str], FileCheck] = {}
    for check in checks:
        if check.requirements is None:
            continue
        with contextlib.suppress(InvalidWheelFilename):  # the page's rules report it
            name, variant = split_variant(check.file.name)
            first = firsts.setdefault((str(parse_wheel_filename(name)[1]), variant), check)
            lines = sorted(check.requirements ^ (first.requirements or frozenset()))
            if lines:
                key, value = lines[0]
                has = "has" if lines[0] in check.requirements else "lacks"
                fact = f"it {has} the line {key}: {value}, unlike {first.file.name}"
                yield Violation(code="requirements", where=check.where, fact=fact)


def _listed_contents(wheel: Wheel) -> dict[str, Content]:
    """Return all members with their sizes, and their hashes from RECORD: no other is read."""
    digests: dict[str, str] = {}
    with contextlib.suppress(RecordFormatError):
        digests = {name: digest for name, digest, _ in record_rows(wheel.read_text("RECORD"))}
    return {
        name: Content(
            digest=digests.get(name, "").rstrip("="), size=wheel.archive.getinfo(name).file_size
        )
        for name in wheel.names
    }


def _content(pieces: Iterator[bytes]) -> Content:
    hashed = ContentHash()
    for piece in pieces:
        hashed.update(piece)
    return hashed.content()


def _describe(faults: Sequence[tuple[str, str]]) -> str:
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return "; ".join(f"{name}: {fact}" for name, fact in faults[:_SHOWN]) + more


def _difference(served: bytes, inside: bytes) -> str:
    """Return the first line in which the METADATA file differs from the wheel's."""
    pairs = zip_longest(served.splitlines(), inside.splitlines())
    for number, (line, other) in enumerate(pairs, 1):
        if line != other:
            return f"line {number} is {line!r}, in the wheel it is {other!r}"
    return "its line endings differ"
