"""The declarations that a recipe is made of. Data only: standard library, no behaviour.

A recipe is one module in `recipes/` that contains `RECIPE = Recipe(...)` and nothing else. Strings
in `env` and `define` may contain these placeholders, filled in for each target (`{{` is a brace):

- `{archs}`: `80;90`;
- `{cmake_archs}`: `80-real;90`, for `CMAKE_CUDA_ARCHITECTURES`;
- `{torch_archs}`: `8.0;9.0`, for PyTorch's `TORCH_CUDA_ARCH_LIST`;
- `{gencode}`: `-gencode=arch=compute_80,code=sm_80 …`, for nvcc;
- `{jobs}`: how many compiles may run at once;
- `{toolkit}` and `{toolkit_tag}`: `13.0` and `130`;
- `{cuda_home}`: the toolchain's folder;
- `{link_flags}`: linker options for the components in `link`:
  `-L… -l:libcufft.so.12 -l:libcudart.so.13`, or the static libraries in mode `Static`;
- `{link_includes}`: `-I…` for each folder with their headers;
- `{resources}`: the folder with the recipe's resources;
- `{site_packages}`: where the build environment has its packages;
- `{version}`: the recipe's version.

A value of `env` or `define` may differ by CUDA release, `{"12.1": "…", "13.0": "…"}`: for a release
without an entry the variable isn't set.

`{version}` has the same meaning in a source, so that the version is written only once. In
requirements, in `wheel_name` and in the names of extras, `{cuda}` is the major release of CUDA.
Sizes are in bytes: `60 * MIB`, `4 * GIB`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from cuwheel.base.system.quantities import GIB, MIB
from cuwheel.base.system.versions import version_key
from cuwheel.build.recipe.source import Archive, Patch, Resource, Sdist, Source

if TYPE_CHECKING:
    from cuwheel.build.recipe.link import Link
    from cuwheel.check.cuda.library_choice import LibraryPerCuda

PLACEHOLDERS = (
    "archs",
    "cmake_archs",
    "cuda_home",
    "gencode",
    "jobs",
    "link_flags",
    "link_includes",
    "resources",
    "site_packages",
    "toolkit",
    "toolkit_tag",
    "torch_archs",
    "version",
)
RELEASE_PLACEHOLDERS = ("cuda", "toolkit", "toolkit_tag")  # one of them in `LibraryPerCuda.file`
CUDA_PLACEHOLDERS = ("cuda",)  # those in requirements, `Recipe.wheel_name` and `External`'s extras
CXX_STANDARDS = ("14", "17", "20")  # nvcc's documentation, option --std
NEEDS = ("debian", "conda")  # where `Recipe.needs` may come from

# Frameworks by name and first release. torch: from 2.13 on `cpp_flag` in its cpp_extension.py is
# -std=c++20, of which GCC 10 has a part (GCC's manual, "C++ Standards Support").
_OLDEST_GCC = (("torch", "2.13", 11),)

Settings = Mapping[str, str | Mapping[str, str]]  # name → text, or text by CUDA release


@dataclass(frozen=True, kw_only=True)
class Framework:
    """A Python package whose C++ interface the wheel is compiled against.

    Attributes:
        name: its distribution name, e.g. `torch`.
        version: the release in the recipe's lock, e.g. `2.11.0`, or `2.14.0+cu126` for another CUDA
            than that of the public index.
        serves: other releases that the same wheel works with, because it uses only the framework's
            stable ABI (`TORCH_STABLE_ONLY`): its version then names no framework, it requires the
            oldest of them or newer, and the smoke test tests it with each.
    """

    name: str
    version: str
    serves: tuple[str, ...] = field(default=(), compare=False)

    @property
    def served(self) -> tuple[Framework, ...]:
        """The frameworks of `serves`."""
        return tuple(Framework(name=self.name, version=version) for version in self.serves)

    @property
    def specifier(self) -> str:
        """The releases that the wheel works with: `==2.11.*`, or `>=2.11` with a stable ABI.

        Of a CUDA line only this very one: the public index has it for another CUDA.
        """
        if "+" in self.version:
            return f"=={self.version}"
        release = min(
            (version.split(".")[:2] for version in (self.version, *self.serves)),
            key=lambda parts: [int(part) for part in parts],
        )
        return f">={'.'.join(release)}" if self.serves else f"=={'.'.join(release)}.*"

    @property
    def oldest_gcc(self) -> int:
        """The oldest major release of GCC that compiles against it; 0: not known."""
        return next(
            (
                gcc
                for name, since, gcc in _OLDEST_GCC
                if name == self.name and version_key(self.version) >= version_key(since)
            ),
            0,
        )

    @property
    def pin(self) -> str:
        """The requirement of this very release, `torch==2.11.0`."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, kw_only=True)
class Smoke:
    """The smoke test: what a working installation can do without a GPU.

    Attributes:
        imports: modules to import, at least one. Each library of the wheel that they don't load
            is loaded afterwards, in a process of its own.
        requires: what the installed wheel needs and its build doesn't, with `{cuda}`: it has a
            separate lock, which also contains the wheels that supply `link`; empty: the build's
            lock has everything.
        call: an expression to evaluate after `import` of the first module, e.g. `pkg.add(1, 2)`.
        expect: `repr()` of the value that `call` has to return.
        script: a longer test, the name of a file in `recipes/smoke/`: it runs after that, in the
            same interpreter, where only the wheel and its requirements are installed; it fails by
            raising an exception, as `assert` does.
    """

    imports: tuple[str, ...]
    requires: tuple[str, ...] = ()
    call: str = ""
    expect: str = ""
    script: str = ""


@dataclass(frozen=True, kw_only=True)
class TorchExtension:
    """A setuptools build with PyTorch's `BuildExtension`.

    The engine sets what PyTorch itself reads: `TORCH_CUDA_ARCH_LIST`, `MAX_JOBS`, `CUDA_HOME`.

    Attributes:
        env: more variables for the package's own setup.py.
    """

    env: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Setuptools:
    """A setuptools build that calls nvcc itself.

    Attributes:
        env: variables for the package's setup.py, with placeholders.
    """

    env: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CMake:
    """A CMake build, most often through scikit-build-core.

    The engine sets `CMAKE_CUDA_ARCHITECTURES`, the compilers, the generator (Ninja) and the jobs.

    Attributes:
        install: True: the engine runs CMake's configure, build and install itself before the
            package's Python build, which only packages what CMake installed into the source.
        define: CMake cache variables, with placeholders.
        env: more variables, with placeholders.
    """

    define: Settings = field(default_factory=dict)
    env: Settings = field(default_factory=dict)
    install: bool = False


Build = TorchExtension | Setuptools | CMake


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one package becomes CUDA wheels; write the fields in this order.

    Attributes:
        name: the recipe's name in sessions: lower case, words joined by `-`.
        version: upstream's release.
        license: SPDX expression: the package's own licence, and those of what is built into it.
        homepage: upstream's page, `https://…`.
        maintainers: handles of the recipe's maintainers.
        held_back: why the recipe stays at its releases of upstream and framework although there
            are newer ones: `nox -s outdated` lists it separately, with this reason; empty: it
            follows them.
        source: where the source comes from.
        toolkits: CUDA releases to build with, e.g. `("13.0",)`.
        never_built: those of them with which no wheel has been built yet from upstream's own source
            and the toolchain's own files, because one of the two was not available: `nox -l` marks
            them.
        archs: compute capabilities without dot, e.g. `("80", "90")`, also those of one GPU or of
            one family (`90a`, `100f`); or by CUDA release, `{"12.4": ("70", "90"), "12.8": ("90",
            "100")}`, because older releases don't support newer GPUs and vice versa; empty: the
            wheel has no device code of its own. docs/reference/toolkits.md lists them all.
        ptx: `last` also embeds PTX of the last plain arch, so that newer GPUs can run it; `none`
            doesn't.
        python: `each`: one wheel for each Python (uses the C API); `abi3`: one wheel, built with
            the oldest of `requires_python`, also works with all later ones (uses only the stable
            ABI); `any`: one wheel works with all.
        requires_python: the Pythons that the recipe's locks are solved for, e.g. `>=3.10`.
        framework: what the wheel is compiled against, if anything; or by CUDA release, `{"13.0":
            Framework(…), "13.2": Framework(…)}`, because each release of a framework is built with
            one.
        wheel_name: the wheel's project name if it isn't the recipe's, `{cuda}` is the major
            release of CUDA: `jax-finufft-cuda{cuda}x`, as CuPy does.
        has_local_version: whether the wheel's version says what it was built for
            (`1.3.1+cu130`). PyPI doesn't accept such versions.
        patches: applied in this order.
        resources: what the build would otherwise download.
        requires: what the build environment contains besides the frontend and the framework: the
            `[build-system]` requirements of the source, and what else the build needs. If one
            contains `{cuda}`, there is a lock for each major release of CUDA, because packages for
            two of them often share a folder.
        needs: packages that the build needs besides these and its compiler, by their source:
            `debian`, installed on the machine, or in the root folder of another kind of machine;
            `conda`, in a conda toolchain, which uses nothing of the machine.
        oldest_gcc: the oldest major release of GCC that compiles the package, where the pinned
            GCC 10 is too old; 0: no such limit.
        cxx_standard: the C++ that the package is compiled with where its own build names an older
            one or none: `"20"`; or from a release of the framework on, `{"torch>=2.14": "20"}`. The
            launcher of the compilers changes `-std=`, so no patch is needed.
        build: the build system and its settings.
        link: external libraries.
        libstdcxx: `shared`: the wheel uses the system's C++ runtime, which is required if C++
            objects are passed to the framework (PyTorch); `static`: its libraries contain their
            own, which lets a wheel built with a new GCC run on old systems.
        smoke: how to test that the wheel works.
        references: SHA-256 of the wheel with which each release is compared, besides the last one,
            by CUDA release: `{"13.0": "…"}`.
        upstream_tests: files and folders of tests in the source for `perf -- --upstream-tests`.
        leave_out: files of the built wheel that are left out of the published one, as patterns of
            their names (`tests/*`: `*` also matches `/`).
        library_per_cuda: how the package chooses among its libraries, if it has several.
        memory_per_job: peak memory of one compile in bytes, for the first build; later builds use
            the measured values.
        disk: bytes that a build needs in the work folder.
        max_wheel_size: bytes; a larger wheel is not published.
    """

    name: str
    version: str
    license: str
    homepage: str
    maintainers: tuple[str, ...]
    held_back: str = field(default="", compare=False)
    source: Source
    toolkits: tuple[str, ...]
    never_built: tuple[str, ...] = field(default=(), compare=False)
    archs: tuple[str, ...] | Mapping[str, tuple[str, ...]]
    ptx: Literal["none", "last"] = "none"
    python: Literal["each", "abi3", "any"] = "each"
    requires_python: str = ">=3.10"
    framework: Framework | Mapping[str, Framework] | None = None
    wheel_name: str = ""
    has_local_version: bool = True
    patches: tuple[Patch, ...] = ()
    resources: tuple[Resource, ...] = ()
    requires: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    oldest_gcc: int = 0
    # Only what applies to a target is in its rebuild key.
    cxx_standard: str | Mapping[str, str] = field(default="", compare=False)
    build: Build
    link: Link
    libstdcxx: Literal["shared", "static"] = "shared"
    smoke: Smoke
    references: Mapping[str, str] = field(default_factory=dict, compare=False)
    upstream_tests: tuple[str, ...] = field(default=(), compare=False)
    leave_out: tuple[str, ...] = ()
    library_per_cuda: LibraryPerCuda | None = None
    memory_per_job: int = 2 * GIB
    disk: int = 2 * GIB
    max_wheel_size: int = 100 * MIB

    @property
    def oldest_python(self) -> str:
        """The oldest Python that it is for: `3.10`."""
        first = self.requires_python.removeprefix(">=").split(",")[0]
        return ".".join(first.split(".")[:2])

    @property
    def folder(self) -> str:
        """Name of the recipe's module, locks and patch folder: `causal_conv1d`."""
        return self.name.replace("-", "_")

    @property
    def module(self) -> str:
        """The path of its module in the project folder: `recipes/causal_conv1d.py`."""
        return f"recipes/{self.folder}.py"

    @property
    def filled_source(self) -> Source:
        """The `source` with the recipe's version in place of `{version}`."""
        if isinstance(self.source, Sdist):
            version = self.source.version.replace("{version}", self.version)
            return replace(self.source, version=version)
        if isinstance(self.source, Archive):
            return replace(self.source, url=self.source.url.replace("{version}", self.version))
        return self.source

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """The releases that `framework` names, each once."""
        if isinstance(self.framework, Framework):
            return (self.framework,)
        return tuple(dict.fromkeys((self.framework or {}).values()))

    def framework_for(self, release: str) -> Framework | None:
        """Return the `framework` of one CUDA release (`12.8`); None: it names none for it."""
        if isinstance(self.framework, Mapping):
            return self.framework.get(release)
        return self.framework

    def cxx_standard_for(self, framework: Framework | None) -> str:
        """Return the `cxx_standard` with a release of the framework, `20`; empty: none is set."""
        if isinstance(self.cxx_standard, str):
            return self.cxx_standard
        declared = ([*key.split(">="), standard] for key, standard in self.cxx_standard.items())
        fitting = (
            standard
            for name, since, standard in declared
            if framework
            and framework.name == name
            and version_key(framework.version) >= version_key(since)
        )
        return max(fitting, default="")

    def settings_for(self, release: str) -> Mapping[str, str]:
        """Return the `build.env` and `build.define` of one CUDA release, with placeholders."""
        env = texts_for(self.build.env, release)
        define = self.build.define if isinstance(self.build, CMake) else {}
        return {**env, **texts_for(define, release)}

    def archs_for(self, release: str) -> tuple[str, ...]:
        """Return the `archs` of one CUDA release (`12.8`), the oldest GPU first.

        Raises:
            KeyError: they are declared by release, and not for this one.
        """
        archs = self.archs if isinstance(self.archs, tuple) else self.archs[release]
        return tuple(sorted(archs, key=lambda arch: (len(arch.rstrip("af")), arch)))


def texts_for(settings: Settings, release: str) -> dict[str, str]:
    """Return the settings of one CUDA release (`12.8`)."""
    texts = {
        name: text if isinstance(text, str) else text.get(release)
        for name, text in settings.items()
    }
    return {name: text for name, text in texts.items() if text is not None}
