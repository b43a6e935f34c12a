"""The components: shared libraries that come with wheels on the index, not with ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cuwheel.base.errors import UsageError, suggest
from cuwheel.check.cuda.foreign_wheels import FOREIGN_WHEELS
from cuwheel.check.cuda.nvidia_wheels import (
    OTHER_WHEELS,
    TOOLKIT_WHEELS,
    NvidiaWheel,
)
from cuwheel.check.cuda.toolkits import Toolkit


@dataclass(frozen=True, kw_only=True)
class Component:
    """A set of shared libraries that comes with a wheel on the index, not in ours.

    Attributes:
        name: as recipes write it in `Link(...)`.
        cuda: the major release of CUDA that it belongs to, as several sonames are the same in two;
            None: it goes with any.
        sonames: what `DT_NEEDED` says, as glob patterns with the major version.
        distribution: the wheel that supplies them, its name in normal form.
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
        bound = _UPPER_BOUND.search(self.requirement)
        return f">={int(bound[1]) - 1},<{bound[1]}" if bound else ""


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
_LOST = re.compile(r"([^<>=]+)(.*)")  # `libnvrtc.so.12>=12.8`; without a name it isn't lost
_ALTERNATIVE = re.compile(r"\(([^|()]*)\|([^|()]*)\)")


def _components_of(wheel: NvidiaWheel, cuda: int) -> Iterator[Component]:
    """Yield the components of a wheel, for one major release of CUDA."""

    def resolve(text: str) -> str:
        return _ALTERNATIVE.sub(lambda match: match[_MAJORS.index(cuda) + 1], text)

    def each(names: str) -> tuple[str, ...]:
        return tuple(name for name in map(resolve, names.split()) if name)

    distribution = resolve(wheel.name)
    for library in wheel.libraries:
        yield Component(
            name=library.name,
            cuda=cuda,
            sonames=each(library.sonames),
            distribution=distribution,
            requirement=distribution + resolve(wheel.bounds),
            site_folder=resolve(wheel.folder),
            first_release=resolve(wheel.first_release),
            conda=wheel.conda,
            needs=each(library.needs),
            opens=each(library.opens),
            may_open=each(library.may_open),
            lost=tuple((m[1], m[2]) for m in map(_LOST.match, each(library.lost)) if m),
            brings=each(wheel.brings),
            static=each(library.static),
            source=f"{distribution} {resolve(wheel.read)}".rstrip(),
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

# All components with a known supplier; those that recipes can link come first.
KNOWN_COMPONENTS = (
    *COMPONENTS,
    *(
        component
        for wheel in FOREIGN_WHEELS
        for cuda in wheel.majors
        for component in _components_of(wheel, cuda)
    ),
)


def linkable_components(cuda: int | None) -> tuple[Component, ...]:
    """Return what recipes can link; those of CUDA 11 are with third-party wheels'."""
    return COMPONENTS if cuda in {None, *_MAJORS} else KNOWN_COMPONENTS


def component_by_name(name: str, cuda: int | None = None) -> Component:
    """Return the component with the name of `Link(...)`.

    Args:
        cuda: the target's major release of CUDA; None: any.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    fitting = [component for component in linkable_components(cuda) if fits(component, cuda)]
    for component in fitting:
        if component.name == name:
            return component
    raise UsageError(
        f'no linkable component is called "{name}"',
        why=suggest(name, {component.name for component in fitting}),
        fix="correct the recipe's `link`, or add the component to "
        "cuwheel/check/cuda/nvidia_wheels.py",
    )


def fits(component: Component, cuda: int | None) -> bool:
    """Return True if a component is for a major release of CUDA; None: for any."""
    return cuda is None or component.cuda in {None, cuda}


def requirement_for(
    component: Component,
    toolkit: Toolkit,
    framework: str,
    releases: Mapping[str, str] | None = None,
) -> str:
    """Return the `Requires-Dist` line of a wheel that was linked against a component.

    Args:
        framework: specifier of the framework's releases, `==2.11.*`; empty without one.
        releases: of the build environment, distribution → version: the releases of libraries that
            aren't part of the toolkit.
    """
    parts = dict(toolkit.libraries)
    installed = (releases or {}).get(component.distribution, "").split(".")
    linked = parts.get(component.name) or ".".join(installed[:2]) or component.first_release
    return component.requirement.format(
        release=toolkit.release, framework=framework, linked=linked, **parts
    )
