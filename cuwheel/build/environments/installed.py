"""Installed packages whose files equal those of their wheels, and that no cache shares.

uv checks a wheel's hash when it downloads it, but never checks its unpacked copy again, and links
that into every folder that it fills. So each file is compared with its wheel's RECORD, and if one
differs the packages are downloaded and checked anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuwheel.base.errors import ToolchainError
from cuwheel.base.fetch.private_files import make_private
from cuwheel.base.formats.wheel.record import STRONGER, record_digest, record_rows
from cuwheel.base.system.files import empty, hash_of_file, list_tree
from cuwheel.base.system.pythons import Interpreter
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.lock_file import read_pins
from cuwheel.build.environments.uv import forget, install, make_environment
from cuwheel.build.workspace.workspace import Workspace

_SHOWN = 3  # files that an error names

# Of files by path, each with its hash in RECORD's form: those for which others have the same.
FindTwins = Callable[[Mapping[str, str]], Mapping[str, Path]]


def fill_environment(  # noqa: PLR0913 - source, destination and report
    folder: Path,
    base: Interpreter,
    lock: Path,
    workspace: Workspace,
    *,
    offline: bool,
    log: Path,
    find_twins: FindTwins | None = None,
) -> Path:
    """Make an environment with the packages of a lock, and return the folder of its packages.

    Args:
        find_twins: finds files to which those of the environment are linked.

    Raises:
        ToolchainError: files differ from their wheels, and `offline` is set.
        CuwheelError: as `uv.make_environment` and `uv.install`.
    """
    site = folder / "lib" / f"python{base.release}" / "site-packages"

    def fill() -> None:
        make_environment(folder, base.path, workspace, log=log)
        install(folder / "bin" / "python", lock, workspace, offline=offline, log=log)

    _install_verified(fill, folder, site, lock, workspace, offline=offline, find_twins=find_twins)
    return site


def fill_folder(  # noqa: PLR0913 - source, destination and report
    folder: Path,
    python: Path,
    lock: Path,
    workspace: Workspace,
    *,
    offline: bool,
    log: Path,
    machine: str = "",
) -> None:
    """Fill a folder with the packages of a lock.

    Args:
        python: that they are chosen for.
        machine: another kind of machine, `aarch64`; empty: this one's.

    Raises:
        ToolchainError: files differ from their wheels, and `offline` is set.
        CuwheelError: as `uv.install`.
    """

    def fill() -> None:
        install(python, lock, workspace, offline=offline, log=log, into=folder, machine=machine)

    _install_verified(fill, folder, folder, lock, workspace, offline=offline)


def _install_verified(  # noqa: PLR0913 - source, destination and report
    fill: Callable[[], None],
    folder: Path,
    site: Path,
    lock: Path,
    workspace: Workspace,
    *,
    offline: bool,
    find_twins: FindTwins | None = None,
) -> None:
    """Fill a folder with locked packages; download them again if the cache has damaged ones.

    Afterwards its files have no name elsewhere, except those of their twins. They are compared
    with RECORD in their place, so that links and copies are too.
    """
    fill()
    if find_twins:
        inside = site.relative_to(folder)
        rows = _expected(site)[0].items()
        listed = {os.path.normpath(inside / name): digests[-1] for name, digests in rows}
        make_private(folder, find_twins(listed))
    else:
        make_private(folder)
    try:
        check_records(site, lock.name)
    except ToolchainError:
        if offline:
            raise
        message = "the installer's cache is damaged too; its files are downloaded again"
        workspace.console.warn(message)
        forget([pin.requirement.name for pin in read_pins(lock)], workspace)
        empty(folder)
        fill()
        make_private(folder)
        check_records(site, lock.name)


def _expected(folder: Path) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the hashes of each installed file by RECORDs, and the RECORDs without any.

    A file that several wheels have has those of each: the last that was installed counts.
    """
    expected: dict[str, tuple[str, ...]] = {}
    wrong = []
    for record, rows in _records(folder).items():
        if not rows:
            wrong.append(record)
        for name, digest in rows.items():
            expected[name] = (*expected.get(name, ()), digest)
    return expected, wrong


def _records(folder: Path) -> dict[str, dict[str, str]]:
    """Return the hash of each file by the path of each RECORD; none of one that can't be read."""
    records = {}
    for path in sorted(folder.glob("*.dist-info/RECORD")):
        try:
            rows = record_rows(read_text(path))
        except ValueError:  # UTF-8's too
            rows = ()
        records[str(path.relative_to(folder))] = {name: digest for name, digest, _ in rows}
    return records


def damaged_projects(folder: Path) -> tuple[str, ...]:
    """Return the projects with files that differ from RECORD; all if a file is in no RECORD."""
    wrong = set(_differing(folder))
    owned = {record: {record, *rows} for record, rows in _records(folder).items()}
    is_unknown = bool(wrong - set().union(*owned.values()))
    damaged = (record for record, files in owned.items() if is_unknown or files & wrong)
    return tuple(record.partition("-")[0] for record in damaged) if wrong else ()


def check_records(folder: Path, owner: str) -> None:
    """Compare every file with its wheel's RECORD.

    Raises:
        ToolchainError: with the first files that differ, are missing or are in no RECORD.
    """
    if wrong := _differing(folder):
        raise ToolchainError(
            f"{len(wrong)} files of {owner} differ from their wheels' RECORD",
            why=f"the installer's cache is damaged: {', '.join(wrong[:_SHOWN])}",
            fix="remove the folder `uv` in cuwheel's cache and run the same command again",
            anchor="damaged-packages",
        )


def _differing(folder: Path) -> list[str]:
    """Return the files that differ, are missing or are in no RECORD."""
    expected, wrong = _expected(folder)
    names = sorted(name for name, digests in expected.items() if all(digests))
    with ThreadPoolExecutor() as pool:
        actual = pool.map(lambda name: _is_recorded(folder / name, expected[name]), names)
        wrong += [name for name, is_recorded in zip(names, actual, strict=True) if not is_recorded]
    # A file that was put into the installer's cache would be imported like any other.
    return wrong + sorted({str(name) for name in list_tree(folder)} - expected.keys())


def _is_recorded(path: Path, digests: Iterable[str]) -> bool:
    return any(_record_hash(path, digest) == digest for digest in dict.fromkeys(digests))


def _record_hash(path: Path, expected: str) -> str:
    """Return a file's hash by the algorithm of its row; SHA-256 if that one is too weak."""
    if not path.is_file():
        return "missing"
    name = expected.partition("=")[0]
    algorithm = name if name in STRONGER else "sha256"
    return record_digest(algorithm, bytes.fromhex(hash_of_file(path, algorithm)))
