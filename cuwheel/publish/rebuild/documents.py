"""What verifications leave: documents for programs, records of wheels and targets, folders."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.output.documents import Schema, as_file
from cuwheel.base.system.quantities import show_size
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.serialization import from_json
from cuwheel.publish.rebuild.builds import BuiltAgain
from cuwheel.publish.rebuild.published import read_published
from cuwheel.publish.rebuild.verify import BytesState, Leftover, Verified, VerifiedAgainst

_NAME, _SIZE = 10, 11  # characters of two columns
_BLOCK = 512  # bytes, what st_blocks counts (stat(2))
FOLDER = "verify"  # of the folder of reports
DATA = "docs/reproducibility.json"
REPRODUCIBILITY_PAGE = "docs/reproducibility.md"
_START = "<!-- The table is written by `nox -s verify -- all`. -->"
_END = "<!-- End of the table. -->"
_SHA256_SHOWN = 16  # characters of a hash
_OLDER = ("a sandbox", "none")  # of records that don't name them
_COLUMNS = (
    "target",
    "archs",
    "host compiler",
    "folders, jobs, umask, locale, caches, sandbox varied",
    "compile cache cold and warm",
    "another machine",
    "sha256",
    "verified",
)


def leftovers_of(folder: Path) -> tuple[Leftover, ...]:
    """Return the folders in a folder, the largest first."""
    leftovers = (
        Leftover(path=path, size=_freed(path)) for path in folder.iterdir() if path.is_dir()
    )
    return tuple(sorted(leftovers, key=lambda leftover: -leftover.size))


def print_leftovers(folder: Path, console: Console) -> None:
    """Print the leftovers of a verification, if there are any, and how to remove them."""
    if not folder.is_dir():
        return
    leftovers = leftovers_of(folder)
    console.note(f"left, {show_size(sum(item.size for item in leftovers))}: {folder}")
    for item in leftovers:
        console.note(f"  {item.path.name:<{_NAME}}{show_size(item.size):>{_SIZE}}")
    console.note(f"to remove it: rm -rf {shlex.quote(str(folder))}")


def _freed(folder: Path) -> int:
    size = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):  # another process removes it meanwhile
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - of 100,000
                size += status.st_blocks * _BLOCK if status.st_nlink == 1 else 0
    return size


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
    state: BytesState
    against: Published
    build: BuiltAgain
    causes: tuple[str, ...]
    materials: tuple[str, ...]
    differences: tuple[str, ...]
    statement: Path | None
    left: tuple[Leftover, ...]


def rebuild_document(
    compared: VerifiedAgainst, target: str, folder: Path, statement: Path | None = None
) -> RebuildDocument:
    """Return the result of a comparison with a published wheel as a document."""
    return RebuildDocument(
        target=target,
        state="the same bytes" if compared.is_equal else "other bytes",
        against=Published(file=compared.theirs.named, sha256=compared.theirs.sha256),
        build=compared.build,
        causes=compared.causes,
        materials=compared.materials,
        differences=compared.differences,
        statement=statement,
        left=leftovers_of(folder),
    )


@dataclass(frozen=True, kw_only=True)
class WheelVerification:
    """What building a wheel again has given; what `reports/verify/` holds of it.

    Attributes:
        wheel: its file name.
        sha256: of it.
        target: that was built.
        date: in UTC, ISO 8601.
        is_same: every build gave these bytes.
        builds: the builds, in words.
        causes: of what differs, in words.
    """

    SCHEMA: ClassVar[Schema] = Schema("wheel-verification", "1.0")

    wheel: str
    sha256: str
    target: str
    date: str
    is_same: bool
    builds: tuple[str, ...]
    causes: tuple[str, ...] = ()

    def covers(self, other: WheelVerification) -> bool:
        """Return True if it compared at least as many builds as another verification."""
        return len(self.builds) >= len(other.builds)


def record_verification(verified: Verified | VerifiedAgainst, target: str, reports: Path) -> Path:
    """Record a comparison of builds with each other, or with a published wheel; return the file."""
    if isinstance(verified, Verified):
        builds, is_same = verified.builds, not verified.unequal
        wheel, sha256, kind = builds[0].wheel.name, builds[0].sha256, ""
    else:
        builds, is_same, kind = (verified.build,), verified.is_equal, "-against"
        wheel, sha256 = verified.theirs.wheel_name, verified.theirs.sha256
    record = WheelVerification(
        wheel=wheel,
        sha256=sha256,
        target=target,
        date=datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds"),
        is_same=is_same,
        builds=tuple(f"{build.name}: {build.varied}" for build in builds),
        causes=verified.causes,
    )
    path = reports / FOLDER / f"{sha256}{kind}.json"
    write_atomically(path, as_file(record))
    return path


def read_verification(content: dict[str, Any]) -> WheelVerification:
    """Return a record from the content of its file.

    Args:
        content: loses the fields that name the schema.

    Raises:
        KeyError: it names no schema.
        ValueError: it is another document, or a field is of another type.
    """
    WheelVerification.SCHEMA.take_from(content)
    return from_json(WheelVerification, content)


def record_target(target: Target, verified: Verified, sandboxes: Sequence[str], root: Path) -> None:
    """Put a verification into the data, in place of the target's earlier one; write the table.

    Args:
        sandboxes: of the usual build and the varied one, `none` among them.
    """
    data = read_findings(root)
    first = verified.builds[0]
    before = data.get(target.id, {})
    data[target.id] = {
        "version": target.recipe.version,
        "archs": target.archs,
        "compiler": read_published(first.wheel).materials.get("host compiler", "not stated"),
        "sha256": first.sha256,
        "other": "other" not in verified.unequal,
        "sandboxes": sandboxes,
        "warm": "warm" not in verified.unequal,
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "causes": verified.causes,
        "machines": before.get("machines", []) if before.get("sha256") == first.sha256 else [],
    }
    text = json.dumps(dict(sorted(data.items())), indent=2) + "\n"
    write_atomically(root / DATA, text)
    page = root / REPRODUCIBILITY_PAGE
    write_atomically(page, with_table(read_text(page), parse_json(text)))


def read_findings(root: Path) -> dict[str, Any]:
    """Return the recorded results by target; none if there is no record."""
    path = root / DATA
    findings: dict[str, Any] = parse_json(read_text(path)) if path.is_file() else {}
    return findings


def with_table(page: str, findings: dict[str, Any]) -> str:
    """Return the page with the table of these results."""
    before, _, rest = page.partition(_START)
    after = rest.partition(_END)[2]
    lines = [" | ".join(_COLUMNS), " | ".join("---" for _ in _COLUMNS)]
    lines += [" | ".join(_cells(name, row)) for name, row in findings.items()]
    table = "\n".join(f"| {line} |" for line in lines)
    return f"{before}{_START}\n\n{table}\n\n{_END}{after}"


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    machines = "; ".join(f"{machine}: {what}" for machine, what in row["machines"])
    causes = "; ".join(row["causes"]).replace("|", "\\|")
    same = {True: "same bytes", False: f"differs: {causes}"}
    return [
        f"`{name}` {row['version']}",
        " ".join(row["archs"]) or "none",
        row["compiler"],
        f"{same[row['other']]} ({', '.join(row.get('sandboxes', _OLDER))})",
        same[row["warm"]],
        machines or "not tried",
        f"`{row['sha256'][:_SHA256_SHOWN]}…`",
        row["date"],
    ]
