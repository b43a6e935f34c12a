"""Verdicts of a diagnosis, each with cause, fix and its entry in TROUBLESHOOTING.md."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

# From good to bad: it works; that is so, and fine where GPU code is only built; it may not work, or
# works under a condition; it doesn't work.
Level = Literal["ok", "note", "warning", "broken"]
LEVELS: tuple[Level, ...] = typing.get_args(Level)
# The lowest level that makes the session fail.
FailsOn = Literal["broken", "warning", "never"]
FAILS_ON: tuple[FailsOn, ...] = typing.get_args(FailsOn)


@dataclass(frozen=True, kw_only=True)
class VerdictKind:
    """An entry of TROUBLESHOOTING.md: heading and paragraph."""

    title: str
    text: str


# Problems that only a diagnosis finds, by anchor; those of others are in the catalogue of failures.
OWN_ENTRIES = {
    "diagnose-damaged-installation": VerdictKind(
        title="Damaged installation",
        text="A file that a package installed is missing or can't be read, or the package's own "
        "metadata can't be read. Two packages with the same file (removing one takes it "
        "from the other), a full disk or an interrupted installation cause this. Reinstall "
        "the package: `pip install --force-reinstall --no-deps NAME==VERSION`. Folders "
        "whose names begin with `~` are what pip was removing when it was interrupted. "
        "`diagnose --verify-files` reads every file and compares it with its hash.",
    ),
    "diagnose-import-failed": VerdictKind(
        title="Import failed",
        text="Importing a package failed in a way that has no entry of its own. The line shown "
        "is the last one of its traceback; `python -c 'import NAME'` shows the full "
        "traceback.",
    ),
    "diagnose-incomplete-toolkit": VerdictKind(
        title="Incomplete CUDA toolkit",
        text="The nvcc that builds take first has no headers, no ptxas or no libcudart. On Debian "
        "and Ubuntu headers and libraries are in nvidia-cuda-dev. A link to nvcc outside of its "
        "toolkit (`/usr/local/bin/nvcc`) doesn't work: nvcc searches its settings and headers "
        "from the folder of the link. Link the toolkit's folder instead, or put its `bin` on PATH.",
    ),
    "diagnose-incomplete-python": VerdictKind(
        title="Python without a module",
        text="A Python that was built where the headers of a library were missing lacks the module "
        "for it: `_ctypes` (libffi), `_bz2`, `_lzma`, `_sqlite3`, `_ssl`. Install its headers and "
        "build Python again, or take another Python; then create the environment again.",
    ),
    "diagnose-mixed-cuda": VerdictKind(
        title="Mixed CUDA releases",
        text="Two packages of one environment were built for different major releases of CUDA. "
        "Each needs its own CUDA runtime; they can't share memory and streams, and "
        "libraries that exist for one release only are missing for one of them. Install "
        "both for the same release: that of the framework.",
    ),
    "diagnose-no-installer": VerdictKind(
        title="Nothing can be installed here",
        text="The report names no commands: a system keeps pip and uv out of its own Python "
        "(the file `EXTERNALLY-MANAGED`, PEP 668), or the environment has no pip and uv "
        "isn't on PATH. In the first case create an environment of your own, `python3 -m "
        "venv FOLDER`, and install what is needed there; in the second install pip, "
        "`python -m ensurepip`, or uv.",
    ),
    "diagnose-no-library": VerdictKind(
        title="No library for this CUDA",
        text="A package contains one library for each CUDA release and loads the one for the "
        "release that its framework was built with, unless a variable names another. That "
        "library is missing, or another one is loaded. The line says which, and what the "
        "package contains: unset the variable, install a release of the package that has "
        "the library, or a framework for a CUDA release that the package supports.",
    ),
    "diagnose-not-asked": VerdictKind(
        title="Not examined",
        text="Something didn't answer within its time limit, or gave an invalid answer, so the "
        "report continues without it. The line says what and why. A hanging `nvidia-smi` "
        "usually means that a GPU is lost: `dmesg | grep -i -e nvrm -e xid` shows it, and "
        "a restart helps.",
    ),
    "diagnose-not-installed": VerdictKind(
        title="Not installed",
        text="The environment doesn't have a package that was given. The first line of the "
        "report's environment says which environment was examined and why; `--python` "
        "names another.",
    ),
    "diagnose-not-loaded-yet": VerdictKind(
        title="Libraries that are loaded on request",
        text="A package needs CUDA libraries that are installed, but no rpath entry of it "
        "points to them. It has a function that loads them: call it before anything that "
        "uses the GPU. Importing PyTorch of the same CUDA first loads most of them too.",
    ),
    "diagnose-shadowed-module": VerdictKind(
        title="A file hides a package",
        text="Another file with the name of a package (`torch.py`) is in a folder that comes "
        "earlier on Python's path, usually because of PYTHONPATH. `import` uses the first. "
        "Rename the file, or remove its folder from PYTHONPATH.",
    ),
    "diagnose-shared-files": VerdictKind(
        title="Two packages with the same files",
        text="Two installed packages have different libraries in the same place (onnxruntime "
        "and onnxruntime-gpu, two of opencv, NCCL for two releases of CUDA). What was "
        "installed last has replaced the other's, and removing either deletes the files. "
        "Remove the one that isn't needed, then reinstall the other; the report has both "
        "as one line.",
    ),
    "diagnose-startup-file": VerdictKind(
        title="Startup file",
        text="Python runs the lines of `.pth` files that begin with `import`, `sitecustomize` and "
        "`usercustomize` at each start. One of them raises an exception: Python prints it, ignores "
        "the rest of the file and goes on, so folders that it should add to the path are missing. "
        "Correct or remove the file, or install the package again that it belongs to.",
    ),
    "diagnose-variable": VerdictKind(
        title="A variable keeps programs from working",
        text="Python, or an import, fails with a variable such as `LD_PRELOAD`, `LD_LIBRARY_PATH` "
        "or `PYTHONHOME` and works without it: `diagnose` has tried both; or it names what isn't "
        "there, as `CXX` without that compiler. Remove the part of the value that the line names, "
        "also from the file in which your shell sets it.",
    ),
    "diagnose-versions": VerdictKind(
        title="Requirements that aren't met",
        text="A package requires another version of a package than the installed one, or a "
        "package that isn't installed. pip allows that when the two are installed one "
        "after the other, or with `--no-deps`. Installing both in one command lets the "
        "resolver find compatible versions.",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """One thing that was judged.

    Attributes:
        level: whether it works.
        what: the fact, one line.
        cause: why; empty where it works.
        fix: what the reader can do.
        command: the fix as one line for a shell, after which all of it is well; empty where the fix
            takes a decision, or nothing that can be run.
        anchor: of the entry in TROUBLESHOOTING.md; empty where it works.
    """

    SCHEMA_NAME: ClassVar[str] = "Verdict"
    level: Level
    what: str
    cause: str = ""
    fix: str = ""
    command: str = ""
    anchor: str = ""

    @property
    def more(self) -> str:
        """The address of its entry; empty if it works."""
        return f"TROUBLESHOOTING.md#{self.anchor}" if self.anchor else ""


def works(what: str) -> Diagnosis:
    """Return a verdict about something that works."""
    return Diagnosis(level="ok", what=what)


def _judge(  # noqa: PLR0913, PLR0917 - as a verdict is printed
    level: Level, anchor: str, what: str, cause: str, fix: str, command: str = ""
) -> Diagnosis:
    return Diagnosis(level=level, what=what, cause=cause, fix=fix, command=command, anchor=anchor)


notes = partial(_judge, "note")  # it is good to know, and no fault by itself
warns = partial(_judge, "warning")  # it may not work, or works under a condition
broken = partial(_judge, "broken")  # it doesn't work


def not_examined(what: str, why: str) -> Diagnosis:
    """Return a verdict about something that gave no answer."""
    return warns(
        "diagnose-not-asked",
        f"{what} couldn't be examined",
        why,
        "check it manually; everything else in this report was found without it",
    )


def worst_level(verdicts: Iterable[Diagnosis]) -> Level:
    """Return the worst level of verdicts; `ok` without any."""
    return max((verdict.level for verdict in verdicts), key=LEVELS.index, default="ok")


def exit_code_of(level: Level, fails_on: FailsOn = "broken") -> int:
    """Return the exit code of the session: 0 below `fails_on`, else 1 or 2."""
    fails = fails_on != "never" and LEVELS.index(level) >= LEVELS.index(fails_on)
    return {"warning": 1, "broken": 2}[level] if fails else 0
