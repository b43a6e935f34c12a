"""Check of a policy: enough independent rebuilders have to state that they got a wheel's bytes."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from cuwheel.base import limits
from cuwheel.base.errors import DownloadError, HashMismatchError, PolicyError, UsageError
from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import redact_url
from cuwheel.base.fetch.web import read_head
from cuwheel.base.formats.signing_keys import PublicKey
from cuwheel.base.formats.wheel.publication import REBUILT
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import visible
from cuwheel.base.system.regular_files import read_regular
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.publish.rebuild.attest.policy import Policy, Rebuilder
from cuwheel.publish.rebuild.attest.signatures import StatementError, open_envelope
from cuwheel.publish.rebuild.attest.sigstore import Identity, Opened, is_bundle, open_bundles
from cuwheel.publish.rebuild.attest.verification import check_statement


@dataclass(frozen=True, kw_only=True)
class SignedStatement:
    """A file that may be a rebuilder's statement.

    Attributes:
        fault: why its content is unknown; empty if it is known.
    """

    name: str
    content: bytes
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class RefusedStatement:
    """A statement that doesn't count: where it is, and why."""

    statement: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SilentRebuilder:
    """A rebuilder without a statement that counts: the name, and why."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class PolicyVerdict:
    """What `attestations --json` prints, one line for each wheel.

    Attributes:
        wheel: its file name.
        sha256: of it.
        threshold: how many rebuilders it needs.
        is_met: whether it passes the policy.
        counted: names of the rebuilders who got the same bytes, each once.
        refused: statements that don't count.
        silent: rebuilders without a statement that counts.
    """

    SCHEMA: ClassVar[Schema] = Schema("attestations", "1.0")

    wheel: str
    sha256: str
    threshold: int
    is_met: bool = field(init=False)
    counted: tuple[str, ...]
    refused: tuple[RefusedStatement, ...]
    silent: tuple[SilentRebuilder, ...]

    def __post_init__(self) -> None:
        """Compare the number of rebuilders with the threshold."""
        object.__setattr__(self, "is_met", len(self.counted) >= self.threshold)

    @property
    def reasons(self) -> tuple[str, ...]:
        """A line for each statement and rebuilder that doesn't count."""
        return (
            *(f"{item.statement}: {item.why}" for item in self.refused),
            *(f"{item.name}: {item.why}" for item in self.silent),
        )

    @property
    def summary(self) -> str:
        """The result in one line."""
        of = f"{len(self.counted)} of the {self.threshold} that the policy requires"
        names = f": {', '.join(self.counted)}" if self.counted else ""
        return f"{self.wheel} was rebuilt to the same bytes by {of}{names}"


def statement_name(wheel: str, key: PublicKey | Identity) -> str:
    """Return the file name of a rebuilder's statement of a wheel."""
    return f"{wheel}{REBUILT}{key.file_ending}"


def check_policy(
    wheel: Path,
    policy: Policy,
    statements: Iterable[SignedStatement],
    workspace: Workspace,
    today: datetime.date | None = None,
) -> PolicyVerdict:
    """Check that enough of a policy's rebuilders state that they got a wheel's bytes.

    Several statements of one rebuilder count once.

    Args:
        statements: of anyone; those of others are named and not counted.
        today: for keys that end; None: today, in UTC.

    Raises:
        PolicyError: the policy's roots of Sigstore can't be read.
    """
    statements = tuple(statements)
    bundles = open_bundles(
        [statement.content for statement in statements if is_bundle(statement.content)],
        policy.identities,
        policy.trusted_root,
        workspace,
    )
    sha256 = sha256_of_file(wheel)
    day = today or datetime.datetime.now(tz=datetime.timezone.utc).date()
    counted: set[str] = set()
    refused: list[RefusedStatement] = []
    for statement in statements:
        try:
            rebuilder = _author(statement, policy, bundles, (wheel.name, sha256), day)
        except StatementError as problem:  # noqa: PERF203 - each is reported
            refused.append(RefusedStatement(statement=statement.name, why=visible(str(problem))))
        else:
            counted.add(rebuilder.name)
    return PolicyVerdict(
        wheel=wheel.name,
        sha256=sha256,
        threshold=policy.threshold,
        counted=tuple(
            rebuilder.name for rebuilder in policy.rebuilders if rebuilder.name in counted
        ),
        refused=tuple(refused),
        silent=tuple(
            SilentRebuilder(
                name=rebuilder.name,
                why=f"the {rebuilder.key.kind} counted until {rebuilder.until}"
                if _has_ended(rebuilder, day)
                else f"no statement by {rebuilder.key} counts",
            )
            for rebuilder in policy.rebuilders
            if rebuilder.name not in counted
        ),
    )


def _author(
    statement: SignedStatement,
    policy: Policy,
    bundles: Mapping[bytes, Opened | StatementError],
    wheel: tuple[str, str],
    day: datetime.date,
) -> Rebuilder:
    """Return the rebuilder who states, and has signed, that the wheel came out with these bytes."""
    if statement.fault:
        raise StatementError(statement.fault)
    by: Sequence[PublicKey | Identity]
    if opened := bundles.get(statement.content):
        if isinstance(opened, StatementError):
            raise opened
        stated, by = opened[0], opened[1:]
    else:
        stated, by = open_envelope(statement.content, policy.keys)
    author = check_statement(stated, *wheel)
    signer = next((identity.id for identity in by if identity.verifier == author), "")
    if not signer:
        raise StatementError("its verifier is not the one who signed it")
    rebuilder = next(rebuilder for rebuilder in policy.rebuilders if rebuilder.key.id == signer)
    if _has_ended(rebuilder, day):
        raise StatementError(
            f"the {rebuilder.key.kind} of {rebuilder.name} counted until {rebuilder.until}"
        )
    return rebuilder


def _has_ended(rebuilder: Rebuilder, day: datetime.date) -> bool:
    return rebuilder.until is not None and day > rebuilder.until


def raise_if_refused(verdict: PolicyVerdict) -> None:
    """Raise a PolicyError if a wheel doesn't meet the policy."""
    if verdict.is_met:
        return
    raise PolicyError(
        verdict.summary,
        why="\n".join(verdict.reasons),
        fix="don't install it; ask its rebuilders, or rebuild it yourself: "
        f"nox -s rebuild -- {verdict.wheel} --key FILE",
    )


def find_statements(
    wheel: Path,
    policy: Policy,
    places: Sequence[str | Path],
    console: Console,
) -> tuple[SignedStatement, ...]:
    """Find the statements of a wheel next to it and in other places.

    Failed downloads are among them with a fault: others may be enough for the policy.

    Raises:
        UsageError: a folder or file isn't there.
    """
    statements: dict[str, SignedStatement] = {}
    for place in (wheel.parent, *places):
        if isinstance(place, str):
            listed = _statements_at(place, wheel.name, policy, console)
            statements |= {statement.name: statement for statement in listed}
            continue
        if not place.exists():
            raise UsageError(
                f"{place} does not exist",
                why="it was given as a location of statements",
                fix="give an existing folder, file or address",
            )
        files = sorted(place.glob(f"*{REBUILT}*.json")) if place.is_dir() else [place]
        for path in files:
            if path == place or path.name.startswith(f"{wheel.name}{REBUILT}"):
                name = str(path.absolute())
                statements[name] = SignedStatement(name=name, content=_content(path))
    return tuple(statements.values())


def _content(path: Path) -> bytes:
    """Return the content of a file; nothing, which is no statement, if it can't be read."""
    with contextlib.suppress(OSError):
        return read_regular(path, limit=limits.JSON)
    return b""


def _statements_at(
    address: str, wheel: str, policy: Policy, console: Console
) -> Iterator[SignedStatement]:
    """Yield the statements of a policy's rebuilders in a folder on a server."""
    attempts = Attempts()  # shared: one wait for a server that is down
    for rebuilder in policy.rebuilders:
        name = statement_name(wheel, rebuilder.key)
        url = f"{address.rstrip('/')}/{quote(name)}"
        content, fault = b"", ""
        try:
            if read_head(url, attempts, fix="omit the address").is_there:
                with temporary_folder() as folder:
                    # Its signature proves it.
                    file = PinnedFile(name=name, sha256="", max_size=limits.JSON)
                    path = folder / name
                    download(file, path, url, console=console)
                    content = _content(path)
            attempts.note_progress()
        except HashMismatchError as problem:
            fault = f"it can't be read: {problem.why}"
        except DownloadError as problem:  # some servers refuse missing files
            fault = f"could not be queried: {problem.why}"
        if content or fault:
            yield SignedStatement(name=redact_url(url), content=content, fault=fault)
