"""Installed files: as RECORD lists them, compared with those on disk, shared and shadowed ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.base.formats.wheel.record import RecordFormatError, record_digest, record_rows
from cuwheel.base.system.regular_files import open_file, read_bytes, read_text
from cuwheel.check.diagnose.facts.builds import (
    OtherBuild,
    elf_at,
    file_for_numpy_1,
    find_other_build,
    modules_of_cython,
    other_machine,
)
from cuwheel.check.diagnose.facts.environment import (
    WITH_RECORD,
    Distribution,
    PythonEnvironment,
)

_ELF = b"\x7fELF"
_POINTER = b"version https://git-lfs."  # the beginning of what Git LFS has instead of a file
POINTER = "is a pointer of Git LFS, not the file itself"
STRAY = frozenset({"benchmarks", "docs", "examples", "test", "tests"})  # packaged by mistake
_OUTSIDE = STRAY | {".."}
_DEBIANS = "dist-packages"  # pip writes its name into what it installs there
_PIECE = 1 << 20  # bytes that are read at once
_LINE = 512  # bytes at the beginning of a program
# As pip writes it, also where the path is too long or has a space.
_FIRST_LINE = re.compile(
    rb"#!(?:/bin/sh\r?\n'{3}exec' )?\"?(/[^\"\n]+?/bin/python[\d.]*\r?)[\" \n]"
)
_TEST = re.compile(r"test_.*|.*_test\.py|conftest\.py")
_OWN_PROGRAM = re.compile(r"nvidia/.*/bin/|triton/.*/bin/")  # that packages start: ptxas
NOT_EXECUTABLE = "isn't executable"
# What compiles when it runs, and the wheels with the headers for it; others do without headers.
_COMPILES = re.compile(r"cupy(-cuda\d+x)?|numba-cuda|nvidia-cuda-nvcc(-cu\d+)?")
_WITH_HEADERS = re.compile(r"nvidia-cuda-(runtime|crt)(-cu\d+)?")
_BITCODE = re.compile(r"(nvidia|triton|tensorflow)/.*\.bc")  # that compilers link: libdevice
_HEADER = re.compile(r"nvidia/.*/include/.*\.h")


@dataclass(frozen=True, kw_only=True)
class RecordedFile:
    """A file that a distribution has installed.

    Attributes:
        digest: `sha256=…` as RECORD has it; empty where it has none.
        size: in bytes; None where RECORD has none.
    """

    path: Path
    digest: str
    size: int | None


@dataclass(frozen=True, kw_only=True)
class FileFault:
    """A fault of an installed file.

    Attributes:
        what: `isn't there`, `holds …`.
        is_damage: it can't be used; else it is merely another one than was installed.
        barrier: the user's own file or folder that its permissions don't let the user read, or link
            that leads to itself.
    """

    path: Path
    what: str
    is_damage: bool
    barrier: Path | None = None


@dataclass(frozen=True, kw_only=True)
class SharedFiles:
    """Files that several distributions have, each with other content.

    Attributes:
        in_place: the owner of the first file as it is on disk; empty: none of them.
    """

    owners: tuple[Distribution, ...]
    paths: tuple[Path, ...]
    in_place: str


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """A module that is imported instead of the installed one.

    Attributes:
        distribution: that is hidden; empty: the standard library.
        entry: the entry of `sys.path` that leads there.
        is_start: that is the folder that programs are started in, which Python adds for `python -m`
            and a prompt.
        user: the file that imports the module, later than at the import of its package; None: that
            import needs it.
    """

    distribution: str
    module: str
    path: Path
    entry: Path
    is_start: bool = False
    user: Path | None = None


@dataclass(frozen=True, kw_only=True)
class InstallationFacts:
    """Faults of the files of an environment, by distribution.

    Attributes:
        builds: of distributions that are for another Python or machine.
        for_numpy_1: extensions that need NumPy 1, where NumPy 2 is installed.
        cython: others that may, module and file: their import shows it.
        hidden: modules `x.py` that a folder `x` of another one hides: both, and the folder.
        is_complete: all files were read in time.
    """

    faults: Mapping[str, tuple[FileFault, ...]] = field(default_factory=dict)
    shared: tuple[SharedFiles, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    builds: Mapping[str, OtherBuild] = field(default_factory=dict)
    for_numpy_1: Mapping[str, str] = field(default_factory=dict)
    cython: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hidden: tuple[tuple[Distribution, Distribution, Path], ...] = ()
    is_complete: bool = True


def read_installation(
    environment: PythonEnvironment,
    examined: Collection[Distribution],
    checked: Iterable[Distribution],
    verified: Collection[str],
) -> InstallationFacts:
    """Read the files of an environment.

    Args:
        checked: those with libraries to read; a truncated one doesn't show what it was for.
        verified: names of those of which every file is compared with its hash.
    """
    claims = _claims(environment)
    shared = tuple(_shared(environment, frozenset(owner.name for owner in examined), claims))
    contested = {path for group in shared for path in group.paths}
    faults: dict[str, tuple[FileFault, ...]] = {}
    checked = tuple(checked)
    builds = {own.name: find_other_build(own, environment) for own in checked}
    compiles = any(map(_COMPILES.fullmatch, environment.distributions))
    for distribution in checked:
        name = distribution.name
        headers = compiles and bool(_WITH_HEADERS.fullmatch(name))
        found = find_faults(
            distribution,
            verifies=name in verified,
            headers=headers,
            compares=distribution in examined,
        )
        if own := tuple(fault for fault in found if fault.path not in contested):
            faults[name] = own
    users = tuple(_users_of_numpy(environment, checked))
    for_numpy_1 = {own.name: file for own in users if (file := file_for_numpy_1(own))}
    others = (own for own in users if own.name not in for_numpy_1)
    return InstallationFacts(
        faults=faults,
        shared=shared,
        builds={name: build for name, build in builds.items() if build},
        for_numpy_1=for_numpy_1,
        cython={own.name: modules for own in others if (modules := dict(modules_of_cython(own)))},
        hidden=tuple(_hidden(environment, claims)),
    )


def _users_of_numpy(
    environment: PythonEnvironment, checked: Iterable[Distribution]
) -> Iterator[Distribution]:
    """Yield distributions that require NumPy, where NumPy 2 is installed."""
    numpy = environment.distributions.get("numpy")
    if numpy and not numpy.version.startswith(("0.", "1.")):
        yield from (own for own in checked if "numpy" in map(project_of, own.requires))


def _claims(environment: PythonEnvironment) -> dict[Path, dict[str, str]]:
    """Return the hash of each module and library by each owner's name."""
    claims: dict[Path, dict[str, str]] = defaultdict(dict)
    for distribution in environment.distributions.values():
        for file in module_files(distribution):
            claims[file.path][distribution.name] = file.digest
    return claims


def _hidden(
    environment: PythonEnvironment, claims: Mapping[Path, Mapping[str, str]]
) -> Iterator[tuple[Distribution, Distribution, Path]]:
    """Yield two owners of a module and of a folder that Python imports instead."""
    for path, owners in claims.items():
        folder = path.with_suffix("")
        others = claims.get(folder / "__init__.py", {}).keys() - owners.keys()
        if path.suffix == ".py" and path.parent in environment.sites and others:
            first, second = min(others), min(owners)
            yield environment.distributions[first], environment.distributions[second], folder


def _shared(
    environment: PythonEnvironment,
    examined: frozenset[str],
    claims: Mapping[Path, Mapping[str, str]],
) -> Iterator[SharedFiles]:
    """Yield groups of owners with other files: any libraries, modules of examined owners."""
    groups: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for path, digests in claims.items():
        if len(set(digests.values())) > 1:
            groups[tuple(sorted(digests))].append(path)
    for owners, paths in groups.items():
        on_disk = "unreadable"
        libraries = [path for path in paths if ".so" in path.name]
        # Packages of one namespace may each have its `__init__.py`.
        has_modules = any(path.name != "__init__.py" for path in paths)
        if libraries or (has_modules and examined.intersection(owners)):
            first = (libraries or paths)[0]
            with contextlib.suppress(OSError):
                on_disk = digest_of(first, "sha256")
            yield SharedFiles(
                owners=tuple(environment.distributions[name] for name in owners),
                paths=(first, *(path for path in paths if path != first)),
                in_place=next((name for name in owners if claims[first][name] == on_disk), ""),
            )


def module_files(distribution: Distribution) -> Iterator[RecordedFile]:
    """Yield its Python files and libraries below site-packages, without stray folders."""
    return _recorded(distribution, _is_of_module)


def _is_of_module(inside: str) -> bool:
    is_wanted = inside.endswith(".py") or _is_library(inside)
    return is_wanted and inside.partition("/")[0] not in _OUTSIDE


def _recorded(
    distribution: Distribution, is_wanted: Callable[[str], bool]
) -> Iterator[RecordedFile]:
    """Yield the files with a wanted path from site-packages: paths of all would cost seconds.

    There are none without a readable RECORD. conda and Debian edit libraries after their RECORD was
    written, and keep hashes of their own elsewhere, so only the names of their files count.
    """
    try:
        rows = record_rows(read_text(distribution.metadata / "RECORD"))
        program = distribution.installer
        is_edited = program == "conda" or (not program and distribution.site.name == _DEBIANS)
    except (OSError, UnicodeDecodeError, RecordFormatError):
        return
    for name, digest, size in rows:
        inside = os.path.relpath(name, distribution.site) if name.startswith("/") else name
        inside = os.path.normpath(inside)
        if is_wanted(inside):
            yield RecordedFile(
                path=Path(os.path.normpath(distribution.site / inside)),
                digest="" if is_edited else digest,
                size=int(size) if size.isdecimal() and not is_edited else None,
            )


def named_files(distribution: Distribution) -> frozenset[Path]:
    """Return all files that a distribution's RECORD names."""
    return frozenset(file.path for file in _recorded(distribution, lambda _: True))


def _is_library(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.endswith(".so") or ".so." in last


def modules_of(distribution: Distribution) -> tuple[str, ...]:
    """Return the names to import a distribution by; neither private ones nor stray folders."""
    modules: dict[str, None] = {}
    for file in _recorded(distribution, lambda inside: _is_top(inside) and _is_of_module(inside)):
        first, *rest = file.path.relative_to(distribution.site).parts
        modules[first if rest else first.partition(".")[0]] = None
    names = tuple(name for name in modules if not name.startswith("_"))
    return names or _modules_of_editable(distribution)


def _is_top(inside: str) -> bool:
    return inside.partition("/")[2] in {"", "__init__.py"}


def _modules_in_namespaces(distribution: Distribution) -> tuple[str, ...]:
    """Return the packages in folders that others share: `cuda.bindings`."""
    modules = dict.fromkeys(
        file.path.relative_to(distribution.site).parts[:-1]
        for file in module_files(distribution)
        if file.path.name == "__init__.py"
    )
    return tuple(".".join(parts) for parts in modules if len(parts) == 2)  # noqa: PLR2004


def _modules_of_editable(distribution: Distribution) -> tuple[str, ...]:
    """Return the modules of a project that is used where it is: its RECORD has none."""
    if not distribution.editable_folder:
        return ()
    with contextlib.suppress(OSError, UnicodeDecodeError):  # setuptools writes it
        return tuple(read_text(distribution.metadata / "top_level.txt").split())
    name = distribution.name.replace("-", "_")
    folders = (Path(distribution.editable_folder, part) for part in ("", "src"))
    files = (folder / file for folder in folders for file in (f"{name}.py", f"{name}/__init__.py"))
    return (name,) if any(map(Path.is_file, files)) else ()


def importable_modules(distribution: Distribution) -> tuple[str, ...]:
    """Return the modules that show whether a distribution works: its own name and extensions."""
    modules = modules_of(distribution)
    if not modules and not distribution.name.startswith("nvidia-"):  # folders of libraries
        return _modules_in_namespaces(distribution)
    names = [name for name in modules if canonicalize_name(name) == distribution.name]
    files = (distribution.site / f"{name}.py" for name in modules)
    parts = {file.stem for file in files if not (file.exists() or file.with_suffix("").is_dir())}
    return (*names, *(name for name in modules if name in parts - {*names})) if names else modules


def lost_interpreters(environment: PythonEnvironment) -> dict[str, list[str]]:
    """Return the programs of a virtual environment whose first line names a Python that is gone."""
    lost: dict[str, list[str]] = defaultdict(list)
    if (environment.prefix / "pyvenv.cfg").is_file():
        for path in sorted((environment.prefix / "bin").glob("*")):
            with contextlib.suppress(OSError), open_file(path) as stream:
                match = _FIRST_LINE.match(stream.read(_LINE))
                if match and not os.path.exists(match[1]):  # noqa: PTH110 - bytes
                    lost[match[1].decode(errors="replace")].append(path.name)
    return lost


def missing_of_pip(environment: PythonEnvironment) -> list[Path]:
    """Return the modules that the environment's pip has lost; empty without pip."""
    pip = environment.distributions.get("pip")
    files = module_files(pip) if pip else ()
    return [file.path for file in files if not file.path.exists()]


def find_faults(
    distribution: Distribution, *, verifies: bool, headers: bool = False, compares: bool = False
) -> tuple[FileFault, ...]:
    """Return libraries that are missing, truncated or zeroed, without reading them whole.

    Modules are only searched.

    Args:
        verifies: also compare every file with its hash in RECORD.
        headers: also look for those of C++.
        compares: also compare the sizes of modules.
    """
    paths = distribution.libraries
    files = {path: RecordedFile(path=path, digest="", size=None) for path in paths}
    recorded = _recorded(
        distribution,
        lambda name: bool(
            verifies
            or _is_library(name)
            or _OWN_PROGRAM.match(name)
            or _BITCODE.fullmatch(name)
            or (headers and _HEADER.match(name))
        ),
    )
    files |= {file.path: file for file in recorded}
    here = [file for path, file in files.items() if not _is_left_behind(path, distribution)]
    faults = {file.path: _fault_of(file, verifies=verifies) for file in here}
    lost = (fault for fault in _lost_modules(distribution) if fault.path not in faults)
    changed = _changed_modules(distribution) if compares and not verifies else ()
    return (*filter(None, faults.values()), *lost, *changed)


def _changed_modules(distribution: Distribution) -> Iterator[FileFault]:
    """Yield modules of another size, as those of another release that was copied over this one."""
    if distribution.installer not in WITH_RECORD:
        return
    for file in _recorded(distribution, lambda inside: inside.endswith(".py")):
        is_script = file.path.parent.name == "bin"
        if file.size is None or is_script:
            continue
        with contextlib.suppress(OSError):  # those that are gone are found without it
            size = file.path.stat().st_size
            if size != file.size:
                what = f"has {size} bytes, in its wheel it has {file.size}"
                yield FileFault(
                    path=file.path, what=what, is_damage=not size or _has_zeros(file.path)
                )


def _lost_modules(distribution: Distribution) -> Iterator[FileFault]:
    """Yield modules and startup files that are gone.

    A folder that is gone as a whole may have been removed on purpose, to save space, if nothing
    that is left imports it, as may a startup file; tests often are. A distribution's own packager
    may have left files out.
    """
    if distribution.installer not in WITH_RECORD:
        return
    site = str(distribution.site)

    def is_lost(inside: str) -> bool:
        is_searched = inside.endswith((".py", ".pth")) and not inside.startswith("..")
        path = os.path.join(site, inside)  # noqa: PTH118 - a package has thousands
        return is_searched and not _is_for_tests(inside) and not _is_there(path)

    lost = [*_recorded(distribution, is_lost)]
    packages = {file.path.parent for file in lost if file.path.name == "__init__.py"}
    gone = [path for path in packages if not path.exists() and path.parent.exists()]
    yield from _imported_folders(distribution, gone)
    for file in lost:
        # Without an empty `__init__.py` its folder is imported too, as a namespace.
        is_needed = file.path.name != "__init__.py" or file.size != 0
        is_damage = is_needed and file.path.suffix == ".py" and file.path.parent.is_dir()
        yield _missing(file.path, is_damage=is_damage)


def _imported_folders(distribution: Distribution, gone: list[Path]) -> Iterator[FileFault]:
    """Yield folders that are gone, though a module of the same distribution imports them."""
    names = {".".join(path.relative_to(distribution.site).parts): path for path in sorted(gone)}
    words = "|".join(map(re.escape, names)).encode()
    pattern = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(" + words + rb")\b", re.MULTILINE)
    kept = _recorded(distribution, lambda name: name.endswith(".py") and not _is_for_tests(name))
    for file in kept if names else ():
        with contextlib.suppress(OSError):
            found = map(bytes.decode, pattern.findall(read_bytes(file.path)))
            user = file.path.relative_to(distribution.site)
            for name in found:
                if path := names.pop(name, None):
                    what = f"isn't there: {user} imports {name}"
                    yield FileFault(path=path, what=what, is_damage=True)


def _is_there(path: str) -> bool:
    """Return True if a file is there, or a module has been replaced by its compiled form."""
    return os.path.exists(path) or (path.endswith(".py") and os.path.exists(f"{path}c"))  # noqa: PTH110


def _is_for_tests(inside: str) -> bool:
    *folders, name = inside.split("/")
    return not STRAY.isdisjoint(folders) or _TEST.fullmatch(name) is not None


def _is_left_behind(path: Path, distribution: Distribution) -> bool:
    """Return True for `../../../bin/name` of packages that were copied without that folder."""
    return not path.is_relative_to(distribution.site) and not path.parent.is_dir()


def _fault_of(file: RecordedFile, *, verifies: bool) -> FileFault | None:
    is_library, path = _is_library(file.path.name), file.path
    if not is_library and not file.digest:  # compiled modules, which may be gone
        return None
    try:
        size = path.stat().st_size
        with open_file(path) as stream:
            start = stream.read(len(_POINTER))
        if fault := _fault_of_start(file, size, start):
            return fault
        if start.startswith(_ELF) and _is_closed_program(path):
            return FileFault(path=path, what=NOT_EXECUTABLE, is_damage=True)
        algorithm = file.digest.partition("=")[0] if verifies else ""
        # Installers write the first line of a program, as does who moves an environment.
        is_script = path.parent.name == "bin" and start.startswith(b"#!")
        is_known = algorithm in hashlib.algorithms_guaranteed and not is_script
        if not is_known or digest_of(path, algorithm) == file.digest:
            return None
        is_damage = is_library or _has_zeros(path)
    except OSError as problem:
        return _unreadable(path, problem)
    what = (is_library and other_machine(path)) or "differs from the file in its wheel"
    return FileFault(path=path, what=what, is_damage=is_damage)


def _fault_of_start(file: RecordedFile, size: int, start: bytes) -> FileFault | None:
    """Return the fault of a pointer, or of a library, by its size and beginning."""
    path = file.path
    if start == _POINTER and size != file.size:
        return FileFault(path=path, what=POINTER, is_damage=True)
    if not _is_library(path.name):
        return None
    if file.size not in {None, size}:
        other = other_machine(path)
        what = other or f"has {size} bytes, in its wheel it has {file.size}"
        elf = elf_at(path)
        refused = elf.refuses_load if elf and not other else ""
        what += f", and the loader refuses it: {refused}" * bool(refused)
        is_damage = bool(other or refused) or not _is_whole(path)
        return FileFault(path=path, what=what, is_damage=is_damage)
    if size and not start[: len(_ELF)].strip(b"\0"):
        return FileFault(path=path, what="starts with zero bytes", is_damage=True)
    return None


def _is_closed_program(path: Path) -> bool:
    """Return True for a program that a package starts, and may not."""
    is_program = path.parent.name == "bin" and not _is_library(path.name)
    return is_program and not os.access(path, os.X_OK)


def _unreadable(path: Path, problem: OSError) -> FileFault:
    if isinstance(problem, FileNotFoundError):
        return _missing(path)
    what = f"can't be read: {problem.strerror}"
    return FileFault(path=path, what=what, is_damage=True, barrier=_barrier(path))


def _missing(path: Path, *, is_damage: bool = True) -> FileFault:
    link = _lost_link(path)
    what = f"leads to {link.readlink()}, which isn't there" if link == path else "isn't there"
    return FileFault(path=path, what=what, is_damage=is_damage, barrier=link)


def _lost_link(path: Path) -> Path | None:
    """Return the link to nothing that a path, or a folder on it, is."""
    places = (path, *path.parents)
    return next((place for place in places if place.is_symlink() and not place.exists()), None)


def _barrier(path: Path) -> Path | None:
    """Return the first folder on a path, or the file, that the user can't read but may change."""
    places = (*reversed(path.parents), path)
    closed = next((place for place in places if not os.access(place, os.R_OK)), None)
    return closed if closed and closed.lstat().st_uid == os.geteuid() else None


def _is_whole(path: Path) -> bool:
    elf = elf_at(path)
    if elf is None:
        return False
    end = max((section.offset + section.size for section in elf.sections), default=0)
    return end <= path.stat().st_size


def digest_of(path: Path, algorithm: str) -> str:
    """Return the hash of a file in the form of RECORD.

    Raises:
        OSError: it can't be read.
    """
    digest = hashlib.new(algorithm)
    with open_file(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return record_digest(algorithm, digest.digest())


def _has_zeros(path: Path) -> bool:
    """Return True if a file is empty or has zero bytes, as texts never do."""
    with open_file(path) as stream:
        pieces = iter(lambda: stream.read(_PIECE), b"")
        first = next(pieces, b"")
        return not first or b"\0" in first or any(b"\0" in piece for piece in pieces)
