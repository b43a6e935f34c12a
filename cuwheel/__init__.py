"""cuwheel: recipes that turn the source of GPU packages into CUDA wheels one can rebuild and trust.

The names exported here are the declarations that a recipe is made of.
"""

from __future__ import annotations

import os
import sys


def _put_standard_library_first() -> None:
    """Let no folder of the caller's, of PYTHONPATH or the working one, hide a module of Python.

    What is only there can still be imported. The folder of this package stays first.
    """
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    before = sys.path[: sys.path.index(library)] if library in sys.path else []
    callers = [
        entry
        for entry in before
        if os.path.abspath(entry) != own  # noqa: PTH100
        and os.path.dirname(entry) != os.path.dirname(library)  # noqa: PTH120 - its archive
    ]
    sys.path[:] = [*(entry for entry in sys.path if entry not in callers), *callers]


# As a program only: `python -m` has this name for it until its module is found.
if sys.argv[:1] == ["-m"] or os.path.basename((sys.argv or [""])[0]) == "cuwheel":  # noqa: PTH119
    _put_standard_library_first()

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from cuwheel.version import __version__  # noqa: E402

if TYPE_CHECKING:
    from cuwheel.base.system.quantities import GIB, MIB
    from cuwheel.build.recipe.link import Bundled, External, Link, Static
    from cuwheel.build.recipe.recipe import (
        CMake,
        Framework,
        Recipe,
        Setuptools,
        Smoke,
        TorchExtension,
    )
    from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Patch, Resource, Sdist
    from cuwheel.check.cuda.library_choice import LibraryPerCuda

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

# Imported on first use: most commands read no recipe, and start sooner without.
_MODULES = {
    "cuwheel.build.recipe.link": "Bundled External Link Static",
    "cuwheel.build.recipe.recipe": "CMake Framework Recipe Setuptools Smoke TorchExtension",
    "cuwheel.build.recipe.source": "Archive Folder GitCommit Patch Resource Sdist",
    "cuwheel.check.cuda.library_choice": "LibraryPerCuda",
    "cuwheel.base.system.quantities": "GIB MIB",
}


def __getattr__(name: str) -> Any:
    """Import a declaration from its module."""
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
