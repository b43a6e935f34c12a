"""Probes of a clean environment: what it can import and load, and the problems that this shows."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import SmokeError
from cuwheel.base.paths import script
from cuwheel.base.system.process import Finished, run
from cuwheel.base.system.regular_files import parse_json, read_regular
from cuwheel.build.finish.smoke.hide_cuda import supplier_among
from cuwheel.build.finish.smoke.loaded_libraries import (
    LoadedLibrary,
    cuda_releases,
    find_loaded_libraries,
)
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.check.cuda.driver_functions import is_driver_function
from cuwheel.check.cuda.suppliers import DRIVER_SONAME, component_of, is_from_driver

SCRIPT = script("build/finish/smoke/probes/smoke.py")
TIME_LIMIT = 600.0  # seconds for the imports; a framework takes several on a slow disk
_TRACEBACK = 6  # last lines of a traceback that the error shows
_LACKING = re.compile(r"(lib[^\s:]+): cannot open shared object file")  # glibc, elf/dl-load.c

# Output of the loader or Python → fix; the first match counts.
_HINTS = {
    "undefined symbol: cu": "declare the component that defines this symbol in the recipe's `link`",
    "undefined symbol: nv": "declare the component that defines this symbol in the recipe's `link`",
    "undefined symbol": "build against the framework and toolkit that the wheel will run with",
    "GLIBC": "run the smoke test on a system that is at least as new as the wheel's platform tag",
    "No module named": "correct `imports` in the recipe's smoke, or add what is missing to the "
    "package's requirements",
    "AssertionError": "correct the package, or its smoke test in recipes/smoke",
    "cannot open shared object": "declare the library's component in the recipe's `link`, so that "
    "the wheel requires it and has an rpath to it",
}
_SYMBOL = re.compile(r"undefined symbol: (\w+)")


@dataclass(frozen=True, kw_only=True)
class SmokeAnswer:
    """The result of one process.

    Attributes:
        value: `repr()` of the call's value.
        failure: traceback of the error; empty when all went well.
        turned_gil_on: the import that did so in a free-threaded Python; empty: none.
    """

    imported: tuple[str, ...]
    value: str
    failure: str
    turned_gil_on: str
    suffixes: tuple[str, ...]
    sources: tuple[Path, ...]
    files: tuple[Path, ...]
    loads: tuple[LoadedLibrary, ...]
    has_driver_stub: bool

    @property
    def last_line(self) -> str:
        """Last line of the failure."""
        return self.failure.strip().rpartition("\n")[2]

    @property
    def traceback(self) -> str:
        """End of the failure, indented."""
        return "\n    ".join(self.failure.strip().splitlines()[-_TRACEBACK:])

    @property
    def lacking(self) -> str:
        """The library that the loader didn't find; empty for another failure."""
        match = _LACKING.search(self.failure)
        return match[1] if match else ""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A clean environment in which code runs, each time in a fresh process.

    Attributes:
        owned: from `loaded_libraries.owners`.
        time_limit: of one process, seconds.
    """

    python: Path
    site: Path
    owned: Mapping[str, str]
    confinement: Confinement
    log: Path
    name: str
    stub: Path | None = None
    time_limit: float = TIME_LIMIT

    def run(
        self,
        *,
        imports: Iterable[str] = (),
        call: str = "",
        script: Path | None = None,
        libraries: Iterable[str] = (),
        ahead: Path | None = None,
    ) -> SmokeAnswer:
        """Import modules, evaluate an expression, run a script, load libraries, in this order.

        Where that fails only because the driver is missing, it is done again with the stub, if
        there is one. An installed driver is never passed over.

        Args:
            ahead: a folder of packages that precedes the environment's.

        Raises:
            SmokeError: the interpreter died, or took too long.
        """
        request = {
            "imports": tuple(imports),
            "call": call,
            "script": str(script.absolute()) if script else "",
            "libraries": tuple(libraries),
            "ahead": str(ahead or ""),
        }
        answer = self._run(request, None)
        if answer.lacking == DRIVER_SONAME and self.stub:
            return self._run(request, self.stub)
        return answer

    def _run(self, request: Mapping[str, object], stub: Path | None) -> SmokeAnswer:
        folder = self.confinement.folder
        output, debug = folder / "answer.json", folder / "loader"
        self.confinement.empty()
        text = json.dumps({**request, "stub": str(stub or "")})
        argv: list[str | Path] = [self.python, "-I", SCRIPT, text, output]
        finished = run(
            self.confinement.command(argv),
            env={
                "PATH": "/usr/bin:/bin",
                "LC_ALL": "C.UTF-8",
                "HOME": str(folder),
                # For the loader alone: the probe removes them before it imports anything.
                "LD_DEBUG": "files",
                "LD_DEBUG_OUTPUT": str(debug),
            },
            cwd=folder,
            log=self.log,
            timeout=self.time_limit,
            check=False,
        )
        try:
            content = parse_json(read_regular(output, limit=limits.ANSWER), is_own=True)
            files = tuple(Path(str(path)) for path in content["libraries"])
            loaded = self._loader_output()
            return SmokeAnswer(
                imported=tuple(map(str, content["imported"])),
                value=str(content["value"]),
                failure=str(content["failure"]),
                turned_gil_on=str(content["turned_gil_on"]),
                suffixes=tuple(map(str, content["suffixes"])),
                sources=tuple(Path(str(path)) for path in content["sources"]),
                files=files,
                loads=find_loaded_libraries(files, self.site, self.owned, loaded, stub),
                has_driver_stub=stub is not None,
            )
        except (OSError, ValueError, LookupError, TypeError):
            raise self._crash_error(finished) from None

    def _loader_output(self) -> str:
        """Return the loader's output of each process; the package may write such files too."""
        paths = sorted(self.confinement.folder.glob("loader.*"))[: limits.PROCESSES]
        texts = []
        for path in paths:
            with contextlib.suppress(OSError):
                texts.append(read_regular(path, limit=limits.LOADER).decode(errors="replace"))
        return "".join(texts)

    def _crash_error(self, finished: Finished) -> SmokeError:
        last = " / ".join(finished.output.strip().splitlines()[-_TRACEBACK:])
        return SmokeError(
            f"{self.name}: the interpreter died while it imported the wheel",
            why=f"{_status_text(finished.status)} after {finished.duration:.0f} s: "
            f"{last or 'no output'}",
            fix="a crash at import most often means a library built for another release of the "
            f"framework; the whole output is in {self.log}",
        )


def _status_text(status: int) -> str:
    """Return `SIGSEGV`, by the number or, out of a sandbox, as shells do; else `status 1`."""
    number = -status if status < 0 else status - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"status {status}"


@dataclass(frozen=True, kw_only=True)
class SmokeProblem:
    """One problem of a wheel, and its fix."""

    fact: str
    fix: str


def find_failures(
    answer: SmokeAnswer, hidden: Iterable[Path], target: Target
) -> Iterator[SmokeProblem]:
    """Yield failures of what the recipe's `smoke` requires."""
    declared = target.recipe.smoke
    if answer.failure:
        yield _problem(f"Python's output:\n    {answer.traceback}", answer, hidden)
    elif declared.expect and answer.value != declared.expect:
        yield SmokeProblem(
            fact=f"{declared.call} returns {answer.value}, not {declared.expect}",
            fix="correct the package, or `smoke` in the recipe",
        )


def crashed(library: str, error: SmokeError) -> SmokeProblem:
    """Return the problem of a library that ended the interpreter when it was loaded."""
    return SmokeProblem(
        fact=f"loading {library} crashes the interpreter: {error.why}",
        fix="check what the library runs when it is loaded: its constructors have to work without "
        "a GPU",
    )


def unloadable(library: str, answer: SmokeAnswer, hidden: Iterable[Path]) -> SmokeProblem:
    """Return the problem of a library that couldn't be loaded."""
    return _problem(f"{library} can't be loaded: {answer.last_line}", answer, hidden)


def foreign_libraries(answer: SmokeAnswer) -> Iterator[SmokeProblem]:
    """Yield a problem if more than the driver's own libraries come from the machine."""
    foreign = [load for load in answer.loads if load.is_foreign and not is_from_driver(load.soname)]
    if foreign:
        files = ", ".join(f"{load.soname} is {load.path}" for load in foreign)
        yield SmokeProblem(
            fact=f"libraries were loaded from outside site-packages: {files}",
            fix="declare their components in the recipe's `link`, so that the wheel requires them "
            "and finds them by its rpath; now it only works on machines that happen to have them",
        )


def mixed_releases(answer: SmokeAnswer) -> Iterator[SmokeProblem]:
    """Yield a problem if two CUDA runtimes are loaded: they don't share memory and streams."""
    releases = cuda_releases(answer.loads)
    if len(releases) > 1:
        files = ", ".join(
            f"{load.soname} ({load.supplier or load.location}, loaded by "
            f"{load.requester or 'an unknown library'})"
            for loads in releases.values()
            for load in loads
        )
        yield SmokeProblem(
            fact=f"CUDA {' and '.join(releases)} are in one process: {files}",
            fix="build for the CUDA release of the framework, or lock a framework built with the "
            "wheel's",
        )


def _problem(fact: str, answer: SmokeAnswer, hidden: Iterable[Path]) -> SmokeProblem:
    """Return a failure, with the hidden file that would have helped."""
    if answer.lacking and (file := supplier_among(hidden, answer.lacking)):
        fact += f" ({file} has it, but libraries that users may not have are hidden here)"
    return SmokeProblem(fact=fact, fix=_hint(answer.last_line))


def _hint(line: str) -> str:
    soname = line.partition(": ")[2].partition(":")[0]
    if is_from_driver(soname):
        return (
            f"{soname} belongs to NVIDIA's driver, and this machine has neither the driver nor a "
            "compiler to make a stub of it: install g++, or run this stage on a machine with the "
            "driver"
            if soname == DRIVER_SONAME
            else f"{soname} belongs to NVIDIA's driver, which only machines with a GPU have, and "
            "there is no stub of it: let the package load it on first use, not on import"
        )
    symbol = _SYMBOL.search(line)
    if symbol and is_driver_function(symbol[1]):
        return (
            f"{symbol[1]} is a function of NVIDIA's driver: link that too (`-lcuda`, CMake's "
            '`CUDA::cuda_driver`), and add "driver" to the recipe\'s `link`'
        )
    component = component_of(soname)
    if component and "cannot open shared object" in line:
        return f'declare "{component.name}" in the recipe\'s `link`'
    return next(
        (fix for sign, fix in _HINTS.items() if sign in line), "make the package importable"
    )
