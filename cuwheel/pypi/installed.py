"""Installed packages that are what their wheels say, and that no other folder shares.

uv checks a wheel's hash when it downloads it. What it keeps unpacked it never looks at again, and
links into every folder that it fills. So each file is compared with its wheel's RECORD, and where
one differs the packages are downloaded and checked anew.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cuwheel.errors import DamagedPackagesError
from cuwheel.fetch.private_files import make_private
from cuwheel.pypi.lock_file import read_pins
from cuwheel.pypi.uv import forget
from cuwheel.system.files import empty, hash_of_file, list_tree
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.record import STRONGER, record_digest, record_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.system.console import Console

_SHOWN = 3  # files that an error names


def install_verified(  # noqa: PLR0913 - what, from what, and how it is reported
    fill: Callable[[], Path],
    folder: Path,
    lock: Path,
    *,
    cache: Path,
    offline: bool,
    console: Console,
) -> None:
    """Fill a folder with locked packages; download them again where the cache has damaged ones.

    Args:
        fill: installs the lock into the empty folder; gives back where its packages lie.
        folder: for it; becomes one whose files have no name elsewhere.
        lock: requirements with hashes.
        cache: cuwheel's cache.
        offline: nothing may be downloaded.
        console: reports damage.

    Raises:
        DamagedPackagesError: files aren't what their wheels say, and `offline` is set.
        CuwheelError: whatever `fill` raises.
    """
    try:
        check_records(fill(), lock.name)
    except DamagedPackagesError:
        if offline:
            raise
        console.warn("the installer's cache is damaged too; its files are downloaded again")
        forget([pin.requirement.name for pin in read_pins(lock)], cache=cache)
        empty(folder)
        check_records(fill(), lock.name)
    make_private(folder)


def check_records(folder: Path, owner: str) -> None:
    """Compare every file with its wheel's RECORD, and see that each is in one.

    Args:
        folder: the packages, as site-packages has them.
        owner: what the error calls them: their lock.

    Raises:
        DamagedPackagesError: with the first files that differ, are missing or are in no RECORD.
    """
    expected: dict[str, str] = {}
    wrong = []
    for record in sorted(folder.glob("*.dist-info/RECORD")):
        try:
            rows = record_rows(read_text(record))
        except ValueError:  # UTF-8's too
            rows = ()
        if not rows:
            wrong.append(str(record.relative_to(folder)))
        expected.update({name: digest for name, digest, _ in rows})
    names = sorted(name for name, digest in expected.items() if digest)
    with ThreadPoolExecutor() as pool:
        actual = pool.map(lambda name: _record_hash(folder / name, expected[name]), names)
        wrong += [name for name, is_ in zip(names, actual, strict=True) if is_ != expected[name]]
    # A file that was put into the installer's cache would be imported like any other.
    wrong += sorted({str(name) for name in list_tree(folder)} - expected.keys())
    if wrong:
        raise DamagedPackagesError(
            f"{len(wrong)} files of {owner} differ from their wheels' RECORD",
            why=f"the installer's cache is damaged: {', '.join(wrong[:_SHOWN])}",
            fix="remove the folder `uv` in cuwheel's cache and run the same command again",
        )


def _record_hash(path: Path, expected: str) -> str:
    """A file's hash by the algorithm that its row names; SHA-256 where that one is too weak."""
    if not path.is_file():
        return "missing"
    named = expected.partition("=")[0]
    algorithm = named if named in STRONGER else "sha256"
    return record_digest(algorithm, bytes.fromhex(hash_of_file(path, algorithm)))
