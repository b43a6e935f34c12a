"""What is known of wheels and failed targets: records of measurements and builds, logs, causes."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cuwheel.base import limits
from cuwheel.base.errors import PolicyError, UsageError
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.quantities import plural, show_share
from cuwheel.base.system.regular_files import open_file, parse_json, read_json, read_regular
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.workspace.failure_record import FailureRecord, failure_path, read_failure
from cuwheel.build.workspace.masking.public_text import PublicText
from cuwheel.check.explain.explanation import ExplainedCause, Explainer
from cuwheel.lab.perf.records import PerfRun, read_run
from cuwheel.publish.rebuild.documents import WheelVerification, read_verification
from cuwheel.publish.rebuild.published import PublishedWheel
from cuwheel.publish.release.record import FailedTarget

Requirement = Literal["perf", "verify"]
REQUIREMENTS: tuple[Requirement, ...] = ("perf", "verify")


Record = PerfRun | WheelVerification
_MOST_TOLERANCE = 0.05  # a share of the time: the largest that `perf` uses by itself
LOGS = "logs"  # folder of a release
_SUFFIX = ".failed.json"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A wheel that another one has to be compared with; `path` may not exist here."""

    path: Path
    sha256: str


@dataclass(kw_only=True)
class Evidence:
    """The records of a wheel that count: those that no newer one replaces.

    A record replaces an older one if it shows at least as much, `covers`; a verification that found
    other bytes replaces any.

    Attributes:
        runs: measurements with their files, the oldest first.
        verification: with its file; None: there is none.
        damaged: records of this wheel that can't be read, and files that may be: each with why.
    """

    runs: list[tuple[PerfRun, Path]] = field(default_factory=list)
    verification: tuple[WheelVerification, Path] | None = None
    damaged: tuple[str, ...] = ()

    def add(self, record: Record, path: Path) -> None:
        """Add a record that is newer than all before."""
        if isinstance(record, PerfRun):
            weaker = [known for known in self.runs if record.covers(known[0])]
            self.runs = [known for known in self.runs if known not in weaker] + [(record, path)]
        elif not (self.verification and record.is_same) or record.covers(self.verification[0]):
            self.verification = record, path

    @property
    def records(self) -> dict[Requirement, tuple[Record, Path]]:
        """Deciding record of each kind: the newest refusal, else the newest complete one."""
        records: dict[Requirement, tuple[Record, Path]] = {}
        if self.runs:
            refusals = [item for item in self.runs if _is_refusal(item[0])]
            complete = [item for item in self.runs if _lacks(item[0]) == ""]
            records["perf"] = (refusals or complete or self.runs)[-1]
        if self.verification:
            records["verify"] = self.verification
        return records

    def words(self, kind: Requirement) -> str:
        """Return a result for people; empty: there is no record."""
        return _describe(self.records[kind][0]) if kind in self.records else ""

    def has_passed(self, kind: Requirement, baselines: Collection[Baseline] = ()) -> bool:
        """Return True if complete records say so, for `perf` with all comparisons."""
        if self.damaged or kind not in self.records:
            return False
        record = self.records[kind][0]
        if isinstance(record, PerfRun):
            return _lacks(record) == "" and not self.not_compared(baselines)
        return record.is_same

    def not_compared(self, baselines: Collection[Baseline]) -> tuple[Baseline, ...]:
        """Return the wheels with which no complete measurement compares, among them references."""
        compared = {run.against_sha256 for run, _ in self.runs if _lacks(run) == ""}
        own = {run.sha256 for run, _ in self.runs}
        references = {run.reference for run, _ in self.runs if run.reference}
        wanted = [*baselines, *(Baseline(path=Path("REFERENCE.whl"), sha256=r) for r in references)]
        missing = {wheel.sha256: wheel for wheel in reversed(wanted)}
        return tuple(
            wheel
            for sha256, wheel in missing.items()
            if sha256 not in compared and sha256 not in own
        )


def _lacks(run: PerfRun) -> str:
    """Return what a measurement lacks to pass; empty: nothing."""
    if run.outcome != "passed":
        return run.outcome
    parts = [f"without {'; '.join(run.left_out)}"] if run.left_out else []
    parts += ["beside other processes"] if run.is_busy else []
    if run.tolerance > _MOST_TOLERANCE:
        parts.append(f"with a tolerance of {show_share(run.tolerance)}")
    return ", ".join(parts)


def _describe(record: Record) -> str:
    if isinstance(record, PerfRun):
        compared = f", {record.answer} against {record.against}" if record.answer else ""
        driver = f", driver {record.gpu.driver}" if record.gpu.driver else ""
        lacks = _lacks(record) if record.outcome == "passed" else "; ".join(record.undecided)
        more = "".join(f", {part.tool}" for part in record.sanitizing)
        if tests := record.upstream_tests:
            more += f", {plural(tests.passed, 'test')} of its source passed"
        measured = f"{record.outcome} on {record.gpu_names}{driver}, {record.date[:10]}"
        return f"{measured}{compared}{more}" + f", {lacks}" * bool(lacks)
    result = "the same bytes" if record.is_same else "other bytes"
    return f"{result} from {plural(len(record.builds), 'build')}, {record.date[:10]}"


def _is_refusal(record: Record) -> bool:
    """Return True if a record speaks against a wheel, even a weak one."""
    if isinstance(record, PerfRun):
        return record.outcome not in {"passed", "not run"}
    return not record.is_same


def read_evidence(entries: Iterable[Entry], reports: Iterable[Path]) -> dict[str, Evidence]:
    """Read the records of wheels in folders, at any depth, by their SHA-256."""
    evidence = {entry.sha256: Evidence() for entry in entries}
    records = [
        (record, path)
        for folder in (reports if evidence else ())
        for path in sorted(folder.rglob("*.json"))
        if (record := _read_record(path, evidence))
    ]
    # The oldest first; of two at once the refusal counts.
    for record, path in sorted(records, key=lambda item: (item[0].date, _is_refusal(item[0]))):
        evidence[record.sha256].add(record, path)
    return evidence


def _read_record(path: Path, evidence: Mapping[str, Evidence]) -> Record | None:
    """Return a file's record of one of some wheels, or None; note the damage of one."""
    about: Collection[str] = evidence.keys()  # it may be of any
    try:
        content = parse_json(read_regular(path, limit=limits.JSON))
        sha256 = str(content.get("sha256")) if isinstance(content, dict) else ""
        about = {sha256} & evidence.keys()
        name = content.get("schema") if about else ""
        if name == PerfRun.SCHEMA.name:
            return read_run(path)
        if name == WheelVerification.SCHEMA.name:
            return read_verification(content)
    except (OSError, ValueError, KeyError, UsageError) as problem:
        why = problem.why if isinstance(problem, UsageError) else str(problem)
        for digest in about:
            evidence[digest].damaged += (f"{path}: {why}",)
    return None


def check_requirements(
    required: Collection[Requirement],
    evidence: Mapping[str, Evidence],
    wheels: Mapping[Path, Entry],
    baselines: Mapping[str, Collection[Baseline]] | None = None,
) -> None:
    """Raise an error with all wheels that lack a requirement, and commands to run.

    Args:
        baselines: wheels with which each has to be compared, by its SHA-256.
    """
    known = baselines or {}
    lacking = [
        (name, path, entry)
        for path, entry in wheels.items()
        for name in sorted(required)
        if not evidence[entry.sha256].has_passed(name, known.get(entry.sha256, ()))
    ]
    if not lacking:
        return
    commands = dict.fromkeys(
        line
        for name, path, entry in lacking
        for line in _commands(name, path, evidence[entry.sha256], known.get(entry.sha256, ()))
    )
    if any(evidence[entry.sha256].damaged for *_, entry in lacking):
        commands["then move the damaged records away, and run this again"] = None
    raise PolicyError(
        f"{plural(len({path for _, path, _ in lacking}), 'wheel')} can't be released: "
        f"{' and '.join(sorted({name for name, _, _ in lacking}))} not passed",
        why="\n".join(
            f"{path.name}: {_state(name, evidence[entry.sha256], known.get(entry.sha256, ()))}"
            for name, path, entry in lacking
        ),
        fix="\n".join(commands),
        anchor="release-requirement",
    )


def _state(name: Requirement, evidence: Evidence, baselines: Collection[Baseline]) -> str:
    """Return the reason why a wheel didn't pass."""
    if evidence.damaged:
        return f"records can't be read: {'; '.join(evidence.damaged)}"
    record = evidence.records[name][0] if name in evidence.records else None
    if isinstance(record, PerfRun) and not _lacks(record):
        missing = [_named(wheel) for wheel in evidence.not_compared(baselines)]
        return f"perf says: {evidence.words(name)}, and not compared with {', '.join(missing)}"
    if name in evidence.records:
        return f"{name} says: {evidence.words(name)} ({evidence.records[name][1]})"
    return f"there is no {name} record for this file (by SHA-256)"


def _named(baseline: Baseline) -> str:
    """Return a wheel's name, and its hash where only that is known."""
    known = baseline.path.name != "REFERENCE.whl"
    return baseline.path.name if known else f"the recipe's reference, SHA-256 {baseline.sha256}"


def _perf_commands(
    wheel: Path, evidence: Evidence, baselines: Collection[Baseline]
) -> Iterator[str]:
    """Yield a command for each comparison that refuses or is missing, with the same options."""
    places = [baseline.path for baseline in evidence.not_compared(baselines)]
    options = ""
    for run, _ in evidence.runs:
        if _is_refusal(run):
            options += " --sanitize" * bool(run.sanitizing and "--sanitize" not in options)
            tests = bool(run.upstream_tests and "--upstream-tests" not in options)
            options += " --upstream-tests" * tests
            if run.against:  # records hold the name alone
                near = wheel.with_name(run.against)
                known = {baseline.sha256: baseline.path for baseline in baselines}
                far = known.get(run.against_sha256, Path(run.against))
                places.append(near if near.is_file() else far)
    for place in dict.fromkeys(places):
        yield f"nox -s perf -- --wheel {wheel} --against {place}{options}"
    if not places:
        yield f"nox -s perf -- --wheel {wheel}{options}"


def _commands(
    name: Requirement, wheel: Path, evidence: Evidence, baselines: Collection[Baseline]
) -> Iterator[str]:
    """Yield the commands that may let a wheel pass, as thorough as the record that counts."""
    record = evidence.records[name][0] if name in evidence.records else None
    if name == "perf":
        yield from _perf_commands(wheel, evidence, baselines)
        return
    statement = read_json(statement_of(wheel)) or {}
    published = PublishedWheel(named=wheel, sha256="", wheel=wheel, statement=statement)
    try:
        recipe, toolkit = (published.parameters[key] for key in ("recipe", "toolkit"))
        target = f"{recipe}-{toolkit.replace('.', '')}"
        options = shlex.join(published.request.argv())
    except (KeyError, TypeError, AttributeError, ValueError):
        yield f"{wheel.name} has no provenance of cuwheel: build it here, or leave it out of --dist"
        return
    if isinstance(record, WheelVerification) and len(record.builds) > 1:
        yield f"nox -s verify -- {target} {options}".rstrip()
    else:
        yield f"nox -s verify -- {target} --against {wheel}"


def read_failures(
    folders: Iterable[Path], text: PublicText, cells: frozenset[str] | None = None
) -> tuple[dict[str, FailedTarget], dict[str, Path]]:
    """Read the failed targets of some folders of wheels.

    Args:
        cells: target ids of the matrix, outside of which no failure is published; None: any.

    Returns:
        Each by its name, and existing logs by their place in the release.
    """
    failures: dict[str, FailedTarget] = {}
    logs: dict[str, Path] = {}
    explain = functools.cache(Explainer)  # it costs a second, and most releases need none
    for folder in folders:
        for path in sorted(failure_path(folder, "x").parent.glob(f"*{_SUFFIX}")):
            target = path.name.removesuffix(_SUFFIX)
            record = read_failure(folder, target)
            if record is None or (cells is not None and target not in cells):
                continue
            log = path.with_suffix(".log")
            place = f"{LOGS}/{target}.failed.log" if log.is_file() else ""
            cause = _cause(explain(), log) if place else None
            failures[target] = _failed(target, record, cause, place, text)
            logs |= {place: log} if place else {}
    return dict(sorted(failures.items())), logs


def _failed(
    target: str, record: FailureRecord, cause: ExplainedCause | None, log: str, text: PublicText
) -> FailedTarget:
    """Return a failed target, with the cause in its log, else of its error."""
    return FailedTarget(
        target=target,
        date=record.date,
        what=text.of(record.what),
        why=text.of((cause.why if cause else "") or record.why),
        fix=text.of((cause.fix if cause else "") or record.fix),
        anchor=cause.slug if cause else record.anchor,
        log=log,
    )


def _cause(explainer: Explainer, log: Path) -> ExplainedCause | None:
    """Return the likeliest cause that a log shows."""
    with open_file(log) as stream:
        causes = explainer.explain(stream).causes
    return causes[0] if causes else None


def build_logs(folders: Iterable[Path], work: Path) -> dict[str, tuple[str, Path]]:
    """Return the log of each wheel's build: its place in the release and its file, by SHA-256."""
    logs = {}
    for folder in folders:
        for path in failure_path(folder, "x").parent.glob("*.json"):
            try:
                summary = (read_json(path) or {})["summary"]
                sha256, name = str(summary["sha256"]), str(summary.get("wheel", ""))
            except (KeyError, TypeError, AttributeError):
                continue
            log = work / path.stem / "logs" / "build.log"
            if log.is_file() and _is_of_build(log, folder / (name or sha256)):
                logs[sha256] = (f"{LOGS}/{path.stem}.log", log)
    return logs


def _is_of_build(log: Path, wheel: Path) -> bool:
    """Return True if a log is that of the wheel's statement: a later build may have failed."""
    statement = read_json(statement_of(wheel))
    try:
        named = (statement or {})["predicate"]["runDetails"]["byproducts"]
        digests = [name["digest"]["sha256"] for name in named if name["name"] == log.name]
    except (KeyError, TypeError):
        return True  # no statement
    return not digests or sha256_of_file(log) in digests
