"""Ask a clean environment, in a process of its own, what it can import and load, and from where."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel import limits
from cuwheel.cuda.suppliers import DRIVER_SONAME
from cuwheel.errors import SmokeError
from cuwheel.smoke.loaded_libraries import LoadedLibrary, find_loaded_libraries
from cuwheel.standalone import script
from cuwheel.system.process import Finished, run
from cuwheel.system.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.sandbox.confinement import Confinement

SCRIPT = script("probes/smoke.py")
_TIME_LIMIT = 600.0  # seconds for the imports; a framework takes several on a slow disk
_TRACEBACK = 6  # last lines of a traceback that the error shows
_LACKING = re.compile(r"(lib[^\s:]+): cannot open shared object file")  # glibc, elf/dl-load.c


@dataclass(frozen=True, kw_only=True)
class SmokeAnswer:
    """What happened in one process.

    Attributes:
        imported: modules that were imported.
        value: `repr()` of what the call gave.
        failure: traceback of what went wrong; empty when all went well.
        suffixes: names of extension modules end so in this Python.
        sources: files of the modules that were imported.
        files: all libraries that got loaded.
        loads: those of CUDA, of a framework and of the driver.
        has_driver_stub: our stub stood in for the driver.
    """

    imported: tuple[str, ...]
    value: str
    failure: str
    suffixes: tuple[str, ...]
    sources: tuple[Path, ...]
    files: tuple[Path, ...]
    loads: tuple[LoadedLibrary, ...]
    has_driver_stub: bool

    @property
    def last_words(self) -> str:
        """The last line of the failure."""
        return self.failure.strip().rpartition("\n")[2]

    @property
    def traceback(self) -> str:
        """The end of the failure, indented."""
        return "\n    ".join(self.failure.strip().splitlines()[-_TRACEBACK:])

    @property
    def lacking(self) -> str:
        """The library that the loader found nowhere; empty: that wasn't it."""
        found = _LACKING.search(self.failure)
        return found[1] if found else ""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A clean environment that can be asked, each time in a fresh process.

    Attributes:
        python: its interpreter.
        site: its site-packages, links followed.
        owned: from `loads.owners`.
        confinement: what the processes see, and where they leave their files.
        log: gets all that the processes say.
        name: what errors call the wheel.
        hiding_prefix: from `hide_cuda.hiding_prefix`, runs a program without the machine's CUDA
            where there is no sandbox that does so.
        stub: a library that may stand in for a driver that isn't there.
        time_limit: of one process, seconds.
    """

    python: Path
    site: Path
    owned: Mapping[str, str]
    confinement: Confinement
    log: Path
    name: str
    hiding_prefix: tuple[str, ...] = ()
    stub: Path | None = None
    time_limit: float = _TIME_LIMIT

    def ask(
        self,
        *,
        imports: Iterable[str] = (),
        call: str = "",
        script: Path | None = None,
        libraries: Iterable[str] = (),
    ) -> SmokeAnswer:
        """Import modules, evaluate an expression, run a script, load libraries, in this order.

        Where that fails only because the driver is missing, it is done again with the stub, if
        there is one. A driver that is there is never passed over.

        Args:
            imports: modules.
            call: an expression over them; empty: none.
            script: the recipe's own.
            libraries: paths below site-packages.

        Raises:
            SmokeError: the interpreter died, or took too long.
        """
        question = {
            "imports": tuple(imports),
            "call": call,
            "script": str(script.absolute()) if script else "",
            "libraries": tuple(libraries),
        }
        answer = self._ask(question, None)
        if answer.lacking == DRIVER_SONAME and self.stub:
            return self._ask(question, self.stub)
        return answer

    def _ask(self, question: Mapping[str, object], stub: Path | None) -> SmokeAnswer:
        folder = self.confinement.folder
        written, debug = folder / "answer.json", folder / "loader"
        self.confinement.empty()
        text = json.dumps({**question, "stub": str(stub or "")})
        words: list[str | Path] = [*self.hiding_prefix, self.python, "-I", SCRIPT, text, written]
        finished = run(
            self.confinement.command(words),
            env={
                "PATH": "/usr/bin:/bin",
                "LC_ALL": "C.UTF-8",
                "HOME": str(folder),
                # For the loader alone: the probe takes them away before it imports anything.
                "LD_DEBUG": "files",
                "LD_DEBUG_OUTPUT": str(debug),
            },
            cwd=folder,
            log=self.log,
            timeout=self.time_limit,
            check=False,
        )
        try:
            return self._answer(json.loads(read_regular(written, limit=limits.ANSWER)), stub)
        except (OSError, ValueError, LookupError, TypeError):
            raise self._crash_error(finished) from None

    def _answer(self, content: Mapping[str, Any], stub: Path | None) -> SmokeAnswer:
        files = tuple(Path(str(path)) for path in content["libraries"])
        return SmokeAnswer(
            imported=tuple(map(str, content["imported"])),
            value=str(content["value"]),
            failure=str(content["failure"]),
            suffixes=tuple(map(str, content["suffixes"])),
            sources=tuple(Path(str(path)) for path in content["sources"]),
            files=files,
            loads=find_loaded_libraries(files, self.site, self.owned, self._said(), stub),
            has_driver_stub=stub is not None,
        )

    def _said(self) -> str:
        """What the loader wrote of each process; of the package's own files no more than others."""
        written = sorted(self.confinement.folder.glob("loader.*"))[: limits.PROCESSES]
        return "".join(map(_read_text, written))

    def _crash_error(self, finished: Finished) -> SmokeError:
        last = " / ".join(finished.output.strip().splitlines()[-_TRACEBACK:])
        return SmokeError(
            f"{self.name}: the interpreter died while it imported the wheel",
            why=f"{_how(finished.status)} after {finished.duration:.0f} s: {last or 'no output'}",
            fix="a crash at import most often means a library built for another release of the "
            f"framework; the whole output is in {self.log}",
        )


def _how(status: int) -> str:
    """`SIGSEGV`, by the number or, out of a sandbox, as shells say it; else `status 1`."""
    number = -status if status < 0 else status - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"status {status}"


def _read_text(path: Path) -> str:
    try:
        return read_regular(path, limit=limits.LOADER).decode(errors="replace")
    except OSError:
        return ""
