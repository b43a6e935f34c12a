"""cuwheel: recipes that turn the source of GPU packages into CUDA wheels one can rebuild and trust.

The names exported here are the declarations that a recipe is made of.
"""

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
from cuwheel.version import __version__

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
