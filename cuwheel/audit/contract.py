"""A wheel and what it is held to: its recipe's contract, or what any wheel has to keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a wheel of a recipe has to be.

    Attributes:
        project: normalised name.
        release: version without local part; None where the source was given by hand.
        local_version: the part after `+`; empty: it has none.
        cuda: major release of CUDA.
        python: `3.12`; None where one wheel serves every Python.
        links: declared components.
        has_driver: whether the recipe declares that it links the driver.
        mode: `external`, `bundled` or `static`.
        bundles: libraries of the build machine that it may hold, `libgomp`.
        extra: the extra that brings CUDA's libraries; empty where the wheel requires them itself.
        archs: of the machine code, sorted.
        ptx_archs: of the PTX, sorted.
        is_stable: whether it may use nothing of its framework but the stable ABI.
        max_size: bytes.
    """

    project: str
    release: str | None
    local_version: str
    cuda: int
    python: str | None
    links: tuple[str, ...]
    has_driver: bool
    mode: str
    bundles: tuple[str, ...]
    extra: str
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    is_stable: bool
    max_size: int
