"""A target: one recipe with one toolkit, one Python and one framework; it becomes one wheel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.model.link import mode_name
from cuwheel.model.platform import Platform, own_platform
from cuwheel.model.recipe_lock import lock_of
from cuwheel.model.source import Folder

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.cuda.toolkits import Toolkit
    from cuwheel.model.link import Mode
    from cuwheel.model.recipe import Framework, Recipe
    from cuwheel.model.recipe_lock import RecipeLock
    from cuwheel.model.source import Patch


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
        mode: where the wheel finds CUDA's libraries; the recipe's unless `--link` said otherwise.
        source_override: `--source`, a folder or an archive instead of the recipe's source.
        platform: of the machines that the wheel is for.
    """

    recipe: Recipe
    toolkit: Toolkit
    python: str
    framework: Framework | None
    archs: tuple[str, ...]
    provider: str
    root: Path
    mode: Mode
    source_override: Path | None = None
    platform: Platform = field(default_factory=own_platform)

    @property
    def source_folder(self) -> Path | None:
        """The caller's folder that is built; None: the source is fetched, or an archive."""
        if self.source_override:
            return self.source_override if self.source_override.is_dir() else None
        source = self.recipe.source
        return self.root.absolute() / source.path if isinstance(source, Folder) else None

    @property
    def platform_fault(self) -> str:
        """Why there can be no wheel for its platform here, whatever is done; empty: there can."""
        if not self.platform.is_foreign:
            return ""
        if self.provider != "pypi":
            return (
                f"CUDA {self.toolkit.release} comes from {self.provider}; for "
                f"{self.platform.machine} it comes from NVIDIA's wheels, complete from 13.0 on"
            )
        return ""

    @property
    def system_packages(self) -> tuple[str, ...]:
        """What the recipe needs of the machine's system; a conda toolchain takes nothing of it.

        For another kind of machine its root folder has them.
        """
        return () if self.provider == "conda" else self.recipe.needs.get("debian", ())

    @property
    def id(self) -> str:
        """`causal-conv1d-130-cp312-torch2.11`: names work folders, logs and records."""
        parts = [self.name, f"cp{self.python.replace('.', '')}"]
        foreign = self.platform.machine if self.platform.is_foreign else ""
        other = (self._framework_tag, self._other_mode, foreign)
        return "-".join([*parts, *(tag for tag in other if tag)])

    @property
    def name(self) -> str:
        """`causal-conv1d-130`: what command lines and nox sessions call it."""
        return f"{self.recipe.name}-{self.toolkit.tag}"

    @property
    def project(self) -> str:
        """The wheel's project name: the recipe's, or `jax-finufft-cuda13x`."""
        recipe = self.recipe
        return recipe.wheel_name.format(cuda=self.toolkit.major) or recipe.name

    @property
    def extra(self) -> str:
        """The extra of the wheel that brings NVIDIA's libraries, normalised; empty without one."""
        return self._extra_named("extra")

    @property
    def local_extra(self) -> str:
        """The extra that brings none of them, normalised; empty without one."""
        return self._extra_named("local_extra")

    @property
    def local_version(self) -> str:
        """`cu130torch2.11`, the part after `+` in the wheel's version; empty for one without.

        A wheel that is linked in another mode than the recipe's, or compiled against another
        framework, always says so: `cu130.bundled`. One that serves several releases of its
        framework names none of them.
        """
        is_other = self.framework != self.recipe.framework_for(self.toolkit.release)
        built_for = f"cu{self.toolkit.tag}{'' if self.is_stable else self._framework_tag}"
        own = built_for if self.recipe.has_local_version or is_other else ""
        return ".".join(tag for tag in (own, self._other_mode) if tag)

    @property
    def is_stable(self) -> bool:
        """Whether the wheel uses nothing but the stable ABI of its framework."""
        return self.framework is not None and bool(self.framework.serves)

    @property
    def max_wheel_size(self) -> int:
        """Bytes; a larger wheel is not published."""
        return getattr(self.mode, "max_wheel_size", self.recipe.max_wheel_size)

    @property
    def locked_build(self) -> RecipeLock:
        """What the build environment's lock is made from."""
        return lock_of(self.recipe, "build", self.toolkit.major, self.framework)

    @property
    def locked_smoke(self) -> RecipeLock:
        """What the lock of the smoke test is made from; the build's where there is no other."""
        return lock_of(self.recipe, "smoke", self.toolkit.major, self.framework)

    @property
    def lock(self) -> Path:
        """The hash-pinned file that holds the build environment's packages."""
        return self.root / self.locked_build.path

    @property
    def smoke_lock(self) -> Path:
        """The hash-pinned file that holds what the installed wheel needs."""
        return self.root / self.locked_smoke.path

    @property
    def served(self) -> tuple[Target, ...]:
        """The same wheel beside each other release of its framework that it serves."""
        others = self.framework.served if self.framework else ()
        return tuple(replace(self, framework=other) for other in others)

    @property
    def patch_folder(self) -> Path:
        """Where the recipe's patches are."""
        return self.root / "patches" / self.recipe.folder

    @property
    def patches(self) -> tuple[Patch, ...]:
        """The recipe's patches that are for this CUDA release."""
        release = self.toolkit.release
        return tuple(
            one for one in self.recipe.patches if not one.toolkits or release in one.toolkits
        )

    @property
    def smoke_script(self) -> Path | None:
        """The recipe's longer smoke test; None: it has none."""
        script = self.recipe.smoke.script
        return self.root / "recipes" / "smoke" / script if script else None

    @property
    def ptx_archs(self) -> tuple[str, ...]:
        """The archs whose PTX is embedded too: that of `90a` or `100f` serves no newer GPU."""
        plain = tuple(arch for arch in self.archs if arch.isdigit())
        return plain[-1:] if self.recipe.ptx == "last" else ()

    def _extra_named(self, field: str) -> str:
        text = getattr(self.mode, field, "").format(cuda=self.toolkit.major)
        return re.sub(r"[-_.]+", "-", text).lower()  # PEP 685

    @property
    def _other_mode(self) -> str:
        name = mode_name(self.mode)
        return "" if name == mode_name(self.recipe.link.mode) else name

    @property
    def _framework_tag(self) -> str:
        """`torch2.11` of torch 2.11.0; empty without a framework."""
        if self.framework is None:
            return ""
        return self.framework.name + ".".join(self.framework.version.split(".")[:2])


def declared_target(recipe: Recipe, release: str, python: str, root: Path) -> Target:
    """What a recipe declares for a toolkit, with no option of a command line.

    Args:
        recipe: the package.
        release: of the toolkit, `13.0` or `130`.
        python: `3.12`.
        root: the recipe's project folder.

    Raises:
        UsageError: there is no such toolkit.
    """
    toolkit = toolkit_by_release(release)
    return Target(
        recipe=recipe,
        toolkit=toolkit,
        python=python,
        framework=recipe.framework_for(toolkit.release),
        archs=recipe.archs_for(toolkit.release),
        provider=toolkit.provider,
        root=root,
        mode=recipe.link.mode,
    )
