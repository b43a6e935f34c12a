"""The shared libraries that come with wheels on the index, not in ours: who supplies which.

The data stands in `cuwheel.cuda.nvidia_wheels`, that of what wheels of others need in
`cuwheel.cuda.foreign_wheels`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.cuda.foreign_wheels import FOREIGN_WHEELS
from cuwheel.cuda.nvidia_wheels import OTHER_WHEELS, TOOLKIT_WHEELS
from cuwheel.errors import UsageError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.cuda.nvidia_wheels import NvidiaWheel
    from cuwheel.cuda.toolkits import Toolkit


@dataclass(frozen=True, kw_only=True)
class Component:
    """A set of shared libraries that comes with a wheel on the index, not in ours.

    Attributes:
        name: as recipes write it in `Link(...)`.
        cuda: the major release of CUDA that it belongs to, as several sonames are the same in two;
            None: it goes with any.
        sonames: what `DT_NEEDED` says, as glob patterns with the major version.
        distribution: the wheel that supplies them.
        requirement: `Requires-Dist` that our wheel gets for it; `{release}` is the toolkit's,
            `{cufft}` and the like the toolkit's release of that library, `{linked}` the release of
            the supplying wheel itself, all as `major.minor`; `{framework}` is a specifier of the
            framework's releases.
        site_folder: where that wheel puts them, below site-packages.
        first_release: `{linked}` where nothing states it: the oldest release with these names that
            has a wheel, for releases 0.x the one that was read.
        conda: the conda-forge package that supplies them; empty where there is none.
        needs: sonames of other components that these libraries need themselves (`DT_NEEDED`).
        opens: sonames that they load by name while they run (`dlopen`); nothing in the file says
            so, so they can't be copied into a wheel.
        may_open: the same for what ordinary use goes without: code made at run time, several
            machines.
        lost: of the last three, what the library's own rpath doesn't lead to where wheels put it,
            so that somebody else has to load it first; with the releases of this row's wheel of
            which that is known, a version specifier.
        brings: distributions that the supplying wheel requires on Linux, with extras resolved; only
            those that every release of it does which was read.
        static: names of the toolkit's archives that hold the same code, without `lib` and `.a`, in
            the order in which a linker needs them; empty where there is none.
        source: where the row was read: file of NVIDIA's wheel, or document.
    """

    name: str
    cuda: int | None
    sonames: tuple[str, ...]
    distribution: str
    requirement: str
    site_folder: str
    first_release: str = ""
    conda: str = ""
    needs: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    may_open: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    brings: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    source: str = ""

    @property
    def releases(self) -> str:
        """The releases of the wheel that have these sonames, a specifier; empty: it isn't known.

        Wheels of NVIDIA's count as their libraries' sonames do: the upper bound of a requirement is
        the first release with other names.
        """
        found = _UPPER_BOUND.search(self.requirement)
        return f">={int(found[1]) - 1},<{found[1]}" if found else ""


# PyTorch keeps no C++ ABI between minor releases: the wheel works with the one it was built with
# (its "undefined symbol" reports are the most frequent of the field).
_TORCH = Component(
    name="torch",
    cuda=None,
    sonames=("libtorch*.so", "libc10*.so", "libcaffe2_nvrtc.so", "libshm.so"),
    distribution="torch",
    requirement="torch{framework}",
    site_folder="torch/lib",
    conda="pytorch",
    source="torch 2.11.0",
)
_MAJORS = (12, 13)
_UPPER_BOUND = re.compile(r"<(\d+)$")
_ALTERNATIVE = re.compile(r"\(([^|()]*)\|([^|()]*)\)")


def _components_of(wheel: NvidiaWheel, cuda: int) -> Iterator[Component]:
    """The rows of a wheel's libraries, for one major release of CUDA."""

    def say(text: str) -> str:
        return _ALTERNATIVE.sub(lambda found: found[_MAJORS.index(cuda) + 1], text)

    def each(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in map(say, texts) if name)

    distribution = say(wheel.name)
    for library in wheel.libraries:
        yield Component(
            name=library.name,
            cuda=cuda,
            sonames=each(library.sonames),
            distribution=distribution,
            requirement=distribution + say(wheel.bounds),
            site_folder=say(wheel.folder),
            first_release=say(wheel.first_release),
            conda=wheel.conda,
            needs=each(library.needs),
            opens=each(library.opens),
            may_open=each(library.may_open),
            lost=tuple((say(name), releases) for name, releases in library.lost if say(name)),
            brings=each(wheel.brings),
            static=library.static,
            source=f"{distribution} {say(wheel.read)}".rstrip(),
        )


COMPONENTS = (
    *(
        component
        for cuda in _MAJORS
        for wheel in (*TOOLKIT_WHEELS, *OTHER_WHEELS)
        if cuda in wheel.majors
        for component in _components_of(wheel, cuda)
    ),
    _TORCH,
)

# All of which is known who supplies them, what recipes can link first.
KNOWN_COMPONENTS = (
    *COMPONENTS,
    *(
        component
        for wheel in FOREIGN_WHEELS
        for cuda in wheel.majors
        for component in _components_of(wheel, cuda)
    ),
)


def component_by_name(name: str, cuda: int | None = None) -> Component:
    """Find a component by the name that recipes use.

    Args:
        name: as in `Link(...)`.
        cuda: the target's major release of CUDA; None: any will do.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    fitting = [found for found in COMPONENTS if fits(found, cuda)]
    for component in fitting:
        if component.name == name:
            return component
    raise UsageError(
        f'no linkable component is called "{name}"',
        why=suggest(name, {component.name for component in fitting}),
        fix="correct the recipe's `link`, or add the component to cuwheel/cuda/nvidia_wheels.py",
    )


def fits(component: Component, cuda: int | None) -> bool:
    """Whether a component goes with a major release of CUDA; None stands for all of them."""
    return cuda is None or component.cuda in {None, cuda}


def requirement_for(
    component: Component,
    toolkit: Toolkit,
    framework: str,
    releases: Mapping[str, str] | None = None,
) -> str:
    """The `Requires-Dist` line of a wheel that was linked against a component.

    Args:
        component: what it was linked against.
        toolkit: the CUDA release that it was built with.
        framework: specifier of the framework's releases, `==2.11.*`; empty without one.
        releases: of the build environment, distribution → version: the release that a library
            which is no part of the toolkit was linked against.
    """
    parts = dict(toolkit.libraries)
    installed = (releases or {}).get(component.distribution, "").split(".")
    linked = parts.get(component.name) or ".".join(installed[:2]) or component.first_release
    return component.requirement.format(
        release=toolkit.release, framework=framework, linked=linked, **parts
    )
