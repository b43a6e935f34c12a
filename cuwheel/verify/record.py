"""What verifications have found: docs/reproducibility.json, and the table in the page beside it."""

from __future__ import annotations

import dataclasses
import datetime
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuwheel.system.files import write_atomically
from cuwheel.system.whole_files import read_text
from cuwheel.verify.published import read_published

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.verify.session import Verified


DATA = "docs/reproducibility.json"
REPRODUCIBILITY_PAGE = "docs/reproducibility.md"
_START = "<!-- The table is written by `nox -s verify -- all`. -->"
_END = "<!-- End of the table. -->"
_SHA256_SHOWN = 16  # characters of a hash
_COLUMNS = (
    "target",
    "archs",
    "host compiler",
    "paths, jobs, umask, locale, caches, sandbox and none",
    "compile cache cold and warm",
    "another machine",
    "sha256",
    "verified",
)


@dataclass(frozen=True, kw_only=True)
class VerifiedTarget:
    """What one verification found.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        version: of the package.
        archs: compute capabilities that were built.
        compiler: the host compiler, or that the toolchain brings one.
        sha256: of the usual build's wheel.
        other: whether the build with everything varied, and no sandbox, was the same bytes.
        warm: whether the one from the compile cache was.
        date: ISO 8601.
        causes: of what differs, in words.
        verified: the verification itself; not recorded.
    """

    target: str
    version: str
    archs: tuple[str, ...]
    compiler: str
    sha256: str
    other: bool
    warm: bool
    date: str
    causes: tuple[str, ...]
    verified: Verified

    @classmethod
    def of(cls, target: Target, verified: Verified) -> VerifiedTarget:
        """The finding of a verification that was just made."""
        today = datetime.datetime.now(tz=datetime.timezone.utc).date()
        return cls(
            target=target.id,
            version=target.recipe.version,
            archs=target.archs,
            compiler=read_published(verified.builds[0].wheel).materials.get(
                "host compiler", "not stated"
            ),
            sha256=verified.builds[0].sha256,
            other="other" not in verified.unequal,
            warm="warm" not in verified.unequal,
            date=today.isoformat(),
            causes=verified.causes,
            verified=verified,
        )


def record(found: VerifiedTarget, root: Path) -> None:
    """Put a finding into the data, in place of the target's earlier one, and write the table.

    Args:
        found: the finding.
        root: of the project.
    """
    data = read_findings(root)
    row = {
        field.name: getattr(found, field.name)
        for field in dataclasses.fields(found)
        if field.name not in {"verified", "target"}
    }
    before = data.get(found.target, {})
    is_same_wheel = before.get("sha256") == found.sha256
    data[found.target] = {**row, "machines": before.get("machines", []) if is_same_wheel else []}
    text = json.dumps(dict(sorted(data.items())), indent=2) + "\n"
    write_atomically(root / DATA, text)
    page = root / REPRODUCIBILITY_PAGE
    write_atomically(page, with_table(read_text(page), json.loads(text)))


def read_findings(root: Path) -> dict[str, Any]:
    """The recorded findings by target; none where there is no record."""
    path = root / DATA
    found: dict[str, Any] = json.loads(read_text(path)) if path.is_file() else {}
    return found


def with_table(page: str, findings: dict[str, Any]) -> str:
    """The page with the table of these findings."""
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
        same[row["other"]],
        same[row["warm"]],
        machines or "not tried",
        f"`{row['sha256'][:_SHA256_SHOWN]}…`",
        row["date"],
    ]
