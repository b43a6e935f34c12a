"""A target: one recipe with one toolkit, one Python and one framework; it becomes one wheel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.recipe import Framework, Recipe
    from cuwheel.toolkits import Toolkit


@dataclass(frozen=True, kw_only=True)
class Target:
    """Everything that decides what is built; two equal targets give the same wheel.

    Attributes:
        recipe: the package.
        toolkit: the CUDA release.
        python: `3.12`.
        framework: what it is compiled against; None for packages without.
        archs: compute capabilities without dot; the recipe's unless `--arch` said otherwise.
        provider: where the toolchain comes from: `pypi`, `conda` or `system`.
        root: the project folder that the recipe was found in; its `envs/` and `patches/` apply.
        source_override: `--source`, a folder or an archive instead of the recipe's source.
    """

    recipe: Recipe
    toolkit: Toolkit
    python: str
    framework: Framework | None
    archs: tuple[str, ...]
    provider: str
    root: Path
    source_override: Path | None = None

    @property
    def id(self) -> str:
        """`causal-conv1d-130-cp312-torch2.11`: names work folders, logs and records."""
        parts = [self.recipe.name, self.toolkit.tag, f"cp{self.python.replace('.', '')}"]
        return "-".join([*parts, *([self._framework_tag] if self.framework else [])])

    @property
    def local_version(self) -> str:
        """`cu130torch2.11`, the part after `+` in the wheel's version."""
        return f"cu{self.toolkit.tag}{self._framework_tag}"

    @property
    def framework_release(self) -> str:
        """`2.11` of torch 2.11.0; empty without a framework."""
        return ".".join(self.framework.version.split(".")[:2]) if self.framework else ""

    @property
    def lock(self) -> Path:
        """The hash-pinned file that holds the build environment's packages.

        A framework other than the recipe's own has a lock of its own beside it.
        """
        own = self.recipe.framework
        folder = self.root / "envs" / "build"
        if self.framework is None or self.framework == own:
            return folder / f"{self.recipe.folder}.lock"
        suffix = f"{self.framework.name}{self.framework.version}"
        return folder / f"{self.recipe.folder}-{suffix}.lock"

    @property
    def smoke_lock(self) -> Path:
        """The lock of what the installed wheel needs; the build's where there is no other."""
        own = self.root / "envs" / "smoke" / f"{self.recipe.folder}.lock"
        return own if own.is_file() else self.lock

    @property
    def patch_folder(self) -> Path:
        """Where the recipe's patches are."""
        return self.root / "patches" / self.recipe.folder

    @property
    def ptx_archs(self) -> tuple[str, ...]:
        """The archs whose PTX is embedded too."""
        return self.archs[-1:] if self.recipe.ptx == "last" else ()

    @property
    def _framework_tag(self) -> str:
        return f"{self.framework.name}{self.framework_release}" if self.framework else ""
