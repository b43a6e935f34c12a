"""What is wrong with a wheel, by the answers of the environment that it was tried in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.cuda.driver_functions import is_driver_function
from cuwheel.cuda.suppliers import DRIVER_SONAME, component_of, is_from_driver
from cuwheel.smoke.hide_cuda import supplier_among
from cuwheel.smoke.loaded_libraries import cuda_releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.errors import SmokeError
    from cuwheel.model.target import Target
    from cuwheel.smoke.probe import SmokeAnswer


@dataclass(frozen=True, kw_only=True)
class SmokeProblem:
    """One thing that is wrong: the fact, and what to do about it."""

    fact: str
    fix: str


# What the loader or Python says → what to do; the first that is found counts.
_HINTS = {
    "undefined symbol: cu": "declare the component that defines this symbol in the recipe's `link`",
    "undefined symbol: nv": "declare the component that defines this symbol in the recipe's `link`",
    "undefined symbol": "build against the framework and toolkit that the wheel will run with",
    "GLIBC": "run the smoke test on a system that is at least as new as the wheel's platform tag",
    "No module named": "correct `imports` in the recipe's smoke, or add what is missing to the "
    "package's requirements",
    "AssertionError": "correct the package, or its smoke test in recipes/smoke",
    "cannot open shared object": "declare the library's component in the recipe's `link`, so that "
    "the wheel requires it and has an rpath to it",
}


_SYMBOL = re.compile(r"undefined symbol: (\w+)")


def find_failures(
    answer: SmokeAnswer, hidden: Iterable[Path], target: Target
) -> Iterator[SmokeProblem]:
    """What the recipe asked for and didn't work.

    Args:
        answer: of the process that did it.
        hidden: the machine's CUDA, which it didn't see.
        target: whose recipe asked.
    """
    declared = target.recipe.smoke
    if answer.failure:
        yield _problem(f"Python's output:\n    {answer.traceback}", answer, hidden)
    elif declared.expect and answer.value != declared.expect:
        yield SmokeProblem(
            fact=f"{declared.call} returns {answer.value}, not {declared.expect}",
            fix="correct the package, or `smoke` in the recipe",
        )


def crashed(library: str, error: SmokeError) -> SmokeProblem:
    """A library of the wheel that ended the interpreter when it was loaded."""
    return SmokeProblem(
        fact=f"loading {library} crashes the interpreter: {error.why}",
        fix="check what the library runs when it is loaded: its constructors have to work without "
        "a GPU",
    )


def unloadable(library: str, answer: SmokeAnswer, hidden: Iterable[Path]) -> SmokeProblem:
    """A library of the wheel that couldn't be loaded.

    Args:
        library: which.
        answer: of the process that tried.
        hidden: the machine's CUDA, which it didn't see.
    """
    return _problem(f"{library} can't be loaded: {answer.last_words}", answer, hidden)


def foreign_libraries(answer: SmokeAnswer) -> Iterator[SmokeProblem]:
    """Only the driver's own libraries may come from the machine."""
    found = [load for load in answer.loads if load.is_foreign and not is_from_driver(load.soname)]
    if found:
        files = ", ".join(f"{load.soname} is {load.path}" for load in found)
        yield SmokeProblem(
            fact=f"libraries were loaded from outside site-packages: {files}",
            fix="declare their components in the recipe's `link`, so that the wheel requires them "
            "and finds them by its rpath; now it only works on machines that happen to have them",
        )


def mixed_releases(answer: SmokeAnswer) -> Iterator[SmokeProblem]:
    """Two CUDA runtimes in a process know nothing of each other's memory and streams."""
    releases = cuda_releases(answer.loads)
    if len(releases) > 1:
        files = ", ".join(
            f"{load.soname} ({load.supplier or load.location}, loaded by "
            f"{load.requester or 'an unknown library'})"
            for loads in releases.values()
            for load in loads
        )
        yield SmokeProblem(
            fact=f"CUDA {' and '.join(releases)} are in one process: {files}",
            fix="build for the CUDA release of the framework, or lock a framework built with the "
            "wheel's",
        )


def _problem(fact: str, answer: SmokeAnswer, hidden: Iterable[Path]) -> SmokeProblem:
    """A failure; where a hidden file would have helped, it says which."""
    if answer.lacking and (file := supplier_among(hidden, answer.lacking)):
        fact += f" ({file} has it, but libraries that users may not have are hidden here)"
    return SmokeProblem(fact=fact, fix=_hint(answer.last_words))


def _hint(said: str) -> str:
    soname = said.partition(": ")[2].partition(":")[0]
    if is_from_driver(soname):
        return (
            f"{soname} belongs to NVIDIA's driver, and this machine has neither the driver nor a "
            "compiler to make a stub of it: install g++, or run this stage on a machine with the "
            "driver"
            if soname == DRIVER_SONAME
            else f"{soname} belongs to NVIDIA's driver, which only machines with a GPU have, and "
            "there is no stub of it: let the package load it on first use, not on import"
        )
    symbol = _SYMBOL.search(said)
    if symbol and is_driver_function(symbol[1]):
        return (
            f"{symbol[1]} is a function of NVIDIA's driver: link that too (`-lcuda`, CMake's "
            '`CUDA::cuda_driver`), and add "driver" to the recipe\'s `link`'
        )
    component = component_of(soname)
    if component and "cannot open shared object" in said:
        return f'declare "{component.name}" in the recipe\'s `link`'
    return next(
        (fix for sign, fix in _HINTS.items() if sign in said), "make the package importable"
    )
