"""cuwheel: recipes that turn the source of GPU packages into CUDA wheels one can rebuild and trust.

The names exported here are the declarations that a recipe is made of.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cuwheel.version import __version__

if TYPE_CHECKING:
    from cuwheel.model.link import Bundled, External, Link, Static
    from cuwheel.model.recipe import (
        CMake,
        Framework,
        LibraryPerCuda,
        Recipe,
        Setuptools,
        Smoke,
        TorchExtension,
    )
    from cuwheel.model.source import Archive, Folder, GitCommit, Patch, Resource, Sdist
    from cuwheel.system.quantities import GIB, MIB

__all__ = [
    "GIB",
    "MIB",
    "Archive",
    "Bundled",
    "CMake",
    "External",
    "Folder",
    "Framework",
    "GitCommit",
    "LibraryPerCuda",
    "Link",
    "Patch",
    "Recipe",
    "Resource",
    "Sdist",
    "Setuptools",
    "Smoke",
    "Static",
    "TorchExtension",
    "__version__",
]

# Imported when a recipe asks for them: most commands read no recipe, and start sooner without.
_HOMES = {
    "cuwheel.model.link": (
        "Bundled",
        "External",
        "Link",
        "Static",
    ),
    "cuwheel.model.recipe": (
        "CMake",
        "Framework",
        "LibraryPerCuda",
        "Recipe",
        "Setuptools",
        "Smoke",
        "TorchExtension",
    ),
    "cuwheel.model.source": (
        "Archive",
        "Folder",
        "GitCommit",
        "Patch",
        "Resource",
        "Sdist",
    ),
    "cuwheel.system.quantities": (
        "GIB",
        "MIB",
    ),
}


def __getattr__(name: str) -> Any:
    """A declaration, from the module that it is in.

    Raises:
        AttributeError: there is none of this name.
    """
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(import_module(home), name)
