"""Placement of a wheel's files by an installer, and the paths that it may not write.

Sources (packaging.python.org): "Binary distribution format" for `.data`, "Entry points" for
scripts.
"""

from __future__ import annotations

import configparser
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel.base.errors import InstallError
from cuwheel.base.formats.wheel.archive import Wheel, member_faults, open_wheel
from cuwheel.base.formats.wheel.metadata import header
from cuwheel.base.formats.wheel.record import record_digest
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.regular_files import is_regular
from cuwheel.check.diagnose.facts.environment import PythonEnvironment

# Files of installers in a `.dist-info`, in addition to a wheel's own.
WRITTEN = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json")
# Python runs the first two at every start; the others make an environment what it is.
_STARTUP = re.compile(r"(sitecustomize|usercustomize)(\.\w+)*|pyvenv\.cfg")
_PROGRAMS = re.compile(r"(python|pypy|activate|deactivate)[\w.-]*|pip[\d.]*", re.IGNORECASE)
_SCRIPT = re.compile(r"[\w.-]+")
_METADATA = (".dist-info", ".egg-info", ".egg-link")
_BYTECODE = "__pycache__"
# Names at the top of an environment: of conda, cuwheel, git, direnv and editors.
_OWN_TOP = re.compile(r"\..*|conda-meta")
_SHOWN = 6  # faults that an error names


@dataclass(frozen=True, kw_only=True)
class PlacedFile:
    """A file that an installer writes.

    Attributes:
        member: its name in the wheel; empty: the installer makes it.
    """

    wheel: Path
    project: str
    member: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The files of one wheel in an environment."""

    project: str

    files: tuple[PlacedFile, ...]
    faults: tuple[str, ...]


def place(path: Path, environment: PythonEnvironment) -> Placement:
    """Return the placement of a wheel's files."""
    project = canonicalize_name(parse_wheel_filename(path.name)[0])
    with open_wheel(path) as wheel:
        faults = [f"{name}: {why}" for name, why in member_faults(wheel)]
        if faults:
            return Placement(project=project, files=(), faults=tuple(faults))
        placer = _Placer(wheel, project, environment)
        files = tuple(placer.files())
        return Placement(project=project, files=files, faults=tuple(placer.faults))


def scheme_folder(environment: PythonEnvironment, name: str) -> Path:
    """Return a folder that wheels are installed into, links followed.

    The headers of a virtual environment have one of their own: sysconfig names that of its base.
    """
    folder = Path(os.path.realpath(environment.scheme[name]))
    prefix = Path(os.path.realpath(environment.prefix))
    if name == "include" and not folder.is_relative_to(prefix):
        return prefix / "include" / "site" / f"python{environment.release}"
    return folder


class _Placer:
    def __init__(self, wheel: Wheel, project: str, environment: PythonEnvironment) -> None:
        self.wheel, self.project, self.environment = wheel, project, environment
        self.faults: list[str] = []
        is_pure = header(wheel.read_text("WHEEL"), "root-is-purelib")[:1] == ("true",)
        self._root = self._real("purelib" if is_pure else "platlib")
        self._folders: dict[str, Path] = {}

    def files(self) -> Iterator[PlacedFile]:
        """Yield all files that an installer writes; add those that aren't allowed to the faults."""
        self.faults += _bytecode_faults(self.wheel.names)
        for name in self.wheel.names:
            yield from self._placed(name, *self._target_of(name))
        dist_info = self.wheel.dist_info
        for name in WRITTEN:
            if f"{dist_info}/{name}" not in self.wheel.names:
                yield from self._placed("", self._root, f"{dist_info}/{name}")
        for script in self._scripts():
            if _SCRIPT.fullmatch(script) and not script.startswith("."):
                yield from self._placed("", self._real("scripts"), script)
            else:
                self.faults.append(f"its entry point {script!r} is no name of a program")

    def _target_of(self, name: str) -> tuple[Path, str]:
        """Return the folder that a member is relative to, and its path there."""
        first, _, rest = name.partition("/")
        scheme, _, inner = rest.partition("/")
        if not (first.endswith(".data") and inner):
            return self._root, name
        if scheme == "headers":
            return self._real("include") / self.project, inner
        return self._real(scheme), inner

    def _placed(self, member: str, root: Path, inner: str) -> Iterator[PlacedFile]:
        path = self._final(Path(os.path.normpath(root / inner)))
        file = PlacedFile(wheel=self.wheel.path, project=self.project, member=member, path=path)
        if fault := self._fault(file):
            self.faults.append(f"{member or path.name}: {fault}")
        yield file

    def _final(self, path: Path) -> Path:
        """Return a path with links of its folders followed: `lib64` of an environment is one."""
        parent = str(path.parent)
        if parent not in self._folders:
            self._folders[parent] = Path(os.path.realpath(parent))
        return self._folders[parent] / path.name

    def _fault(self, file: PlacedFile) -> str:
        """Return the reason why a file may not be written; empty if it may."""
        prefix = Path(os.path.realpath(self.environment.prefix))
        sites = (self._real("purelib"), self._real("platlib"))
        if not any(map(file.path.is_relative_to, (prefix, *sites))):
            return f"it would be written to {file.path}, outside of the environment"
        site = next((folder for folder in sites if file.path.is_relative_to(folder)), None)
        if site:
            return self._fault_in_site(file.path.relative_to(site).parts[0])
        top = file.path.relative_to(prefix).parts[0] if file.path.is_relative_to(prefix) else ""
        is_program = file.path.parent == self._real("scripts") and self.project != "pip"
        faults = {
            "it changes how Python starts": _STARTUP.fullmatch(file.path.name),
            f"{top} in an environment is for its tools": _OWN_TOP.fullmatch(top),
            "it would be written into Python's standard library": file.path.is_relative_to(
                self._real("stdlib")
            ),
            "it would take the name of a program of the environment": is_program
            and _PROGRAMS.fullmatch(file.path.name),
        }
        return next((fault for fault, is_one in faults.items() if is_one), "")

    def _fault_in_site(self, top: str) -> str:
        if top.endswith(_METADATA) and top != self.wheel.dist_info:
            return "it claims to be the metadata of another package"
        if _STARTUP.fullmatch(top):
            return "Python would run it at every start"
        return ""

    def _scripts(self) -> tuple[str, ...]:
        parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        try:
            parser.read_string(self.wheel.read_text("entry_points.txt"))
        except configparser.Error as problem:
            self.faults.append(f"its entry_points.txt can't be read: {type(problem).__name__}")
            return ()
        kinds = filter(parser.has_section, ("console_scripts", "gui_scripts"))
        return tuple(dict.fromkeys(name.strip() for kind in kinds for name in parser[kind]))

    def _real(self, scheme: str) -> Path:
        return scheme_folder(self.environment, scheme)


def _bytecode_faults(names: Iterable[str]) -> Iterator[str]:
    """Yield bytecode without a source: Python uses it for another of equal size and time."""
    members = frozenset(names)
    for path in map(PurePosixPath, members):
        source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
        if path.parent.name == _BYTECODE and path.suffix == ".pyc" and str(source) not in members:
            yield f"{path}: it is the bytecode of a file that the wheel doesn't bring"


def _folded(path: Path) -> str:
    """Return a path as disks compare it that ignore case or composition of letters."""
    return unicodedata.normalize("NFC", str(path)).casefold()


@dataclass(frozen=True, kw_only=True)
class Occupied:
    """Files of an environment, and the project that wheels replace."""

    owners: Mapping[Path, frozenset[str]]
    replaced: str

    def faults(self, placements: Iterable[Placement]) -> Iterator[str]:
        """Yield what wheels would change other than the project that they replace.

        A file that another package has with the same bytes may be shared: `nvidia/__init__.py`.
        """
        files = [file for placed in placements for file in placed.files]
        yield from _doubles(files)
        for file in files:
            is_new = self.replaced not in self.owners.get(file.path, ())
            fault = self._collision(file)
            if file.path.suffix == ".pth" and file.project == self.replaced and is_new:
                fault = "would be run by Python at every start"  # setuptools requires its own
            if fault:
                yield f"{file.wheel.name}: {file.member or file.path.name} {fault}"

    def _collision(self, file: PlacedFile) -> str:
        """Return what a file would overwrite; empty: nothing, or what is replaced."""
        parent = next(parent for parent in file.path.parents if os.path.lexists(parent))
        if not parent.is_dir():
            return f"needs a folder where {parent} is a file"
        if not os.path.lexists(file.path):
            twin = self._twins.get(_folded(file.path))
            return f"differs from {twin} only in upper and lower case" if twin else ""
        if file.path.is_dir():
            return f"would replace the folder {file.path}"
        owners = self.owners.get(file.path, frozenset())
        others = owners - ({self.replaced} if file.project == self.replaced else set())
        if owners and not others:
            return ""
        if others and file.member and is_regular(file.path):
            digest = record_digest("sha256", bytes.fromhex(sha256_of_file(file.path)))
            if digest == _digest_of(file):
                return ""
        owner = ", ".join(sorted(others)) or "no package"
        return f"would overwrite {file.path} of {owner}"

    @cached_property
    def _twins(self) -> dict[str, Path]:
        return {
            _folded(path): path for path, owners in self.owners.items() if owners != {self.replaced}
        }


def check_placements(
    placements: Mapping[Path, Placement], prefix: Path, occupied: Occupied
) -> None:
    """Raise an error if wheels change anything but the project that they replace."""
    faults = [
        f"{wheel.name}: {fault}" for wheel, placed in placements.items() for fault in placed.faults
    ]
    faults += occupied.faults(placements.values())
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise InstallError(
            f"{', '.join(wheel.name for wheel in placements)} can't be installed into {prefix} "
            "without changing other files",
            why="; ".join(faults[:_SHOWN]) + more,
            fix="the environment is unchanged; use a wheel without these files, or an environment "
            "without the packages that have them: python3 -m venv DIR, and --python DIR; a file "
            "of no package may be a leftover: move it away",
        )


def _doubles(files: Iterable[PlacedFile]) -> Iterator[str]:
    """Yield files with equal names on some disks, from two wheels or from one."""
    placed: dict[str, PlacedFile] = {}
    for file in files:
        other = placed.setdefault(_folded(file.path), file)
        are_two = file.wheel != other.wheel and file.member and other.member
        is_shared = are_two and file.path == other.path and _digest_of(file) == _digest_of(other)
        if other is file or is_shared:
            continue
        owner = f" of {other.wheel.name}" if other.wheel != file.wheel else ""
        before = other.member or other.path.name
        yield f"{file.wheel.name}: {file.member or file.path.name} has the place of {before}{owner}"


def _digest_of(file: PlacedFile) -> str:
    with open_wheel(file.wheel) as wheel:
        return wheel.digest(file.member, "sha256")
