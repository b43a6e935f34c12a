"""The declaration of a package that contains a library for each CUDA release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class LibraryPerCuda:
    """The package contains a library for each CUDA release and loads one of them if there is a GPU.

    The smoke test loads it without a GPU; `nox -s diagnose` uses this to tell which library an
    installed package will load, and whether it exists.

    Attributes:
        file: the library of a release, a path below site-packages with one of `{toolkit_tag}`
            (`130`), `{toolkit}` (`13.0`) and `{cuda}` (`13`): `pkg/libpkg_cuda{toolkit_tag}.so`.
        framework: the one whose CUDA release decides.
        variable: the environment variable that selects another release, written as in the file
            name; empty: there is none.
        without_gpu: name of the library that is loaded without a GPU; empty: none is.
        check: the module that `python -m` runs to check on a GPU whether the library works;
            empty: there is none.
        success: what that prints if it works.
        explained: entry of the failure catalogue about a missing library; empty: the general
            one.
    """

    file: str
    framework: Literal["torch", "jax", "cupy"]
    variable: str = ""
    without_gpu: str = ""
    check: str = ""
    success: str = ""
    explained: str = ""
