"""The tests of a package's own source, run by pytest against the wheel on the GPU.

They are copied out of the source, so that its package can't be imported instead of the wheel's.
"""

from __future__ import annotations

import shutil
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import ProbeError
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import copy_regular, read_regular
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
    command: list[str | Path] = [place.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", f"--rootdir={folder}", *(folder / name for name in names)]
    variables = environment_of(place)
    if place.folder:
        before = variables.get("PYTHONPATH", "")
        variables["PYTHONPATH"] = ":".join(filter(None, (str(place.folder), before)))
    started = time.monotonic()
    run(place.confinement.command(command), env=variables, log=log, timeout=_LONGEST, check=False)
    try:
        return _read(report, tuple(names), time.monotonic() - started)
    except (OSError, ET.ParseError) as problem:
        raise ProbeError(
            f"{place.name}: the tests of its source can't be run",
            why=f"pytest left no report: it isn't installed there, or it was ended ({problem})",
            fix=f"its output is in {log}; with `-- --python PATH`, install pytest and what the "
            "tests import in that environment",
        ) from None


def _copy(path: Path, target: Path, place: PerfEnvironment) -> None:
    """Copy a file or folder of tests; raises ProbeError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, symlinks=True, copy_function=copy_regular)
    elif path.is_file():
        copy_regular(path, target)
    else:
        raise ProbeError(
            f"{place.name}: its source has no {path.name}",
            why="the recipe names it in `upstream_tests`",
            fix="correct the recipe",
        )


def _read(report: Path, names: tuple[str, ...], seconds: float) -> UpstreamTests:
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
    content = read_regular(report, limit=limits.JSON)  # the package's code could write it too
    for case in ET.fromstring(content).iter("testcase"):  # noqa: S314 - expat limits expansions
        yield f"{case.get('classname')}::{case.get('name')}", {part.tag for part in case}
