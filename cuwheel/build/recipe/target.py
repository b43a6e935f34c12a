"""The target: one recipe with one toolkit, one Python and one framework; it becomes one wheel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from cuwheel.build.recipe.link import Mode, mode_name
from cuwheel.build.recipe.platform import Platform, own_platform
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.recipe_lock import RecipeLock, lock_of
from cuwheel.build.recipe.source import Folder, Patch
from cuwheel.check.cuda.toolkits import Toolkit, toolkit_by_release

_GCC_10, _GCC_12 = 10, 12  # the pinned compilers' major releases


@dataclass(frozen=True, kw_only=True)
class Target:
    """The choices that decide what is built; two equal targets give the same wheel.

    Attributes:
        python: `3.12`.
        framework: that it is compiled against; None for packages without.
        archs: compute capabilities without dot, the recipe's or those of `--arch`.
        provider: of the toolchain: `pypi`, `debian`, `conda`, `redist` or `system`.
        host_compiler: `system`, or a pinned one, `gcc10`; with a conda toolchain, which has its
            own, always `system`.
        root: the project folder of the recipe; its `envs/` and `patches/` apply.
        mode: where the wheel finds CUDA's libraries, the recipe's or that of `--link`.
        source_override: of `--source`, a folder or an archive instead of the recipe's source.
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
    host_compiler: str = "system"

    @property
    def source_folder(self) -> Path | None:
        """The caller's folder that is built; None: the source is fetched, or an archive."""
        if self.source_override:
            return self.source_override if self.source_override.is_dir() else None
        source = self.recipe.source
        return self.root.absolute() / source.path if isinstance(source, Folder) else None

    @property
    def platform_fault(self) -> str:
        """The reason why no wheel for its platform can be built here; empty: one can."""
        if not self.platform.is_foreign or self.provider in {"pypi", "redist"}:
            return ""
        return (
            f"CUDA {self.toolkit.release} comes from {self.provider}; for {self.platform.machine} "
            "it comes from NVIDIA's wheels, complete from 13.0 on, or from its archives"
        )

    @property
    def usual_compiler(self) -> str:
        """The host compiler unless an option chooses another: `gcc10`, `gcc12` or `system`.

        GCC 12 is the one for newer C++, with an nvcc that takes it.
        """
        if self.provider == "conda" or self.platform.is_foreign:
            return "system"
        oldest = max(self.recipe.oldest_gcc, self.framework.oldest_gcc if self.framework else 0)
        return "gcc12" if oldest > _GCC_10 and self.toolkit.max_gcc >= _GCC_12 else "gcc10"

    @property
    def cxx_standard(self) -> str:
        """The oldest C++ standard that the launcher lets compilers use, `20`; empty: any."""
        return self.recipe.cxx_standard_for(self.framework)

    @property
    def is_compiler_pinned(self) -> bool:
        """True if the host compiler comes from a lock of Debian packages."""
        return self.host_compiler != "system"

    @property
    def has_own_compiler(self) -> bool:
        """True if a lock determines compiler, binutils and C library, not the machine."""
        return self.provider == "conda" or self.is_compiler_pinned

    @property
    def system_packages(self) -> tuple[str, ...]:
        """The machine's Debian packages that the recipe needs; none with a compiler of a lock.

        For another kind of machine they are in its root folder.
        """
        return () if self.has_own_compiler else self.recipe.needs.get("debian", ())

    @property
    def id(self) -> str:
        """The name of work folders, logs and records: `causal-conv1d-130-cp312-torch2.11`."""
        parts = [self.name, f"cp{self.python.replace('.', '')}"]
        foreign = self.platform.machine if self.platform.is_foreign else ""
        other = (self.framework_tag, self._other_mode, foreign)
        return "-".join([*parts, *(tag for tag in other if tag)])

    @property
    def name(self) -> str:
        """The name on command lines and in nox sessions: `causal-conv1d-130`."""
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
        """The part after `+` in the wheel's version, `cu130torch2.11`; empty for one without.

        It always names another mode of linking, or another framework, than the recipe's:
        `cu130.bundled`. A wheel that serves several releases of its framework names none of them.
        """
        is_other = self.framework != self.recipe.framework_for(self.toolkit.release)
        tag = f"cu{self.toolkit.tag}{'' if self.is_stable else self.framework_tag}"
        shown = tag if self.recipe.has_local_version or is_other else ""
        return ".".join(filter(None, (shown, self._other_mode)))

    @property
    def is_stable(self) -> bool:
        """True if the wheel uses nothing but the stable ABI of its framework."""
        return self.framework is not None and bool(self.framework.serves)

    @property
    def max_wheel_size(self) -> int:
        """The largest size of a wheel that is published, in bytes."""
        return getattr(self.mode, "max_wheel_size", self.recipe.max_wheel_size)

    @property
    def locked_build(self) -> RecipeLock:
        """The declaration of the build environment's lock."""
        return lock_of(self.recipe, "build", self.toolkit.major, self.framework)

    @property
    def locked_smoke(self) -> RecipeLock:
        """The declaration of the smoke test's lock; the build's where there is no other."""
        return lock_of(self.recipe, "smoke", self.toolkit.major, self.framework)

    @property
    def lock(self) -> Path:
        """The hash-pinned file with the build environment's packages."""
        return self.root / self.locked_build.path

    @property
    def smoke_lock(self) -> Path:
        """The hash-pinned file with the installed wheel's requirements."""
        return self.root / self.locked_smoke.path

    @property
    def served(self) -> tuple[Target, ...]:
        """The targets of the same wheel with each other release of its framework that it serves."""
        others = self.framework.served if self.framework else ()
        return tuple(replace(self, framework=other) for other in others)

    @property
    def patch_folder(self) -> Path:
        """The folder of the recipe's patches."""
        return self.root / "patches" / self.recipe.folder

    @property
    def patches(self) -> tuple[Patch, ...]:
        """The recipe's patches that are for this CUDA release."""
        release = self.toolkit.release
        return tuple(
            patch
            for patch in self.recipe.patches
            if not patch.toolkits or release in patch.toolkits
        )

    @property
    def smoke_script(self) -> Path | None:
        """The recipe's longer smoke test; None: it has none."""
        script = self.recipe.smoke.script
        return self.root / "recipes" / "smoke" / script if script else None

    @property
    def ptx_archs(self) -> tuple[str, ...]:
        """The archs with embedded PTX: that of `90a` or `100f` serves no newer GPU."""
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
    def framework_tag(self) -> str:
        """The framework in names, `torch2.11` for torch 2.11.0; empty without one."""
        if self.framework is None:
            return ""
        return self.framework.name + ".".join(self.framework.version.split(".")[:2])


def declared_target(recipe: Recipe, release: str, python: str, root: Path) -> Target:
    """Return the target that a recipe declares for a toolkit.

    Args:
        release: of the toolkit, `13.0` or `130`.
        python: `3.12`.

    Raises:
        UsageError: there is no such toolkit.
    """
    toolkit = toolkit_by_release(release)
    target = Target(
        recipe=recipe,
        toolkit=toolkit,
        python=python,
        framework=recipe.framework_for(toolkit.release),
        archs=recipe.archs_for(toolkit.release),
        provider=toolkit.provider,
        root=root,
        mode=recipe.link.mode,
    )
    return replace(target, host_compiler=target.usual_compiler)
