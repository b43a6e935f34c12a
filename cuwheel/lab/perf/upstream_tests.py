"""The tests of a package's own source, run by pytest against the wheel on the GPU.

They are copied out of the source, so that its package can't be imported instead of the wheel's.
"""

from __future__ import annotations

import shutil
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

from cuwheel.base.errors import ProbeError
from cuwheel.base.system.process import run
from cuwheel.lab.perf.probe_process import PerfEnvironment, environment_of
from cuwheel.lab.perf.records import UpstreamTests

_LONGEST = 3600.0  # seconds
_SHOWN = 20  # names of failed tests
_FAILED = {"failure", "error"}


def run_upstream_tests(
    place: PerfEnvironment, source: Path, names: Sequence[str], log: Path
) -> UpstreamTests:
    """Run files or folders of tests.

    Args:
        names: relative to the source.
        log: gets pytest's output.

    Raises:
        ProbeError: pytest isn't installed there, one of the names is missing, or none ran.
    """
    folder = place.confinement.folder / "upstream-tests"
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        _copy(source / name, folder / name, place)
    report = folder / "report.xml"
    command = [place.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", f"--rootdir={folder}", *(folder / name for name in names)]
    variables = environment_of(place)
    if place.folder:
        before = variables.get("PYTHONPATH", "")
        variables["PYTHONPATH"] = ":".join(filter(None, (str(place.folder), before)))
    started = time.monotonic()
    run(place.confinement.command(command), env=variables, log=log, timeout=_LONGEST, check=False)
    if not report.is_file():
        raise ProbeError(
            f"{place.name}: the tests of its source can't be run",
            why="pytest left no report: it isn't installed in that environment, or it was ended",
            fix=f"its output is in {log}; with `-- --python PATH`, install pytest and what the "
            "tests import in that environment",
        )
    return _read(report, tuple(names), time.monotonic() - started)


def _copy(path: Path, target: Path, place: PerfEnvironment) -> None:
    """Copy a file or folder of tests; raises ProbeError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target)
    elif path.is_file():
        shutil.copy(path, target)
    else:
        raise ProbeError(
            f"{place.name}: its source has no {path.name}",
            why="the recipe names it in `upstream_tests`",
            fix="correct the recipe",
        )


def _read(report: Path, names: tuple[str, ...], seconds: float) -> UpstreamTests:
    """Read a report in JUnit's format."""
    passed = failed = skipped = 0
    broken: list[str] = []
    for name, kinds in _cases(report):
        if kinds & _FAILED:
            failed += 1
            broken.append(name)
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    if not passed and not failed:
        broken.append(f"no test ran, {skipped} were skipped")
    return UpstreamTests(
        names=names,
        passed=passed,
        failed=failed,
        skipped=skipped,
        broken=tuple(broken[:_SHOWN]),
        seconds=seconds,
    )


def _cases(report: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each test, and what its entry contains."""
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest's own report
        yield f"{case.get('classname')}::{case.get('name')}", {part.tag for part in case}
