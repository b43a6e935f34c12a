"""The declarations of what a wheel links, and where it finds the libraries when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cuwheel.base.system.quantities import GIB


@dataclass(frozen=True, kw_only=True)
class External:
    """The libraries stay in NVIDIA's own wheels, and the wheel finds them there.

    Attributes:
        search: `runpath`: `DT_RUNPATH`, which is searched after `LD_LIBRARY_PATH`; `rpath`:
            `DT_RPATH`, which is searched before that variable, and also applies to libraries
            loaded in turn that have no `DT_RUNPATH` of their own (NVIDIA's have one).
        extra: the extra that installs the NVIDIA wheels, `{cuda}` is the major release of CUDA
            (`cuda{cuda}`, `cuda-pip`); empty: the wheel requires them itself.
        local_extra: an extra that installs none, for users whose CUDA is on the machine; only with
            `extra`.
    """

    search: Literal["runpath", "rpath"] = "runpath"
    extra: str = ""
    local_extra: str = ""


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """The libraries are copied into the wheel, by auditwheel.

    Attributes:
        max_wheel_size: bytes; replaces the recipe's.
    """

    max_wheel_size: int = 1 * GIB


@dataclass(frozen=True, kw_only=True)
class Static:
    """The libraries are linked statically, from the toolkit's `lib…_static.a`.

    Attributes:
        max_wheel_size: bytes; replaces the recipe's.
    """

    max_wheel_size: int = 1 * GIB


Mode = External | Bundled | Static
MODES: Mapping[str, type[Mode]] = {
    "external": External,
    "bundled": Bundled,
    "static": Static,
}


def mode_name(mode: Mode) -> str:
    """Return `external`, `bundled` or `static`, as `--link` names it."""
    return next(name for name, kind in MODES.items() if isinstance(mode, kind))


DRIVER = "driver"  # in `Link`: libraries of the machine's own NVIDIA driver


class Link:
    """The shared libraries of CUDA and of frameworks that the wheel uses.

    Args:
        names: of components, from `cuwheel.check.cuda.components.COMPONENTS` (`cudart`, `cublas`,
            `torch`, …), and `driver` for `libcuda.so.1`, which comes with the machine's driver: no
            wheel can contain it, so the wheel can't be loaded on a machine without a driver.
        mode: where CUDA's libraries are when the wheel runs; a framework's stay in its own wheel.
        bundles: system libraries that are copied into the wheel because few systems have them:
            `libgomp`, without the rest of the file name. All others are refused. Their licences
            belong in the recipe's `license`.

    Attributes:
        components: the names without `driver`.
        has_driver: whether that is among them.
    """

    def __init__(self, *names: str, mode: Mode = External(), bundles: tuple[str, ...] = ()) -> None:
        self.names = names
        self.mode = mode
        self.bundles = bundles
        self.components = tuple(name for name in names if name != DRIVER)
        self.has_driver = DRIVER in names

    def __eq__(self, other: object) -> bool:
        """Compare names, their order, mode and bundles."""
        return isinstance(other, Link) and repr(self) == repr(other)

    def __hash__(self) -> int:
        """Hash the names."""
        return hash(self.names)

    def __repr__(self) -> str:
        """Return the text of a recipe; it is part of the rebuild key, so it has to be stable."""
        bundles = f", bundles={self.bundles!r}" if self.bundles else ""
        return f"Link({', '.join(map(repr, self.names))}, mode={self.mode!r}{bundles})"
