"""Whether enough independent rebuilders have got a wheel's bytes: a policy held to statements."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from cuwheel import limits
from cuwheel.attest.envelope import StatementError, open_envelope
from cuwheel.attest.sigstore import is_bundle, open_bundles
from cuwheel.attest.verification import check_statement
from cuwheel.errors import DownloadError, OversizedDownloadError, PolicyError, UsageError
from cuwheel.fetch.download import PinnedFile, download
from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.fetch.urls import redact_url
from cuwheel.fetch.web import ask_head
from cuwheel.system.console import Console
from cuwheel.system.files import sha256_of_file
from cuwheel.system.output.terminal import visible
from cuwheel.system.regular_files import read_regular
from cuwheel.wheel.publication import REBUILT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cuwheel.attest.keys import PublicKey
    from cuwheel.attest.policy import Policy, Rebuilder
    from cuwheel.attest.sigstore import Identity, Opened
    from cuwheel.fetch.retry import RetryPolicy


@dataclass(frozen=True, kw_only=True)
class SignedStatement:
    """A file that may be a rebuilder's statement.

    Attributes:
        name: where it is, for messages.
        content: what it holds.
        fault: why nobody knows what it holds; empty where that is known.
    """

    name: str
    content: bytes
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a policy says of a wheel.

    Attributes:
        wheel: its file name.
        sha256: of it.
        threshold: how many rebuilders it needs.
        counted: names of those who have got its bytes, each once.
        refused: statements that don't count, and why: where each is, and the reason.
        silent: names of the rebuilders without a statement that counts, and why.
    """

    wheel: str
    sha256: str
    threshold: int
    counted: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    silent: tuple[tuple[str, str], ...]

    @property
    def is_met(self) -> bool:
        """Whether the policy lets the wheel pass."""
        return len(self.counted) >= self.threshold

    @property
    def summary(self) -> str:
        """One line."""
        of = f"{len(self.counted)} of the {self.threshold} that the policy requires"
        who = f": {', '.join(self.counted)}" if self.counted else ""
        return f"{self.wheel} was rebuilt to the same bytes by {of}{who}"


def statement_name(wheel: str, key: PublicKey | Identity) -> str:
    """What a rebuilder's statement of a wheel is called, beside it or elsewhere."""
    return f"{wheel}{REBUILT}{key.file_ending}"


def check_policy(
    wheel: Path,
    policy: Policy,
    statements: Iterable[SignedStatement],
    today: datetime.date | None = None,
    console: Console | None = None,
) -> Verdict:
    """Say whether enough of a policy's rebuilders state that a wheel's bytes came out again.

    However many statements one of them has made, they count once.

    Args:
        wheel: the file; its name and all of its bytes count.
        policy: who counts, and how many of them it takes.
        statements: whatever was found; what is none of theirs is named and not counted.
        today: for keys that end; None: today, in UTC.
        console: shows how Sigstore's environment is made, where a statement needs it.

    Raises:
        SigstoreError: the policy's roots of Sigstore can't be read.
    """
    statements = tuple(statements)
    bundles = open_bundles(
        [one.content for one in statements if is_bundle(one.content)],
        policy.identities,
        policy.trusted_root,
        console or Console(),
    )
    sha256 = sha256_of_file(wheel)
    day = today or datetime.datetime.now(tz=datetime.timezone.utc).date()
    counted: set[str] = set()
    refused: list[tuple[str, str]] = []
    for one in statements:
        try:
            rebuilder = _author(one, policy, bundles, (wheel.name, sha256), day)
        except StatementError as problem:  # noqa: PERF203 - each is told
            refused.append((one.name, visible(str(problem))))
        else:
            counted.add(rebuilder.name)
    return Verdict(
        wheel=wheel.name,
        sha256=sha256,
        threshold=policy.threshold,
        counted=tuple(one.name for one in policy.rebuilders if one.name in counted),
        refused=tuple(refused),
        silent=tuple(
            (one.name, _why_silent(one, day))
            for one in policy.rebuilders
            if one.name not in counted
        ),
    )


def _author(
    statement: SignedStatement,
    policy: Policy,
    bundles: Mapping[bytes, Opened | StatementError],
    wheel: tuple[str, str],
    day: datetime.date,
) -> Rebuilder:
    """Who states that the wheel came out with the same bytes, and has signed that.

    Raises:
        StatementError: nobody of the policy; or it says something else, or the key has ended.
    """
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
    signer = next((one.id for one in by if one.verifier == author), "")
    if not signer:
        raise StatementError("its verifier is not the one who signed it")
    rebuilder = next(one for one in policy.rebuilders if one.key.id == signer)
    if _has_ended(rebuilder, day):
        raise StatementError(
            f"the {rebuilder.key.kind} of {rebuilder.name} counted until {rebuilder.until}"
        )
    return rebuilder


def _has_ended(rebuilder: Rebuilder, day: datetime.date) -> bool:
    return rebuilder.until is not None and day > rebuilder.until


def _why_silent(rebuilder: Rebuilder, day: datetime.date) -> str:
    if _has_ended(rebuilder, day):
        return f"the {rebuilder.key.kind} counted until {rebuilder.until}"
    return f"no statement by {rebuilder.key.shown} counts"


def raise_if_refused(verdict: Verdict) -> None:
    """End a session whose wheel doesn't meet the policy.

    Raises:
        PolicyError: it doesn't.
    """
    if verdict.is_met:
        return
    raise PolicyError(
        verdict.summary,
        why="\n".join(f"{what}: {reason}" for what, reason in (*verdict.refused, *verdict.silent)),
        fix="don't install it; ask its rebuilders, or rebuild it yourself: "
        f"nox -s rebuild -- {verdict.wheel} --key FILE",
    )


def find_statements(
    wheel: Path,
    policy: Policy,
    places: Sequence[str | Path],
    console: Console,
    retry_policy: RetryPolicy = RETRY_POLICY,
) -> tuple[SignedStatement, ...]:
    """The statements of a wheel that lie beside it and in other places.

    What a server doesn't give is among them with its fault: others may be enough for the policy.

    Args:
        wheel: the file.
        policy: by whose keys files are named at an address.
        places: folders, files, and addresses of folders on a server.
        console: shows downloads.
        retry_policy: how long to go on trying, for each address.

    Raises:
        UsageError: a folder or file isn't there.
    """
    found: dict[str, SignedStatement] = {}
    for place in (wheel.parent, *places):
        if isinstance(place, str):
            server = _Server(address=place, console=console, retry_policy=retry_policy)
            found.update((one.name, one) for one in server.statements(wheel.name, policy))
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
                found[name] = SignedStatement(name=name, content=_content(path))
    return tuple(found.values())


def _content(path: Path) -> bytes:
    """What a file holds; nothing where it isn't one, which is then no statement."""
    with contextlib.suppress(OSError):
        return read_regular(path, limit=limits.JSON)
    return b""


@dataclass(frozen=True, kw_only=True)
class _Server:
    """A folder on a server that is asked for statements."""

    address: str
    console: Console
    retry_policy: RetryPolicy

    def statements(self, wheel: str, policy: Policy) -> Iterator[SignedStatement]:
        """Those of a policy's rebuilders; none of a rebuilder whose isn't there."""
        attempts = Attempts(self.retry_policy)  # at all of them: one wait for a server that is down
        for rebuilder in policy.rebuilders:
            name = statement_name(wheel, rebuilder.key)
            url = f"{self.address.rstrip('/')}/{quote(name)}"
            try:
                if ask_head(url, attempts, fix="omit the address").is_there:
                    yield SignedStatement(name=redact_url(url), content=self._download(name, url))
                attempts.note_progress()
            except DownloadError as problem:  # some refuse where nothing is: the next may be there
                fault = f"could not be queried: {problem.why}"
                yield SignedStatement(name=redact_url(url), content=b"", fault=fault)
            except OversizedDownloadError as problem:
                fault = f"it can't be read: {problem.why}"
                yield SignedStatement(name=redact_url(url), content=b"", fault=fault)

    def _download(self, name: str, url: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="cuwheel-") as folder:
            path = Path(folder) / name
            file = PinnedFile(name=name, sha256="", max_size=limits.JSON)  # its signature proves it
            download(file, path, url, console=self.console, retry_policy=self.retry_policy)
            return _content(path)
