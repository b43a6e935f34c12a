"""cuwheel: recipes that turn the source of GPU packages into CUDA wheels one can rebuild and trust.

The names exported here are the declarations that a recipe is made of.
"""

from cuwheel.model.recipe import (
    GIB,
    MIB,
    Archive,
    Bundled,
    CMake,
    External,
    Folder,
    Framework,
    GitCommit,
    Link,
    Patch,
    Recipe,
    Resource,
    Sdist,
    Setuptools,
    Smoke,
    Static,
    TorchExtension,
)
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
