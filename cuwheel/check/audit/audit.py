"""The command `audit`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from cuwheel.base.errors import AuditError, UnsafeArchiveError, UsageError
from cuwheel.base.fetch.urls import check_url, redact_url, split_url
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.base.system.output import github
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.quantities import plural
from cuwheel.check.audit.case import Contract
from cuwheel.check.audit.exports.sarif import write_sarif
from cuwheel.check.audit.exports.treemap import check_one_wheel, write_treemap
from cuwheel.check.audit.findings import SEVERITIES
from cuwheel.check.audit.report import audit_document, counts_of, print_result, print_verdicts
from cuwheel.check.audit.verdict import AuditResult, audit_wheel, internal_error, unreadable

_NAME = 255  # bytes of a file's name, NAME_MAX
_SOURCES = (".tar.gz", ".tar.bz2", ".zip")


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Options of the session.

    Attributes:
        fails_on: the least severity that makes the session fail; `never`: none does.
        sarif: file for the findings; None: none is written.
        treemap: file for the picture of one wheel; None: none is written.
        folder: the one that the file's paths are relative to.
    """

    excludes: tuple[str, ...] = ()
    fails_on: str = "warning"
    as_json: bool = False
    sarif: Path | None = None
    treemap: Path | None = None
    folder: Path = Path()


def audit_session(
    paths: Sequence[Path | str],
    contract_for: Callable[[Path], Contract | None],
    console: Console,
    options: AuditOptions,
) -> None:
    """Audit wheels and print the results.

    Args:
        paths: files, folders, and addresses of wheels on servers.
        contract_for: returns the contract of a wheel; None: the rules for any wheel apply.
        console: for the progress; the results go to standard output.

    Raises:
        AuditError: a wheel has errors, or warnings where these count.
        DownloadError: a wheel on a server can't be read.
        UsageError: a path is no wheel, or a folder without wheels.
    """
    results, terminal = [], report_terminal()
    urls = [path for path in paths if isinstance(path, str)]
    remote = [(Path(_name_of(url)), url) for url in urls]
    files = _wheels([path for path in paths if isinstance(path, Path)], console, urls)
    wheels = [*((file, "") for file in files), *remote]  # several may have the same name
    if options.treemap:
        check_one_wheel(len(wheels))
    for wheel, url in wheels:
        with console.live(f"reading {wheel.name}"):
            if url:
                result = _audit_remote(url, wheel)
            else:
                result = _audit(wheel, contract_for(wheel), options.excludes)
        results.append(result)
        _annotate(result, wheel, console)
        if not options.as_json:
            print_result(result, terminal, console)
    if options.as_json:
        console.answer(audit_document(results))
    elif len(results) > 1 and not console.is_quiet:
        print_verdicts(results, terminal)
    if options.sarif:
        audited = [wheel for wheel, _ in wheels]
        write_sarif(options.sarif, zip(audited, results, strict=True), options.folder)
    if options.treemap:
        write_treemap(options.treemap, results[0])
    rows = {result.case.scan.file_name: counts_of(result) for result in results}
    console.add_to_summary(github.table(rows))
    _raise_for(results, options.fails_on)


def _annotate(result: AuditResult, wheel: Path, console: Console) -> None:
    """Add errors and warnings as annotations to the workflow's run."""
    for item in result.findings:
        if item.severity != "note":
            text = f"{item.file}: {item.fact}; " + as_typed(item.anchor)
            console.annotate(item.severity, text, title=f"{wheel.name}: {item.rule}", file=wheel)


def _wheels(paths: Iterable[Path], console: Console, urls: Collection[str]) -> list[Path]:
    """Return the wheels of paths, without sources beside them: a project's files are `dist/*`."""
    wheels, problems = [], []
    sources: list[Path] = []
    for path in paths:
        if path.is_dir():
            files = [file for file in sorted(path.glob("*.whl")) if not file.is_dir()]
            problems += [] if files else [f"{path} is a folder without wheels"]
            wheels += files
        elif path.exists():
            (sources if path.name.endswith(_SOURCES) else wheels).append(path)
        else:
            problems.append(f"{path}: there is no such file")
    if wheels or urls:
        for source in sources:
            console.note(f"{source.name} is left out: it is a source, not a wheel")
    else:
        problems += [f"{source} is a source: build a wheel of it first" for source in sources]
    if problems:
        raise UsageError(
            "a given path is neither a wheel nor a folder with wheels",
            why="\n".join(problems),
            fix="give .whl files or a folder, relative to the working directory",
        )
    return wheels


def _name_of(url: str) -> str:
    """Return the file name of a wheel's address; raise UsageError where it is none."""
    check_url(url, "the address")
    name = PurePosixPath(unquote(split_url(url).path)).name
    is_file_name = "\0" not in name and len(name.encode()) <= _NAME
    if not (name.endswith(".whl") and is_file_name):
        raise UsageError(
            f"{redact_url(url)} is not the address of a wheel",
            why="it doesn't end in .whl" if is_file_name else "no file can have its name",
            fix="give the address of the file, or download it",
        )
    return name


def _audit_remote(url: str, wheel: Path) -> AuditResult:
    # The packages of the extra `audit` read files alone.
    from cuwheel.check.audit.remote import audit_remote  # noqa: PLC0415

    try:
        return audit_remote(url, wheel.name)
    except UnsafeArchiveError as problem:
        return unreadable(wheel, problem.why)


def _audit(wheel: Path, contract: Contract | None, excludes: tuple[str, ...]) -> AuditResult:
    """Audit one wheel; an unreadable one is a result too, so that the others are read."""
    try:
        return audit_wheel(wheel, contract=contract, excludes=excludes)
    except UnsafeArchiveError as problem:
        return unreadable(wheel, problem.why)
    except OSError as problem:
        return unreadable(wheel, problem.strerror or str(problem))
    except Exception as problem:  # noqa: BLE001 - a fault of cuwheel, which ends no report
        return unreadable(wheel, internal_error(problem))


def _raise_for(results: list[AuditResult], fails_on: str) -> None:
    for severity, anchor in (("error", "audit"), ("warning", "audit-warning")):
        bad = [result for result in results if result.verdict == severity]
        if bad and fails_on in SEVERITIES[SEVERITIES.index(severity) :]:
            items = (item for result in bad for item in result.findings)
            findings = [item for item in items if item.severity == severity]
            lets_pass = "; -- --fail-on error ignores warnings" if severity == "warning" else ""
            has = "have" if len(bad) > 1 else "has"
            raise AuditError(
                f"{len(bad)} of {plural(len(results), 'wheel')} {has} "
                f"{plural(len(findings), severity)}",
                why=f"{', '.join(dict.fromkeys(item.rule for item in findings))}: listed above",
                fix="the entries after `more` say what to do" + lets_pass,
                anchor=anchor,
            )
