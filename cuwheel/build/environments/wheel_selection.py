"""The wheels of a lock that a Python on Linux can install, as files of the indexes."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from cuwheel.base.errors import LockError
from cuwheel.base.fetch.indexes.indexes import find_wheels
from cuwheel.base.fetch.indexes.offers import IndexFile
from cuwheel.base.formats.wheel.metadata import python_tags
from cuwheel.base.system.console import Console
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.base.system.versions import plain_release
from cuwheel.build.environments.lock_file import Pin, read_pins

_PLATFORM = r"any|(manylinux\w+_|linux_)"  # and the machine
_PATCHES = ("0", "99")  # a marker can tell patch releases apart: the first and a late one


@dataclass(frozen=True, kw_only=True)
class LockedWheels:
    """A lock whose wheels are required.

    Attributes:
        releases: of Python, `3.12`.
        machine: as `uname -m` prints it; by default this one's.
    """

    lock: Path
    releases: tuple[str, ...]
    machine: str = platform.machine()

    def pins(self) -> list[Pin]:
        """Return the packages that at least one of the Pythons needs."""
        return [
            pin
            for pin in read_pins(self.lock)
            if any(self.applies(pin, release) for release in self.releases)
        ]

    def applies(self, pin: Pin, release: str) -> bool:
        """Return True if a Python on Linux needs a package."""
        if pin.requirement.marker is None:
            return True
        release = plain_release(release)
        return any(
            pin.requirement.marker.evaluate(  # on top of this machine's environment
                {
                    "implementation_name": "cpython",
                    "python_version": release,
                    "python_full_version": f"{release}.{patch}",
                    "implementation_version": f"{release}.{patch}",
                    "platform_machine": self.machine,
                }
            )
            for patch in _PATCHES
        )


def choose_wheels(
    locks: Sequence[LockedWheels],
    *,
    indexes: Iterable[str],
    console: Console,
) -> tuple[IndexFile, ...]:
    """Look up every wheel that is in a lock by its hash and fits one of its Pythons.

    Any manylinux fits, as the glibc of the machine that will install it isn't known.

    Returns:
        Each once, with its hash, sorted by name.

    Raises:
        DownloadError: no index has a package.
        LockError: packages have no wheel for one of the Pythons; all are named.
    """
    pins = [(locked, pin) for locked in locks for pin in locked.pins()]
    names = sorted({canonicalize_name(pin.requirement.name) for _, pin in pins})
    stop = Stop()
    find = partial(find_wheels, indexes=tuple(indexes), stop=stop)
    with console.live("querying the indexes") as line:
        line.show(f"{len(names)} projects")
        tasks = [partial(find, name) for name in names]
        offered = dict(zip(names, run_all(tasks, stop), strict=True))
    chosen: dict[str, IndexFile] = {}
    faults = []
    for locked, pin in pins:
        files = offered[canonicalize_name(pin.requirement.name)]
        for release in (release for release in locked.releases if locked.applies(pin, release)):
            fitting = {
                file.name: file
                for file in files
                if file.sha256 in pin.hashes and is_fitting(file.name, release, locked.machine)
            }
            chosen |= fitting
            if not fitting:
                name = str(pin.requirement).partition(";")[0].strip()
                other = "" if locked.machine == platform.machine() else f" on {locked.machine}"
                fault = f"{locked.lock.name}: {name} has none for Python {release}{other}"
                faults.append(fault)
    if faults:
        raise LockError(
            f"{len(faults)} locked packages have no matching wheel",
            why="\n".join(dict.fromkeys(faults)),
            fix="choose a Python that the lock was made for (--python 3.12), or set "
            "UV_DEFAULT_INDEX to an index that has the locked files",
        )
    return tuple(chosen[name] for name in sorted(chosen))


def is_fitting(name: str, release: str, machine: str = platform.machine()) -> bool:
    """Return True if CPython of a release, `3.12`, can install a wheel on a Linux machine."""
    try:
        _, _, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return False
    return any(
        re.fullmatch(_PLATFORM + machine, tag.platform)
        and (tag.interpreter, tag.abi) in python_tags(release)
        for tag in tags
    )
