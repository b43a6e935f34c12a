"""cuwheel: recipes that turn the source of GPU packages into CUDA wheels one can rebuild and trust.

The names exported here are the declarations that a recipe is made of.
"""

from cuwheel.recipe import (
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

__all__ = [
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
]

__version__ = "0.1.0"
