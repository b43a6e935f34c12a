"""How long a site of many wheels takes to write: a folder's index, a whole site, and both again.

Each in a process of its own: `nox -s bench -- index [--wheels N] [--against COMMIT] [--json FILE]`.
The wheels are as small as wheels can be: what is measured is the index, not the reading of their
contents. With another commit of ours, each step is made by it and by this one in turn.
"""  # noqa: INP001 - run by path, not a package

from __future__ import annotations

import argparse
import json
import os
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cuwheel.base.system import process
from cuwheel.base.system.quantities import show_size

Figures = tuple[float, float, float, int]  # seconds, of CPU, in the kernel; peak in bytes

_PROJECTS = 100
_PEAK = """
import re
with open("/proc/self/status") as status:
    print("peak", re.search(r"VmHWM:\\s*(\\d+) kB", status.read())[1])
"""
_SITE = f"""
import sys
from pathlib import Path
from cuwheel.publish.index.site import SiteRequest, write_site
top, dist = Path(sys.argv[1]), sys.argv[2]
write_site(SiteRequest(folders=(top / dist,), site=top / f"{{dist}}-site", base_url="", address="",
    cache=top / "cache"))
{_PEAK}"""
_FOLDER = f"""
import sys
from pathlib import Path
from cuwheel.build.wheelhouse.folder_index import write_index
write_index(Path(sys.argv[1]) / "dist")
{_PEAK}"""
# What a second run has to do at least: look at every file.
_STAT = f"""
import sys
from pathlib import Path
for path in (Path(sys.argv[1]) / "dist").iterdir():
    path.stat()
{_PEAK}"""
# What a site's first run has to do at least: two files for each wheel, safe from a power cut.
_WRITE = f"""
import sys
from pathlib import Path
from cuwheel.base.formats.wheel.staged_files import staged_files
wheels = [*(Path(sys.argv[1]) / "dist").glob("*.whl")]
least = Path(sys.argv[1]) / "least"
least.mkdir()
with staged_files(least) as staged:
    for wheel in wheels:
        for suffix in ("", ".metadata"):
            with staged.new_file(f"{{wheel.name}}{{suffix}}") as stream:
                stream.write(bytes(200))
{_PEAK}"""
# Each with the folder of wheels that it is about: `plain` has no index of its own.
_STEPS: Mapping[str, tuple[str, str]] = {
    "a page for installers, dist/simple/": (_FOLDER, "dist"),
    "dist/simple/ again": (_FOLDER, "dist"),
    "a whole site": (_SITE, "dist"),
    "a whole site again": (_SITE, "dist"),
    "a whole site of wheels without index": (_SITE, "plain"),
    "stat of all files": (_STAT, "dist"),
    "writing two files for each wheel": (_WRITE, "dist"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="nox -s bench -- index")
    parser.add_argument("--wheels", type=int, default=10_000)
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    turns = []
    with tempfile.TemporaryDirectory(prefix="cuwheel-bench-") as scratch:
        top = Path(scratch)
        engines = {"this": Path(__file__).parents[1]}
        if given.against:
            engines = {given.against: unpack_commit(given.against, top / "engine"), **engines}
        # Removed at the end alone: ext4 is slow to make files for minutes after it removed many.
        for turn in range(given.turns):
            turns.append(measure_turn(engines, top / str(turn), given.wheels))
            print_turn(turns[-1], f"{given.wheels:,} wheels")
    if given.json:
        given.json.write_text(json.dumps({"wheels": given.wheels, "turns": turns}, indent=1))


def unpack_commit(commit: str, folder: Path) -> Path:
    """The engine as it was."""
    folder.mkdir()
    archive = folder / "engine.tar"
    command = ["git", "archive", "-o", str(archive), commit, "cuwheel"]
    process.run(command, env=os.environ, cwd=Path(__file__).parents[1])
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def measure_turn(engines: Mapping[str, Path], top: Path, wheels: int) -> dict[str, Figures]:
    """Each step by each engine, in turn; each has wheels of its own."""
    for name in engines:
        for folder in ("dist", "plain"):
            make_wheels(top / name / folder, wheels)
    return {
        f"{step}, {name}" if len(engines) > 1 else step: measure(script, top / name, folder, engine)
        for step, (script, folder) in _STEPS.items()
        for name, engine in engines.items()
    }


def print_turn(figures: Mapping[str, Figures], title: str) -> None:
    """Print a table."""
    table = Table("", "seconds", "of CPU", "in the kernel", "peak memory", title=title)
    for name, (seconds, user, kernel, peak) in figures.items():
        table.add_row(name, *(f"{one:.2f}" for one in (seconds, user, kernel)), show_size(peak))
    Console().print(table)


def make_wheels(dist: Path, count: int) -> None:
    """Write so many valid wheels, of a hundred projects."""
    dist.mkdir(parents=True)
    for number in range(count):
        project, version = f"toy{number % _PROJECTS}", f"{number // _PROJECTS}.0+cu130"
        folder = f"{project}-{version}.dist-info"
        with zipfile.ZipFile(dist / f"{project}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{project}.py", f"VERSION = {version!r}\n")
            wheel.writestr(
                f"{folder}/METADATA",
                f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n",
            )
            wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{folder}/RECORD", "")


def measure(script: str, top: Path, folder: str, engine: Path) -> Figures:
    """Seconds of a script's process, on a CPU and there in the kernel, and its peak in bytes."""
    environ = {**os.environ, "PYTHONPATH": str(engine)}
    before = os.times()
    # What `-c` runs finds modules in its working folder first.
    command = [sys.executable, "-c", script, str(top), folder]
    done = process.run(command, env=environ, cwd=engine)
    after = os.times()
    seconds = after.elapsed - before.elapsed
    user = after.children_user - before.children_user
    kernel = after.children_system - before.children_system
    peak = next(line for line in done.output.splitlines() if line.startswith("peak "))
    return seconds, user, kernel, int(peak.split()[1]) << 10


if __name__ == "__main__":
    main()
