"""Whether nvcc gives the same bytes in every fresh compile: files compiled many times over.

Run it with `nox -s bench -- determinism causal-conv1d-130 --arch 90 --smallest 2 --times 30`. Each
compile is a process of its own, with its own folder, `TMPDIR` and object, without any cache; the
command line is the one of the package's build. What differs is counted by SHA-256: of the object,
and of the device code in it alone, which is what a reader of `cuobjdump` would compare. Where there
is more than one, two objects are compared as `verify` does, and the causes are named.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records import today
from bench.report import write_section
from cuwheel.base.errors import UsageError
from cuwheel.base.formats.binaries.device_code import code_of_element, elements_of, find_fatbins
from cuwheel.base.formats.wheel.archive import pack
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree, sha256_of_file, write_atomically
from cuwheel.base.system.process import run
from cuwheel.publish.rebuild.compare.wheel import compare

PAGE = ROOT / "docs" / "reproducibility.md"
RESULTS = ROOT / "bench" / "results"
_EPOCH = 315_532_800  # seconds: 1980-01-01, the earliest time that an archive's member can have
_WITH_LAUNCHER, _BARE = "with cuwheel's launcher", "nvcc alone"


@dataclass(frozen=True, kw_only=True)
class Compile:
    """How a package's build compiles one of its files.

    Attributes:
        file: the source.
        words: the command line.
        folder: where it runs.
        output: the object that the build would write, a word of the command line.
        variables: of its environment.
        bare: path of the real nvcc, without the launcher.
        nvcc: its version.
    """

    file: Path
    words: tuple[str, ...]
    folder: Path
    output: str
    variables: dict[str, str]
    bare: Path
    nvcc: str

    def repeat(self, folder: Path, way: str, kept: Path) -> tuple[str, str]:
        """Compile it anew in an empty folder; gives SHA-256 of the object and of its device code.

        Args:
            folder: is emptied, and removed.
            way: with the launcher, or without.
            kept: gets the object, under its hash.

        Raises:
            CommandFailedError: the compiler failed.
        """
        remove_tree(folder)
        folder.mkdir(parents=True)
        made = folder / "made.o"
        words = [word.replace(self.output, str(made)) for word in self.words]
        if way == _BARE:
            words[0] = str(self.bare)
        run(words, env={**self.variables, "TMPDIR": str(folder)}, cwd=self.folder)
        found = sha256_of_file(made), sha256_of_device_code(made)
        made.replace(kept / found[0])
        remove_tree(folder)
        return found


def sha256_of_device_code(path: Path) -> str:
    """Over kind, arch and unpacked code of each element of its fat binaries."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for element in elements_of(stream, find_fatbins(stream)):
            digest.update(element.name.encode())
            digest.update(code_of_element(stream, element))
    return digest.hexdigest()


def compiles_of(command: Sequence[str], work: Path) -> Iterator[Compile]:
    """The compiles of a target's CUDA sources, as its build would run them.

    The build is ended once ninja's file is there, which says them all.

    Args:
        command: the words behind `build`.
        work: for its work folder; what is there is removed.

    Raises:
        UsageError: the package doesn't build with ninja.
    """
    remove_tree(work)
    options = ("--sandbox", "none", "--no-cache", "--work", str(work), "--dist", str(work / "dist"))
    build = [sys.executable, "-m", "cuwheel", "build", *command, *options]
    done = run(
        build,
        env=os.environ,
        cwd=ROOT,
        check=False,
        gives_up=lambda _: _has_begun(work),
    )
    listed = next(_ninjas(work), None)
    if listed is None:
        raise UsageError(
            f"the build of {command[0]} has written no build.ninja",
            why=f"it ended so:\n{done.output[-2000:]}",
            fix="use a package that is built by PyTorch's extensions, or by CMake with Ninja",
        )
    target = next(path for path in work.iterdir() if listed.is_relative_to(path) and path.is_dir())
    stages = target / "stages"
    python = Path(json.loads((stages / "environment.json").read_text())["python"])
    epoch = json.loads((stages / "patch.json").read_text())["epoch"]
    path = (target / "launcher/bin", target / "cuda/bin", python.parent, "/usr/bin", "/bin")
    variables = {
        "PATH": os.pathsep.join(map(str, path)),
        "SOURCE_DATE_EPOCH": str(epoch),
        "CUDA_HOME": str(target / "cuda"),
        "LC_ALL": "C.UTF-8",
        "HOME": str(target / "home"),
    }
    said = run([python.with_name("ninja"), "-C", listed.parent, "-t", "compdb"], env=variables)
    for one in json.loads(said.output[said.output.index("[\n") :]):
        if one["file"].endswith(".cu"):
            yield Compile(
                file=Path(one["file"]),
                words=tuple(shlex.split(one["command"])),
                folder=Path(one["directory"]),
                output=one["output"],
                variables=variables,
                bare=target / "cuda/bin-real/nvcc",
                nvcc=json.loads((stages / "toolchain.json").read_text())["version"],
            )


def _has_begun(work: Path) -> bool:
    """Whether a compile was begun and ninja's files are whole, as they have been for a second."""
    has_compiled = any(work.glob("*/events/events.jsonl"))
    return has_compiled and any(time.time() - path.stat().st_mtime > 1 for path in _ninjas(work))


def _ninjas(work: Path) -> Iterator[Path]:
    """The package's own; CMake has others while it asks what the compiler can do."""
    found = work.glob("*/t*/**/build.ninja")
    return (path for path in found if "CMakeFiles" not in path.parts)


def chosen(found: Sequence[Compile], given: argparse.Namespace) -> list[Compile]:
    """The files that were asked for, by their size in bytes."""
    by_size = sorted(found, key=lambda one: one.file.stat().st_size)
    if given.largest:
        return by_size[-given.largest :]
    return by_size[: given.smallest or len(by_size)]


def measure(one: Compile, way: str, given: argparse.Namespace, ends: float) -> dict[str, Any]:
    """Compile a file again and again, and count the hashes.

    Args:
        one: the compile.
        way: with the launcher, or without.
        given: the options.
        ends: after this time, as of `time.monotonic`, no more compiles are begun.
    """
    scratch, kept = given.folder / "scratch", given.folder / "kept"
    remove_tree(kept)
    kept.mkdir(parents=True)

    def again(number: int) -> tuple[str, str] | None:
        return one.repeat(scratch / str(number), way, kept) if time.monotonic() < ends else None

    started = time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        done = [made for made in pool.map(again, range(given.times)) if made]
    return {
        "file": one.file.name,
        "way": way,
        "compiles": len(done),
        "seconds": round(time.monotonic() - started),
        "objects": Counter(made[0] for made in done),
        "device code": Counter(made[1] for made in done),
        "causes": causes(sorted(kept.iterdir()), scratch),
    }


def causes(objects: Sequence[Path], folder: Path) -> list[str]:
    """Why the first two of several objects differ, as a comparison of wheels says."""
    if len(objects) < 2:  # noqa: PLR2004 - a pair
        return []
    wheels = []
    for name, path in zip(("a", "b"), objects, strict=False):
        info = folder / name / "compiled-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: compiled\nVersion: 1.0\n")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: py3-none-any\n")
        path.rename(info.parent / "made.o")
        wheels.append(folder / f"{name}.whl")
        pack(info.parent, wheels[-1], epoch=_EPOCH)
    compared = compare(*wheels)
    remove_tree(folder)
    found: list[str] = [key for key, cause in compared.causes.items() if cause.remedy]
    return [*found, *([f"{compared.unexplained} unknown"] if compared.unexplained else [])]


def section(record: dict[str, Any]) -> str:
    """The table, in Markdown."""
    lines = [
        "| file | compiled | fresh compiles | objects | device code | what differs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{row['file']}` | {row['way']} | {row['compiles']} | {_told(row['objects'])} "
        f"| {_told(row['device code'])} | {', '.join(row['causes']) or 'nothing'} |"
        for row in record["rows"]
    ]
    archs = " ".join(record["archs"]) or "the recipe's"
    head = f"`{record['target']}`, archs {archs}, nvcc {record['nvcc']}, on {record['date']}:"
    return "\n".join([head, "", *lines])


def _told(hashes: dict[str, int]) -> str:
    return "1 hash" if len(hashes) == 1 else f"{len(hashes)} hashes"


def options() -> argparse.ArgumentParser:
    """What the benchmark understands."""
    parser = argparse.ArgumentParser(prog="nox -s bench -- determinism")
    add = parser.add_argument
    add("target", help="such as causal-conv1d-130")
    add("--arch", action="append", default=[], help="repeatable; default: the recipe's")
    add("--python", default="3.12")
    add("--source", help="instead of the recipe's")
    add("--smallest", type=int, metavar="N", help="how many of its CUDA sources; default: all")
    add("--largest", type=int, metavar="N", help="likewise")
    add("--times", type=int, default=30, help="fresh compiles of each file")
    add("--bare", type=int, default=3, help="likewise, without cuwheel's launcher")
    add("--jobs", type=int, default=1, help="compiles at once")
    add("--minutes", type=float, default=600.0, help="after which no compile is started")
    add("--folder", type=Path, default=ROOT / "work" / "determinism", help="emptied first")
    add("--page", type=Path, default=PAGE, help="the page that gets the table")
    add("--record", type=Path, help="default: bench/results/determinism-<date>.json")
    return parser


def main() -> None:
    """Measure, keep the record, write the table."""
    given = options().parse_args()
    ends = time.monotonic() + 60 * given.minutes
    archs = [word for arch in given.arch for word in ("--arch", arch)]
    source = ("--source", given.source) if given.source else ()
    command = (given.target, "--python", given.python, "--any-driver", *archs, *source)
    console = Console()
    files = chosen([*compiles_of(command, given.folder / "work")], given)
    if not files:
        raise UsageError(
            f"{given.target} compiles no CUDA source",
            why="its build.ninja names no file that ends in .cu",
            fix="use a package that does",
        )
    record: dict[str, Any] = {"target": given.target, "archs": given.arch, "date": today()}
    record["nvcc"] = files[0].nvcc
    path = given.record or RESULTS / f"determinism-{given.target}-{today()}.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    # Files of one day that were measured one after the other stand in one table.
    rows = before.get("rows", []) if {**before, **record} == before else []
    ways = {_BARE: given.bare, _WITH_LAUNCHER: given.times}
    for way, times in ways.items():
        for one in files if times else ():
            asked = argparse.Namespace(**{**vars(given), "times": times})
            found = measure(one, way, asked, ends)
            console.note(json.dumps(found))
            if found["compiles"]:
                same = (found["file"], found["way"])
                rows = [*(row for row in rows if (row["file"], row["way"]) != same), found]
            rows.sort(key=lambda row: (row["way"] == _WITH_LAUNCHER, row["file"]))
            record["rows"] = rows
            write_atomically(path, json.dumps(record, indent=2) + "\n")
    write_section(given.page, f"determinism-{given.target}", section(record))


if __name__ == "__main__":
    main()
