"""Which wheels of a lock a Python on Linux can install, and where the indexes have them."""

from __future__ import annotations

import functools
import itertools
import platform
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from cuwheel.errors import LockError
from cuwheel.pypi.indexes import find_wheels
from cuwheel.pypi.lock_file import read_pins
from cuwheel.system.parallel import Stop, run_all
from cuwheel.system.versions import plain_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from packaging.markers import Marker

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.pypi.indexes import IndexFile
    from cuwheel.pypi.lock_file import Pin
    from cuwheel.system.console import Console


_ANY = "any platform"  # stands in tags for the platform, which is checked by itself
_PLATFORM = r"any|(manylinux\w+_|linux_)"  # and the machine
_PATCHES = ("0", "99")  # a marker can tell patch releases apart: the first and a late one


@dataclass(frozen=True, kw_only=True)
class LockedWheels:
    """A lock whose wheels are required.

    Attributes:
        lock: requirements with hashes.
        releases: of Python, `3.12`.
        machine: which they are for, as `uname -m` says it; by default of this one's kind.
    """

    lock: Path
    releases: tuple[str, ...]
    machine: str = platform.machine()

    def pins(self) -> list[Pin]:
        """The packages that at least one of the Pythons needs."""
        return [
            pin
            for pin in read_pins(self.lock)
            if any(self.applies(pin, release) for release in self.releases)
        ]

    def applies(self, pin: Pin, release: str) -> bool:
        """Whether one of the Pythons needs a package."""
        return _applies(pin.requirement.marker, release, self.machine)


def choose_wheels(
    locks: Sequence[LockedWheels],
    *,
    indexes: Iterable[str],
    console: Console,
    retry_policy: RetryPolicy,
) -> tuple[IndexFile, ...]:
    """Look up every wheel that is in a lock by its hash and fits one of its Pythons.

    Any manylinux fits: nobody knows the glibc of the machine that will install it.

    Args:
        locks: of which packages.
        indexes: addresses of simple indexes.
        console: shows a line while it runs.
        retry_policy: how long to go on trying, for each package.

    Returns:
        Each once, with its hash, sorted by name.

    Raises:
        DownloadError: no index has a package.
        LockError: a Python that is asked for has no wheel of a package; all are named.
    """
    pins = [(locked, pin) for locked in locks for pin in locked.pins()]
    names = sorted({canonicalize_name(pin.requirement.name) for _, pin in pins})
    stop = Stop()
    addresses = tuple(indexes)
    with console.live("asking the indexes") as line:
        line.show(f"{len(names)} projects")
        find = partial(find_wheels, indexes=addresses, retry_policy=retry_policy, stop=stop)
        tasks = [partial(find, name) for name in names]
        offered = dict(zip(names, run_all(tasks, stop), strict=True))
    chosen: dict[str, IndexFile] = {}
    faults = []
    for locked, pin in pins:
        files = offered[canonicalize_name(pin.requirement.name)]
        locked_files = [file for file in files if file.sha256 in pin.hashes]
        chosen |= {file.name: file for file in _fitting(locked_files, pin, locked)}
        faults += _faults(locked_files, pin, locked)
    if faults:
        raise LockError(
            f"{len(faults)} locked packages have no matching wheel",
            why="\n".join(dict.fromkeys(faults)),
            fix="choose a Python that the lock was made for (--python 3.12), or set "
            "UV_DEFAULT_INDEX to an index that has the locked files",
        )
    return tuple(chosen[name] for name in sorted(chosen))


def _applies(marker: Marker | None, release: str, machine: str) -> bool:
    """Whether a requirement counts for a Python on Linux.

    Args:
        marker: what the requirement says behind `;`.
        release: `3.12`.
        machine: its kind.
    """
    if marker is None:
        return True
    release = plain_release(release)
    return any(
        marker.evaluate(  # on top of this machine's environment
            {
                "implementation_name": "cpython",
                "python_version": release,
                "python_full_version": f"{release}.{patch}",
                "implementation_version": f"{release}.{patch}",
                "platform_machine": machine,
            }
        )
        for patch in _PATCHES
    )


def is_fitting(name: str, release: str, machine: str = platform.machine()) -> bool:
    """Whether a wheel can be installed by CPython of a release on a Linux.

    Args:
        name: of the file.
        release: `3.12`.
        machine: its kind; by default this one's.
    """
    try:
        _, _, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return False
    return any(
        re.fullmatch(_PLATFORM + machine, tag.platform)
        and (tag.interpreter, tag.abi) in _supported_tags(release)
        for tag in tags
    )


@functools.cache
def _supported_tags(release: str) -> frozenset[tuple[str, str]]:
    """The interpreter and ABI tags of wheels that a Python takes."""
    version = tuple(map(int, plain_release(release).split(".")))
    own = f"cp{version[0]}{version[1]}"
    abi = f"cp{release.replace('.', '')}"
    tags = itertools.chain(
        cpython_tags(version, abis=[abi], platforms=[_ANY]),
        compatible_tags(version, interpreter=own, platforms=[_ANY]),
    )
    return frozenset((tag.interpreter, tag.abi) for tag in tags)


def _fitting(files: Sequence[IndexFile], pin: Pin, locked: LockedWheels) -> Iterator[IndexFile]:
    for release in locked.releases:
        if locked.applies(pin, release):
            yield from (file for file in files if is_fitting(file.name, release, locked.machine))


def _faults(files: Sequence[IndexFile], pin: Pin, locked: LockedWheels) -> list[str]:
    requirement = Requirement(str(pin.requirement))
    requirement.marker = None
    other = "" if locked.machine == platform.machine() else f" on {locked.machine}"
    return [
        f"{locked.lock.name}: {requirement} has none for Python {release}{other}"
        for release in locked.releases
        if locked.applies(pin, release)
        and not any(is_fitting(file.name, release, locked.machine) for file in files)
    ]
