"""What was measured and verified of exactly these wheels, and what a release may require of it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cuwheel.errors import ReleaseRequirementError, UsageError
from cuwheel.perf.records import PerfRun, read_run
from cuwheel.system.quantities import plural
from cuwheel.system.regular_files import read_json
from cuwheel.verify.wheel_record import read_verification
from cuwheel.wheel.publication import statement_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from cuwheel.index.entries import Entry
    from cuwheel.verify.wheel_record import WheelVerification

Requirement = Literal["perf", "verify"]
REQUIREMENTS: tuple[Requirement, ...] = ("perf", "verify")


@dataclass(kw_only=True)
class Evidence:
    """What is recorded of a wheel: of each kind the newest, whatever it says.

    Attributes:
        perf: the newest measurement, and its file.
        verify: the newest verification, likewise.
    """

    perf: tuple[PerfRun, Path] | None = None
    verify: tuple[WheelVerification, Path] | None = None

    @property
    def files(self) -> dict[str, Path]:
        """The records by what they are of."""
        found = {"perf": self.perf, "verify": self.verify}
        return {name: one[1] for name, one in found.items() if one}

    @property
    def perf_words(self) -> str:
        """What the measurement found, for people; empty: there is none."""
        if self.perf is None:
            return ""
        run = self.perf[0]
        compared = f", {run.answer} against {run.against}" if run.answer else ""
        driver = f", driver {run.gpu.driver}" if run.gpu.driver else ""
        return f"{run.outcome} on {run.gpu_names}{driver}, {run.date[:10]}{compared}"

    @property
    def verify_words(self) -> str:
        """Likewise of the verification."""
        if self.verify is None:
            return ""
        found = self.verify[0]
        result = "the same bytes" if found.is_same else "other bytes"
        return f"{result} from {plural(len(found.builds), 'build')}, {found.date[:10]}"

    @property
    def passed(self) -> frozenset[Requirement]:
        """What it passed."""
        found: dict[Requirement, bool] = {
            "perf": self.perf is not None and self.perf[0].outcome == "passed",
            "verify": self.verify is not None and self.verify[0].is_same,
        }
        return frozenset(name for name, is_passed in found.items() if is_passed)


@dataclass(frozen=True, kw_only=True)
class _Reports:
    """All records of some wheels."""

    by_sha256: dict[str, Evidence] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Take what a file records, if it does; of two records the newer one counts."""
        content = read_json(path) or {}
        evidence = self.by_sha256.get(str(content.get("sha256", "")))
        if evidence is None:
            return
        with contextlib.suppress(UsageError, KeyError, ValueError):  # of another release of cuwheel
            if content.get("schema") == PerfRun.SCHEMA.name:
                run = read_run(path)
                evidence.perf = (run, path) if _is_newer(run, evidence.perf) else evidence.perf
            else:
                found = read_verification(content)
                is_newer = _is_newer(found, evidence.verify)
                evidence.verify = (found, path) if is_newer else evidence.verify


def read_evidence(entries: Iterable[Entry], reports: Iterable[Path]) -> dict[str, Evidence]:
    """What is recorded of wheels, by their SHA-256.

    Args:
        entries: the wheels.
        reports: folders in which records lie, however deep: `reports/`, `nightly/`.
    """
    found = _Reports(by_sha256={entry.sha256: Evidence() for entry in entries})
    for folder in reports if found.by_sha256 else ():
        for path in sorted(folder.rglob("*.json")):
            found.add(path)
    return found.by_sha256


def check_requirements(
    required: Collection[Requirement],
    evidence: Mapping[str, Evidence],
    wheels: Mapping[Path, Entry],
) -> None:
    """See that all wheels passed what a release requires.

    Args:
        required: of each wheel.
        evidence: by SHA-256.
        wheels: the wheels by their files.

    Raises:
        ReleaseRequirementError: some didn't; each is named, with what to run.
    """
    lacking = [
        (name, path, entry)
        for path, entry in wheels.items()
        for name in sorted(required)
        if name not in evidence[entry.sha256].passed
    ]
    if not lacking:
        return
    commands = dict.fromkeys(line for name, path, _ in lacking for line in _commands(name, path))
    raise ReleaseRequirementError(
        f"{plural(len({path for _, path, _ in lacking}), 'wheel')} can't be released: "
        f"{' and '.join(sorted({name for name, _, _ in lacking}))} not passed",
        why="\n".join(
            f"{path.name}: {_state(name, evidence[entry.sha256])}" for name, path, entry in lacking
        ),
        fix="\n".join(commands),
    )


def _state(name: Requirement, evidence: Evidence) -> str:
    """How a wheel stands that didn't pass."""
    said = evidence.perf_words if name == "perf" else evidence.verify_words
    path = evidence.files.get(name)
    return (
        f"{name} says: {said} ({path})"
        if path
        else f"there is no {name} record for this file (by SHA-256)"
    )


def _commands(name: Requirement, wheel: Path) -> Iterator[str]:
    """What to run so that a wheel may pass."""
    if name == "perf":
        yield f"nox -s perf -- --wheel {wheel}"
        return
    try:
        stated = (read_json(statement_of(wheel)) or {})["predicate"]["buildDefinition"]
        recipe, toolkit = (stated["externalParameters"][one] for one in ("recipe", "toolkit"))
        yield f"nox -s verify -- {recipe}-{toolkit.replace('.', '')} --against {wheel}"
    except (KeyError, TypeError, AttributeError):
        yield f"{wheel.name} has no provenance of cuwheel: build it here, or leave it out of --dist"


def _is_newer(
    found: PerfRun | WheelVerification, known: tuple[PerfRun | WheelVerification, Path] | None
) -> bool:
    return known is None or found.date >= known[0].date
