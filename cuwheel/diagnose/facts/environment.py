"""Ask an interpreter what its environment holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from cuwheel.diagnose.facts.probe import ask_probe
from cuwheel.errors import CommandFailedError, InterpreterNotFoundError
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.record import RecordFormatError, record_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


FACTS_TIME_LIMIT = 15.0  # seconds; a slow disk with hundreds of packages
_OLDEST = (3, 8)  # that the script runs in
_VERSION = "import sys; sys.stdout.write('%d.%d.%d' % sys.version_info[:3])"  # Python 2 too
_RENAMED = re.compile(r"~[-~.=%0-9]*")  # what pip puts before a name
_NAME = re.compile(r"python|pypy")  # such a program is a Python, though it may be broken
_RELEASE = re.compile(r"(\d+)\.(\d+)\.\d+")


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """An installed project.

    Attributes:
        name: normalised.
        version: as its metadata say.
        site: the folder that it is installed in.
        metadata: its own folder there, `torch-2.11.0.dist-info`.
        requires: its `Requires-Dist` lines.
        libraries: the shared libraries that it says it has installed.
    """

    name: str
    version: str
    site: Path
    metadata: Path
    requires: tuple[str, ...]
    libraries: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class PythonEnvironment:
    """What an interpreter says of its environment.

    Attributes:
        python: the program that was asked.
        version: `3.12.1`.
        prefix: folder of the environment.
        sites: the folders on its path.
        suffixes: names of extension modules end so.
        is_conda: conda made it.
        markers: what its requirements' markers are judged by.
        distributions: what is installed, the first of two with one name.
        damaged: metadata that can't be read: path and reason.
        shadowed: distributions of which another copy comes first.
        leftovers: folders of pip's, `~orch`, that an installation or removal which was interrupted
            has left.
        removed: distributions whose metadata are among them.
        managed: the file by which a system keeps installers out of its own Python; empty elsewhere.
    """

    python: Path
    version: str
    prefix: Path
    sites: tuple[Path, ...]
    suffixes: tuple[str, ...]
    is_conda: bool
    markers: Mapping[str, str]
    distributions: Mapping[str, Distribution]
    damaged: tuple[tuple[str, str], ...] = ()
    shadowed: tuple[Distribution, ...] = ()
    leftovers: tuple[Path, ...] = ()
    removed: tuple[Distribution, ...] = ()
    managed: str = ""

    @property
    def release(self) -> str:
        """`3.12` of 3.12.1."""
        return ".".join(self.version.split(".")[:2])


def ask_environment(python: Path, environ: Mapping[str, str]) -> PythonEnvironment:
    """Let an interpreter describe its environment.

    Args:
        python: the program.
        environ: what it is to see.

    Raises:
        InterpreterNotFoundError: it isn't a Python that runs.
    """
    answer, output, fault = ask_probe(python, {"ask": "facts"}, environ, FACTS_TIME_LIMIT)
    if "version" not in answer:
        _refuse_other_programs(python, environ)
        said = (output.strip().splitlines() or [""])[-1][:160]
        raise InterpreterNotFoundError(
            f"{python} can't be examined as a Python",
            why=": ".join(part for part in (fault or "it printed no valid answer", said) if part),
            fix="name an interpreter of 3.8 or newer, or its environment, with --python",
        )
    found: dict[str, Distribution] = {}
    shadowed = []
    sites = tuple(Path(entry) for entry in answer["path"])
    told = answer.get("distributions", ())
    left = [one for one in told if _is_leftover(one["place"])]
    rows = [one for one in told if not _is_leftover(one["place"])]
    for row in rows:
        if row["name"]:
            one = _distribution(row)
            if one.name not in found:
                found[one.name] = one
            elif found[one.name].site != one.site:
                shadowed.append(one)
    return PythonEnvironment(
        python=python,
        version=answer["version"],
        prefix=Path(answer["prefix"]),
        sites=sites,
        suffixes=tuple(answer["suffixes"]),
        is_conda=answer["is_conda"],
        markers=answer["markers"],
        distributions=found,
        damaged=tuple((row["place"], row["fault"]) for row in rows if row["fault"]),
        shadowed=tuple(shadowed),
        leftovers=tuple({path: None for row in left for path in _leftovers(Path(row["place"]))}),
        removed=tuple(_distribution(row) for row in left if row["name"]),
        managed=answer.get("managed", ""),
    )


def _is_leftover(place: str) -> bool:
    """Pip renames what it removes so, and gives it the name back where the removal fails."""
    return place.rpartition("/")[2].startswith("~")


def _leftovers(metadata: Path) -> Iterator[Path]:
    """The renamed metadata of a distribution, then the renamed folders that their RECORD names.

    Any other folder whose name begins with `~` may be a person's own.
    """
    if metadata.suffix != ".dist-info":
        return
    yield metadata
    try:
        names = [name for name, _, _ in record_rows(read_text(metadata / "RECORD"))]
    except (OSError, UnicodeDecodeError, RecordFormatError):
        return
    folders = {name.partition("/")[0] for name in names if "/" in name}
    for path in sorted(metadata.parent.glob("~*")):
        if path.is_dir() and any(_is_renamed(path.name, folder) for folder in folders):
            yield path


def _is_renamed(name: str, folder: str) -> bool:
    """Whether pip may have renamed a folder so, as its `AdjacentTempDirectory` does.

    `~` and some of a few characters take the place of the first letters, or stand before all.
    """
    for cut in range(len(folder)):
        head = name.removesuffix(folder[cut:])
        if head != name and len(head) == (cut or len(head)) and _RENAMED.fullmatch(head):
            return True
    return False


def _refuse_other_programs(python: Path, environ: Mapping[str, str]) -> None:
    """See that it is a Python, and not older than what describes environments.

    What another program or an older Python says of that script helps nobody.

    Raises:
        InterpreterNotFoundError: it isn't, or is older.
    """
    try:
        done = run([python, "-c", _VERSION], env=environ, timeout=FACTS_TIME_LIMIT, check=False)
    except CommandFailedError:
        return
    found = _RELEASE.fullmatch(done.output.strip())
    if not found and not _NAME.match(python.name):
        raise InterpreterNotFoundError(
            f"{python} is not a Python",
            why="it does not print a version when run as a Python (-c CODE)",
            fix="name an interpreter, or its environment, with --python",
        )
    if found and (int(found[1]), int(found[2])) < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise InterpreterNotFoundError(
            f"{python} is Python {found[0]}, and diagnose needs {needed} or newer",
            why="the code that lists its packages doesn't run on older ones, and neither do "
            "current GPU packages",
            fix=f"name an interpreter of {needed} or newer, or its environment, with --python",
        )


def _distribution(row: Mapping[str, Any]) -> Distribution:
    return Distribution(
        name=canonicalize_name(row["name"]),
        version=row["version"],
        site=Path(row["place"]).parent,
        metadata=Path(row["place"]),
        requires=tuple(row["requires"]),
        libraries=tuple(map(Path, row["libraries"])),
    )
