"""Whether a wheel's tags fit a machine, and what of them doesn't.

The specifications "Platform compatibility tags" and "Binary distribution format", PEP 600.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.tags import compatible_tags, cpython_tags, generic_tags

from cuwheel.pick.reason import Reason
from cuwheel.system.versions import version_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.tags import Tag

    from cuwheel.pick.machine import TargetMachine
    from cuwheel.pick.reason import Kind

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")
_LINUX = re.compile(r"linux_(\w+)")
# Names of the time before PEP 600, which says what they stand for.
_OLD_NAMES = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_OLD = re.compile(rf"({'|'.join(_OLD_NAMES)})_(\w+)")
_ANY = "any"
_CPYTHON = re.compile(r"cp(\d)(\d+)(\w*)")
_PYPY = re.compile(r"pp(\d)(\d*)")


@dataclass(frozen=True, kw_only=True)
class TagFit:
    """How a wheel's tags fit.

    Attributes:
        reasons: why they don't.
        unknown: what decides and isn't known of the machine, or isn't promised.
        rank: installers take the wheel with the lowest.
    """

    reasons: tuple[Reason, ...] = ()
    unknown: tuple[Reason, ...] = ()
    rank: tuple[int, int] = (0, 0)


def fit_tags(tags: Iterable[Tag], machine: TargetMachine) -> TagFit:
    """Judge a wheel by the best of its tags."""
    fits = (_fit(tag, machine) for tag in sorted(tags, key=str))
    return min(fits, key=lambda fit: (sum(one.weight for one in fit.reasons), fit.rank))


def _fit(tag: Tag, machine: TargetMachine) -> TagFit:
    python, platform = _judge_python(tag, machine), _judge_platform(tag.platform, machine)
    found = [one for one in (python, platform) if one]
    known = _pythons(machine.release, machine.interpreter, machine.abi)
    return TagFit(
        reasons=tuple(one for one in found if one.is_against),
        unknown=tuple(one for one in found if not one.is_against),
        rank=(known.get((tag.interpreter, tag.abi), len(known)), -_glibc_rank(tag.platform)),
    )


@lru_cache
def _pythons(release: tuple[int, int], own: str, abi: str) -> dict[tuple[str, str], int]:
    """Interpreter and ABI tags that a Python takes, the best first."""
    if own.startswith("cp"):
        first, shared = cpython_tags(release, abis=[abi], platforms=[_ANY]), own
    else:  # as `packaging.tags.sys_tags` has it for PyPy
        first, shared = generic_tags(own, [abi], [_ANY]), f"pp{release[0]}"
    every = itertools.chain(first, compatible_tags(release, shared, [_ANY]))
    pairs = dict.fromkeys((tag.interpreter, tag.abi) for tag in every)
    return {pair: rank for rank, pair in enumerate(pairs)}


def _judge_python(tag: Tag, machine: TargetMachine) -> Reason | None:
    pair = (tag.interpreter, tag.abi)
    if pair in _pythons(machine.release, machine.interpreter, machine.abi):
        return None
    is_own = tag.interpreter == machine.interpreter
    kind: Kind = "abi" if is_own or _is_older_abi3(tag, machine) else "python"
    named = tag.interpreter if kind == "python" and tag.abi == "none" else "-".join(pair)
    what = f"its tag {named} is for {_describe(tag)}"
    return Reason(kind=kind, text=f"{what}, this is {machine.named_python} ({machine.abi})")


def _is_older_abi3(tag: Tag, machine: TargetMachine) -> bool:
    """Whether the Python is new enough, and lacks the stable ABI: the free-threaded one does."""
    found = _CPYTHON.fullmatch(tag.interpreter) if tag.abi in {"abi3", "abi3t"} else None
    return found is not None and (int(found[1]), int(found[2])) <= machine.release


def _describe(tag: Tag) -> str:
    found = _CPYTHON.fullmatch(tag.abi) or _CPYTHON.fullmatch(tag.interpreter)
    if not found:
        pypy = _PYPY.fullmatch(tag.interpreter)
        return f"PyPy {pypy[1]}{'.' * bool(pypy[2])}{pypy[2]}" if pypy else tag.interpreter
    release = f"Python {found[1]}.{found[2]}"
    if tag.abi in {"abi3", "none"}:
        return f"{release} or newer" + " with GIL" * (tag.abi == "abi3")
    return release + " without GIL" * ("t" in found[3])


def _judge_platform(name: str, machine: TargetMachine) -> Reason | None:
    if name == _ANY:
        return None
    glibc, architecture = _platform(name)
    if architecture != machine.platform:
        text = f"its tag {name} is not for Linux with glibc on {machine.platform}"
        return Reason(kind="platform", text=text)
    if not glibc:
        text = f"its tag {name} guarantees no glibc: it depends on the build system"
        return Reason(kind="glibc", text=text, is_against=False)
    if not machine.glibc:  # a system that was asked has another C library
        whose = "this has another" if machine.is_here else "that of the machine isn't known"
        text = f"it needs glibc {glibc} or newer, and {whose}"
        return Reason(kind="glibc", text=text, is_against=machine.is_here)
    if version_key(machine.glibc) < version_key(glibc):
        text = f"it needs glibc {glibc} or newer ({name}), this is {machine.glibc}"
        return Reason(kind="glibc", text=text)
    return None


def _platform(name: str) -> tuple[str, str]:
    """The oldest glibc and the architecture of a tag; nothing for other systems."""
    if found := _MANYLINUX.fullmatch(name):
        return f"{found[1]}.{found[2]}", found[3]
    if found := _OLD.fullmatch(name):
        return _OLD_NAMES[found[1]], found[2]
    found = _LINUX.fullmatch(name)
    return "", found[1] if found else ""


def _glibc_rank(name: str) -> int:
    glibc, _ = _platform(name)
    return version_key(glibc)[-1] if glibc else 0
