"""Findings that a file gives: whether it is there, is the one that the page names, and is whole."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel import limits
from cuwheel.errors import CuwheelError, DownloadError, OversizedDownloadError, UnsafeArchiveError
from cuwheel.fetch.urls import is_local, redact_url
from cuwheel.index.check.attestations import attestation_faults
from cuwheel.index.check.page_rules import best_hash, is_wheel
from cuwheel.index.check.rules import Finding
from cuwheel.system.files import hash_of_file
from cuwheel.system.quantities import show_size
from cuwheel.wheel.archive import member_faults, open_wheel
from cuwheel.wheel.metadata import header
from cuwheel.wheel.record import Content, ContentHash, RecordFormatError, record_faults, record_rows
from cuwheel.wheel.variants import split_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cuwheel.index.check.listing import ListedFile
    from cuwheel.index.check.reading import Reader
    from cuwheel.wheel.archive import Wheel

_SHOWN = 3  # faults of one wheel that a finding names
_METADATA = ".metadata"  # PEP 658: behind the address's path


@dataclass(kw_only=True)
class FileCheck:
    """One file on its way through the check.

    Attributes:
        where: page and file, for findings.
        file: as its page lists it.
        reader: reads what the index serves.
        is_quick: wheels are read in parts.
        labels: of variants, where it is the file that has to say what they stand for.
        findings: so far.
        digest: its hash as measured, `sha256=...`; empty where it wasn't read.
    """

    where: str
    file: ListedFile
    reader: Reader
    is_quick: bool
    labels: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    digest: str = ""

    def run(self) -> None:
        """Find all; what a server doesn't answer is a finding too."""
        self._try(self._check_file)
        self._try(self._check_provenance)

    def _try(self, find: Callable[[], None]) -> None:
        try:
            find()
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
        self.findings.append(Finding(code=code, where=self.where, fact=fact))

    def _check_file(self) -> None:
        if self.is_quick:
            self._check_parts()
        else:
            self._check_whole()

    def _check_size(self, size: int | None) -> None:
        said = self.file.size
        if None not in (size, said) and size != said:
            self._add("size", f"the page says {said} bytes, it has {size}")

    def _check_provenance(self) -> None:
        link = self.file.provenance
        if not link:
            return
        if urlsplit(link).scheme not in {"http", "https"}:
            self._add("provenance", f"{link} isn't a full address")
            return
        try:
            content = self.reader.small_file(link)
        except DownloadError as problem:
            self._add("provenance", problem.why)
            return
        if content is None:
            self._add("provenance", f"there is nothing at {redact_url(link)}")
        elif len(content) > limits.METADATA:
            self._add("attestation", f"it has more than {show_size(limits.METADATA)}")
        else:
            sha256 = self.file.hashes.get("sha256", "")
            for fault in attestation_faults(content, self.file.name, sha256):
                self._add("attestation", fault)

    def _metadata(self) -> bytes | None:
        """The METADATA file that is announced; None where there is none that is right."""
        announced = self.file.announced
        if announced is None:
            return None
        parts = urlsplit(self.file.url)
        url = urlunsplit((*parts[:2], f"{parts.path}{_METADATA}", "", ""))
        content = self.reader.small_file(url)
        if content is None:
            self._add("metadata-missing", f"there is nothing at {redact_url(url)}")
            return None
        if len(content) > limits.METADATA:
            self._add("metadata", f"it has more than {show_size(limits.METADATA)}")
            return None
        algorithm = best_hash(announced)
        if algorithm:
            actual = hashlib.new(algorithm, content).hexdigest()
            if actual != announced[algorithm]:
                said = f"the page says {announced[algorithm]}"
                self._add("metadata-hash", f"its {algorithm} is {actual}, {said}")
                return None
        return content

    def _check_parts(self) -> None:
        head = self.reader.head(self.file.url)
        if not head.is_there:
            self._add("missing", f"there is nothing at {redact_url(self.file.url)}")
            return
        metadata = self._metadata()
        if not is_wheel(self.file.name):
            self._check_size(head.size)
            if self.labels:
                self._check_labels(self.reader.small_file(self.file.url) or b"")
            return
        try:
            with self.reader.parts(self.file.url) as stream:
                self._check_size(stream.seek(0, io.SEEK_END))
                with open_wheel(Path(self.file.name), stream) as wheel:
                    contents = _listed_contents(wheel)
                    said = partial(_said_digest, contents)
                    self._check_wheel(wheel, contents, metadata, said)
        except DownloadError as problem:
            self._check_size(head.size)
            self._add("unread", problem.why)

    def _check_whole(self) -> None:
        said, budget = self.file.size, self.reader.budget
        most = min(limits.INDEX_FILE if said is None else said, budget.left, limits.INDEX_FILE)
        if not is_local(self.file.url) and (not budget.left or (said or 0) > most):
            self._add("unread", "the limit of --max-download is reached")
            return
        with contextlib.ExitStack() as stack:
            try:
                found = self.reader.whole(self.file.url, self.file.name, most)
                path = stack.enter_context(found)
            except OversizedDownloadError as problem:
                code = "unread" if said is None else "size"
                self._add(code, f"{problem.why}; {most} should be read")
                return
            self._check_content(path)

    def _check_content(self, path: Path) -> None:
        size = path.stat().st_size
        algorithm = best_hash(self.file.hashes)
        actual = hash_of_file(path, algorithm or "sha256")
        self.digest = f"{algorithm or 'sha256'}={actual}"
        if algorithm and actual != self.file.hashes[algorithm]:
            said = f"the page says {self.file.hashes[algorithm]}"
            self._add("hash", f"its {algorithm} is {actual}, {said}; it has {size} bytes")
            return
        self._check_size(size)
        metadata = self._metadata()
        if is_wheel(self.file.name):
            with open_wheel(path) as wheel, path.open("rb") as stream:
                contents = {
                    member.name: _content(member.pieces())
                    for member in wheel.members(stream.fileno())
                }
                self._check_wheel(wheel, contents, metadata, wheel.digest)
        elif self.labels:
            with path.open("rb") as stream:
                self._check_labels(stream.read(limits.METADATA + 1))

    def _check_labels(self, content: bytes) -> None:
        """Whether the file of a release's variants knows those that its page lists."""
        if len(content) > limits.METADATA:
            self._add("variants", f"it has more than {show_size(limits.METADATA)}")
            return
        try:
            known = set(json.loads(content)["variants"])
        except (ValueError, LookupError, TypeError, RecursionError):
            self._add("variants", "it isn't the JSON that PEP 825 asks for")
            return
        if lacking := [one for one in self.labels if one not in known]:
            self._add("variants", f"it doesn't know {', '.join(lacking)}, which the page lists")

    def _check_wheel(
        self,
        wheel: Wheel,
        contents: Mapping[str, Content],
        metadata: bytes | None,
        digest_of: Callable[[str, str], str],
    ) -> None:
        if faults := member_faults(wheel):
            self._add("archive", _told(faults))
        record = wheel.read_text("RECORD")
        if faults := record_faults(record, wheel.dist_info, contents, digest_of):
            self._add("record", _told(faults))
        own = wheel.read("METADATA")
        if own is None:
            self._add("archive", "it has no METADATA")
            return
        if metadata is not None and metadata != own:
            self._add("metadata", _difference(metadata, own))
        self._check_headers(own.decode("utf-8", "replace"))

    def _check_headers(self, text: str) -> None:
        name, version = ("".join(header(text, one)[:1]) for one in ("name", "version"))
        with contextlib.suppress(InvalidWheelFilename):  # which the page's rules find
            own = parse_wheel_filename(split_variant(self.file.name)[0])[:2]
            if (canonicalize_name(name), _version(version)) != own:
                self._add("wheel-name", f"METADATA says {name} {version}")
        said, own_pythons = self.file.requires_python, "".join(header(text, "requires-python")[:1])
        if not _is_same(said, own_pythons):
            fact = f"the page says {said or 'any'}, METADATA {own_pythons or 'any'}"
            self._add("requires-python", fact)


def _listed_contents(wheel: Wheel) -> dict[str, Content]:
    """Members by their names and sizes, with the hashes that RECORD says: nothing else is read."""
    said: dict[str, str] = {}
    with contextlib.suppress(RecordFormatError):
        said = {name: digest for name, digest, _ in record_rows(wheel.read_text("RECORD"))}
    return {
        name: Content(
            digest=said.get(name, "").rstrip("="), size=wheel.archive.getinfo(name).file_size
        )
        for name in wheel.names
    }


def _said_digest(contents: Mapping[str, Content], name: str, _algorithm: str) -> str:
    return contents[name].digest


def _content(pieces: Iterator[bytes]) -> Content:
    hashed = ContentHash()
    for piece in pieces:
        hashed.update(piece)
    return hashed.content()


def _told(faults: Sequence[tuple[str, str]]) -> str:
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return "; ".join(f"{name}: {fact}" for name, fact in faults[:_SHOWN]) + more


def _difference(beside: bytes, own: bytes) -> str:
    """The first line in which the METADATA file differs from the wheel's."""
    lines, others = (one.decode("utf-8", "replace").splitlines() for one in (beside, own))
    for number, (line, other) in enumerate(zip(lines, others, strict=False), 1):
        if line != other:
            return f"line {number} is {line!r}, in the wheel it is {other!r}"
    return f"it has {len(beside)} bytes, in the wheel it has {len(own)}"


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _is_same(said: str, own: str) -> bool:
    """Whether two specifiers allow the same; what can't be read is another rule's matter."""
    try:
        return SpecifierSet(said) == SpecifierSet(own)
    except InvalidSpecifier:
        return True
