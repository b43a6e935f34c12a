"""What `verify` and `rebuild` found, as data for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from cuwheel.system.output.documents import Schema
from cuwheel.verify.leftovers import leftovers_of

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.verify.leftovers import Leftover
    from cuwheel.verify.rebuilds import Rebuilt
    from cuwheel.verify.session import Verified, VerifiedAgainst

State = Literal["the same bytes", "other bytes"]


@dataclass(frozen=True, kw_only=True)
class BuiltAgain:
    """One build.

    Attributes:
        name: of the variation.
        varied: what it varied, in words.
        wheel: the file.
        sha256: of the wheel.
        seconds: that the build took.
        cache: what the compile cache did, in words; empty where there was none.
    """

    name: str
    varied: str
    wheel: Path
    sha256: str
    seconds: float
    cache: str


@dataclass(frozen=True, kw_only=True)
class VerifyDocument:
    """What `verify --json` prints, a line for each target.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        state: whether all builds gave the same.
        builds: all of them; the first is what the others are compared with.
        unequal: names of those that gave other bytes.
        causes: the known causes of what differs, in words; of unknown ones it says so.
        left: what stays on disk, the largest first.
    """

    SCHEMA: ClassVar[Schema] = Schema("verify", "1.0")

    target: str
    state: State
    builds: tuple[BuiltAgain, ...]
    unequal: tuple[str, ...]
    causes: tuple[str, ...]
    left: tuple[Leftover, ...]


@dataclass(frozen=True, kw_only=True)
class Published:
    """What was published: the file that was named, and the SHA-256 of the wheel."""

    file: Path
    sha256: str


@dataclass(frozen=True, kw_only=True)
class RebuildDocument:
    """What `rebuild --json` and `verify --against --json` print.

    Attributes:
        target: the wheel that was published, or the target that was named.
        state: whether the build gave the same.
        against: what it was held against.
        build: ours.
        causes: the known causes of what differs, in words; none where only the hash is known.
        materials: those that differ, in words.
        differences: members and kernels in which they differ, in words.
        statement: the signed statement that was written; null: nothing was signed.
        left: what stays on disk, the largest first.
    """

    SCHEMA: ClassVar[Schema] = Schema("rebuild", "1.0")

    target: str
    state: State
    against: Published
    build: BuiltAgain
    causes: tuple[str, ...]
    materials: tuple[str, ...]
    differences: tuple[str, ...]
    statement: Path | None
    left: tuple[Leftover, ...]


def verify_document(found: Verified, target: str, folder: Path) -> VerifyDocument:
    """What a verification found, as a document.

    Args:
        found: by it.
        target: which was verified.
        folder: where it worked.
    """
    return VerifyDocument(
        target=target,
        state="other bytes" if found.unequal else "the same bytes",
        builds=tuple(map(_built, found.builds)),
        unequal=found.unequal,
        causes=found.causes,
        left=leftovers_of(folder),
    )


def rebuild_document(
    found: VerifiedAgainst, target: str, folder: Path, statement: Path | None = None
) -> RebuildDocument:
    """What a comparison with a published wheel found, as a document.

    Args:
        found: by it.
        target: which was built again.
        folder: where that worked.
        statement: that was signed.
    """
    return RebuildDocument(
        target=target,
        state="the same bytes" if found.is_equal else "other bytes",
        against=Published(file=found.theirs.named, sha256=found.theirs.sha256),
        build=_built(found.build),
        causes=found.causes,
        materials=found.materials,
        differences=found.differences,
        statement=statement,
        left=leftovers_of(folder),
    )


def _built(one: Rebuilt) -> BuiltAgain:
    return BuiltAgain(
        name=one.variation.name,
        varied=one.variation.says,
        wheel=one.wheel,
        sha256=one.sha256,
        seconds=one.seconds,
        cache=one.cache,
    )
