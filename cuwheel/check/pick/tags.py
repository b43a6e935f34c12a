"""The reasons against a wheel, and those of its tags.

By the specifications "Platform compatibility tags" and "Binary distribution format", and PEP 600.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from packaging.tags import Tag, compatible_tags, cpython_tags, generic_tags

from cuwheel.base.system.versions import version_key
from cuwheel.check.pick.machine import TargetMachine

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")
_LINUX = re.compile(r"linux_(\w+)")
# Names before PEP 600, which defines their glibc.
_OLD_NAMES = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_OLD = re.compile(rf"({'|'.join(_OLD_NAMES)})_(\w+)")
_ANY = "any"
_CPYTHON = re.compile(r"cp(\d)(\d+)(\w*)")
_PYPY = re.compile(r"pp(\d)(\d*)")
Kind = Literal[
    "abi",
    "arch",
    "cuda",
    "device",
    "driver",
    "framework",
    "glibc",
    "metadata",
    "platform",
    "prerelease",
    "python",
    "string-abi",
    "yanked",
]
# The distance of a wheel from fitting: what users change easily weighs least. A framework means
# another installation, a driver another day, a GPU another machine. Another Python weighs more than
# a driver, since most releases have a wheel for each.
_WEIGHTS: dict[Kind, int] = {
    "framework": 2,
    "string-abi": 2,
    "cuda": 3,
    "driver": 5,
    "abi": 6,
    "python": 6,
    "glibc": 7,
    "prerelease": 8,
    "yanked": 8,
    "metadata": 8,
    "arch": 8,
    "device": 20,
    "platform": 40,
}


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A fact that speaks against a wheel, or that decides and isn't known.

    Attributes:
        kind: what it is about; for programs.
        text: the fact, for people.
        is_against: it speaks against the wheel; else it isn't known whether it does.
    """

    kind: Kind
    text: str
    is_against: bool = True

    @property
    def weight(self) -> int:
        """The share in the wheel's distance from fitting."""
        return _WEIGHTS[self.kind] if self.is_against else 0


def against(kind: Kind, text: str) -> Reason:
    """Return a fact that speaks against a wheel."""
    return Reason(kind=kind, text=text)


def unknown(kind: Kind, text: str) -> Reason:
    """Return a fact that decides about a wheel, and isn't known."""
    return Reason(kind=kind, text=text, is_against=False)


@dataclass(frozen=True, kw_only=True)
class TagFit:
    """The fit of a wheel's best tag: what speaks against it, or isn't known."""

    reasons: tuple[Reason, ...]
    rank: tuple[int, int]

    @property
    def fits(self) -> bool:
        """True if nothing speaks against it."""
        return not any(reason.is_against for reason in self.reasons)


def fit_tags(tags: Iterable[Tag], machine: TargetMachine) -> TagFit:
    """Return the fit of the best tag."""
    fits = (_fit(tag, machine) for tag in sorted(tags, key=str))
    return min(fits, key=lambda fit: (sum(reason.weight for reason in fit.reasons), fit.rank))


def _fit(tag: Tag, machine: TargetMachine) -> TagFit:
    reasons = (_judge_python(tag, machine), _judge_platform(tag.platform, machine))
    known = _pythons(machine.release, machine.interpreter, machine.abi)
    glibc, _ = _platform(tag.platform)
    python = known.get((tag.interpreter, tag.abi), len(known))
    oldest = -version_key(glibc)[-1] if glibc else 0
    return TagFit(reasons=tuple(filter(None, reasons)), rank=(python, oldest))


@lru_cache
def _pythons(release: tuple[int, int], interpreter: str, abi: str) -> dict[tuple[str, str], int]:
    """Return the interpreter and ABI tags of a Python with their ranks, the best first."""
    if interpreter.startswith("cp"):
        first, shared = cpython_tags(release, abis=[abi], platforms=[_ANY]), interpreter
    else:  # as in `packaging.tags.sys_tags` for PyPy
        first, shared = generic_tags(interpreter, [abi], [_ANY]), f"pp{release[0]}"
    every = itertools.chain(first, compatible_tags(release, shared, [_ANY]))
    pairs = dict.fromkeys((tag.interpreter, tag.abi) for tag in every)
    return {pair: rank for rank, pair in enumerate(pairs)}


def _judge_python(tag: Tag, machine: TargetMachine) -> Reason | None:
    pair = (tag.interpreter, tag.abi)
    if pair in _pythons(machine.release, machine.interpreter, machine.abi):
        return None
    is_own = tag.interpreter == machine.interpreter
    kind: Kind = "abi" if is_own or _is_older_abi3(tag, machine) else "python"
    name = tag.interpreter if kind == "python" and tag.abi == "none" else "-".join(pair)
    what = f"its tag {name} is for {_describe(tag)}"
    return against(kind, f"{what}, this is {machine.named_python} ({machine.abi})")


def _is_older_abi3(tag: Tag, machine: TargetMachine) -> bool:
    """Return True if the Python is new enough, but without the stable ABI: a free-threaded one."""
    match = _CPYTHON.fullmatch(tag.interpreter) if tag.abi in {"abi3", "abi3t"} else None
    return match is not None and (int(match[1]), int(match[2])) <= machine.release


def _describe(tag: Tag) -> str:
    match = _CPYTHON.fullmatch(tag.abi) or _CPYTHON.fullmatch(tag.interpreter)
    if not match:
        pypy = _PYPY.fullmatch(tag.interpreter)
        return f"PyPy {pypy[1]}{'.' * bool(pypy[2])}{pypy[2]}" if pypy else tag.interpreter
    release = f"Python {match[1]}.{match[2]}"
    if tag.abi == "abi3":
        return f"{release} or newer with GIL"
    return release + " without GIL" * ("t" in match[3])


def _judge_platform(name: str, machine: TargetMachine) -> Reason | None:
    if name == _ANY:
        return None
    glibc, architecture = _platform(name)
    named, needs = f"its tag {name}", f"it needs glibc {glibc} or newer"
    if architecture != machine.platform:
        return against("platform", f"{named} is not for Linux with glibc on {machine.platform}")
    if not glibc:
        return unknown("glibc", f"{named} guarantees no glibc: it depends on the build system")
    if not machine.glibc:  # this system has another C library, if it is this one
        other = "this has another" if machine.is_here else "that of the machine isn't known"
        return Reason(kind="glibc", text=f"{needs}, and {other}", is_against=machine.is_here)
    if version_key(machine.glibc) < version_key(glibc):
        return against("glibc", f"{needs} ({name}), this is {machine.glibc}")
    return None


def _platform(name: str) -> tuple[str, str]:
    """Return the oldest glibc and the architecture of a tag; both empty for other systems."""
    if match := _MANYLINUX.fullmatch(name):
        return f"{match[1]}.{match[2]}", match[3]
    if match := _OLD.fullmatch(name):
        return _OLD_NAMES[match[1]], match[2]
    match = _LINUX.fullmatch(name)
    return "", match[1] if match else ""
