"""What a source says about its build, and whether an environment has it."""

from __future__ import annotations

import ast
import importlib.metadata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.system.parsed_files import read_module, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# What PEP 517 says for a project without the table.
_DEFAULT_REQUIRES = ("setuptools",)
_DEFAULT_BACKEND = "setuptools.build_meta:__legacy__"


@dataclass(frozen=True, kw_only=True)
class BuildSystem:
    """The table `build-system` of a `pyproject.toml` (PEP 517 and 518).

    Attributes:
        tree: the folder with the file.
        requires: requirements of the build.
        module: the backend's module.
        object: the backend inside of it, with dots; empty: the module itself.
        backend_path: folders in the tree where the backend may lie.
    """

    tree: Path
    requires: tuple[str, ...]
    module: str
    object: str
    backend_path: tuple[str, ...]


def read_build_system(tree: Path) -> BuildSystem:
    """Read the table; a file that is missing or can't be read gives the defaults."""
    try:
        project = read_toml(tree / "pyproject.toml")
    except (OSError, ValueError):
        project = {}
    table: dict[str, Any] = project.get("build-system", {})
    module, _, inside = str(table.get("build-backend", _DEFAULT_BACKEND)).partition(":")
    return BuildSystem(
        tree=tree,
        requires=tuple(table.get("requires", _DEFAULT_REQUIRES)),
        module=module,
        object=inside,
        backend_path=tuple(table.get("backend-path", ())),
    )


def unmet_requirements(requirements: Iterable[str], site_packages: Path) -> list[str]:
    """Those of the requirements that nothing in this folder satisfies."""
    installed: dict[str, str] = {
        canonicalize_name(found.metadata["Name"]): found.version
        for found in importlib.metadata.distributions(path=[str(site_packages)])
    }
    return [text for text in requirements if not _is_met(text, installed)]


def framework_cuda(version_file: Path) -> str | None:
    """`cuda` in PyTorch's `version.py`, without the seconds that importing torch takes."""
    try:
        tree = read_module(version_file)
    except (OSError, ValueError):
        return None
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        names = node.targets if isinstance(node, ast.Assign) else [target]
        if any(isinstance(name, ast.Name) and name.id == "cuda" for name in names):
            value = getattr(node, "value", None)
            return str(value.value) if isinstance(value, ast.Constant) else None
    return None


def _is_met(text: str, installed: Mapping[str, str]) -> bool:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        return True
    version = installed.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)
