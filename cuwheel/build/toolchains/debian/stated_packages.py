"""Debian packages as the statement of a wheel names them."""

from __future__ import annotations

from cuwheel.build.toolchains.debian.lock_file import DebianLock


def stated_packages(lock: DebianLock, machine: str) -> tuple[tuple[str, str, str, str], ...]:
    """Return kind and name, version, package URL and SHA-256 of each package for a machine.

    The URL's form: the type `deb` of the package-url specification.

    Raises:
        LockError: the lock has none for this kind of machine.
    """
    return tuple(
        (
            f"Debian package {package.name}",
            package.version,
            f"pkg:deb/debian/{package.name}@{package.version}?arch={package.architecture}",
            package.sha256,
        )
        for package in lock.packages_for(machine)
    )
