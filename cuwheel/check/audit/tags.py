"""The tags of a wheel: Pythons, and what manylinux tags guarantee (PEP 600, auditwheel's lists)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import Policy, WheelPolicies

if TYPE_CHECKING:
    from packaging.tags import Tag

_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
# Names before PEP 600, which defines them.
_ON_ALL = "DEBUG_MESSAGE_LENGTH"  # of GLIBCXX, which no policy lists
_OLD_GLIBC = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}  # platform tag, ELF


def policy_of(platform: str) -> Policy | None:
    """Return the policy of a platform tag; None for one that isn't manylinux."""
    machine = next((name for name in MACHINES if platform.endswith(f"_{name}")), "")
    return next((p for p in policies(machine) if platform in (p.name, *p.aliases)), None)


@cache
def policies(machine: str) -> tuple[Policy, ...]:
    """Return a machine's policies, for the oldest systems first; empty for an unknown machine."""
    if machine not in MACHINES:
        return ()
    known = WheelPolicies(libc=Libc.GLIBC, arch=Architecture(machine))
    manylinux = (policy for policy in known if policy.name.startswith("manylinux"))
    return tuple(sorted(manylinux, key=lambda policy: -policy.priority))


def is_missing(symbol: str, policy: Policy) -> bool:
    """Return True if a policy knows a symbol's family, but not its version, `GLIBC_2.34`."""
    family, _, version = symbol.partition("_")
    known = policy.symbol_versions.get(family)
    return known is not None and version not in known and version != _ON_ALL


def first_with(symbols: Iterable[str], machine: str) -> str:
    """Return the tag of the oldest systems with all of these versions; empty if none has them."""
    needed = tuple(symbols)
    return next(
        (p.name for p in policies(machine) if not any(is_missing(s, p) for s in needed)), ""
    )


def minor_of(tag: Tag) -> int | None:
    """Return 12 for `cp312-cp312` and `cp312-none`; None if a tag includes several Pythons."""
    minor = tag.interpreter.removeprefix("cp3")
    return int(minor) if minor.isdigit() and not tag.abi.startswith("abi3") else None


def oldest_minor(tags: Iterable[Tag]) -> int | None:
    """Return 10 if `cp310-abi3` has the oldest Python of the tags; None if none names one."""
    minors = (tag.interpreter.removeprefix("cp3") for tag in tags)
    return min((int(minor) for minor in minors if minor.isdigit()), default=None)


def list_tags(tags: Iterable[Tag]) -> str:
    """Return `cp312-cp312-manylinux_2_28_x86_64`; `none` if there are none."""
    return ", ".join(sorted(map(str, tags))) or "none"


def oldest_glibc(tags: Iterable[Tag]) -> str:
    """Return the oldest C library of platform tags, `2.28`; empty: none is named."""
    releases = []
    for tag in tags:
        if numbers := _GLIBC.match(tag.platform):
            releases.append((int(numbers[1]), int(numbers[2])))
        releases += [glibc for name, glibc in _OLD_GLIBC.items() if tag.platform.startswith(name)]
    return ".".join(map(str, min(releases))) if releases else ""


def describe_pythons(tags: Iterable[Tag]) -> str:
    """Return the Pythons of tags as text: `3.12`, `3.10 or newer`, `3`."""
    names = set()
    for tag in tags:
        digits = re.sub(r"\D", "", tag.interpreter)
        release = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        is_open = tag.abi.startswith("abi3") or tag.interpreter.startswith("py")
        newer = " or newer" if is_open and len(digits) > 1 else ""
        threads = " without GIL" if re.fullmatch(r"cp\d+t", tag.abi) else ""
        names.add(f"{release}{threads}{newer}")
    return ", ".join(sorted(names))
