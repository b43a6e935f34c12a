"""What a manylinux tag promises of a system: symbol versions and libraries (PEP 600).

The lists are those that auditwheel carries.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import Policy, WheelPolicies

if TYPE_CHECKING:
    from collections.abc import Iterable

MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}  # platform tag, ELF


def policy_of(platform: str) -> Policy | None:
    """The policy of a platform tag; None for one that isn't manylinux."""
    machine = next((name for name in MACHINES if platform.endswith(f"_{name}")), "")
    return next((one for one in policies(machine) if platform in (one.name, *one.aliases)), None)


@cache
def policies(machine: str) -> tuple[Policy, ...]:
    """All of a machine's, for the oldest systems first; none for a machine that isn't known."""
    if machine not in MACHINES:
        return ()
    found = WheelPolicies(libc=Libc.GLIBC, arch=Architecture(machine))
    manylinux = (one for one in found if one.name.startswith("manylinux"))
    return tuple(sorted(manylinux, key=lambda one: -one.priority))


def is_missing(symbol: str, policy: Policy) -> bool:
    """Whether its systems don't have a version, `GLIBC_2.34`; of others' nothing is known."""
    family, _, version = symbol.partition("_")
    known = policy.symbol_versions.get(family)
    return known is not None and version not in known


def first_with(symbols: Iterable[str], machine: str) -> str:
    """The tag of the oldest systems that have all of these versions; empty where none has."""
    needed = tuple(symbols)
    fitting = (
        one for one in policies(machine) if not any(is_missing(name, one) for name in needed)
    )
    return next((one.name for one in fitting), "")
