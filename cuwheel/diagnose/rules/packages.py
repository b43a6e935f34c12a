"""Whether a GPU package works in its environment, on this machine's GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.binaries.archs import describe_code, runs_on
from cuwheel.cuda.suppliers import is_from_driver
from cuwheel.diagnose.facts.host import newest_glibcxx
from cuwheel.diagnose.rules.unfound_libraries import UnfoundLibrariesJudge, lacks_cuda_of_torch
from cuwheel.diagnose.verdict import broken, warns, works
from cuwheel.system.versions import version_key
from cuwheel.wheel.metadata import project_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from cuwheel.diagnose.facts.gpu_packages import InstalledPackage
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.host import HostFacts
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.facts.loader import Loader
    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.diagnose.verdict import Anchor, Verdict


_BUILT_FOR = re.compile(r"torch\.?(\d+\.\d+)")


@dataclass(frozen=True, kw_only=True)
class PackageJudge:
    """Judges packages of one environment.

    Attributes:
        torch: what is known of PyTorch; None where it isn't installed.
        driver: of this machine.
        host: this machine; None where it couldn't be asked.
        loader: of the environment.
        installer: writes the commands.
        faulty: packages of which something else is said: their files, their requirements.
        cuda_builds: commands that install the same release of a framework with CUDA.
        hints: of projects for which a way out is known already.
    """

    torch: FrameworkFacts | None
    driver: Driver
    host: HostFacts | None
    loader: Loader
    installer: Installer
    faulty: frozenset[str]
    cuda_builds: Mapping[str, str]
    hints: Mapping[str, str]

    def judge(self, package: InstalledPackage) -> list[Verdict]:
        """All that is wrong with a package; that it works, where nothing is."""
        name = f"{package.name} {package.version}"
        unfound = UnfoundLibrariesJudge(
            torch=self.torch,
            loader=self.loader,
            installer=self.installer,
            cuda_build=self.cuda_builds.get("torch", ""),
            hint=self.hints.get(package.name, ""),
            is_faulty=package.name in self.faulty,
        )
        found = [
            *_damages(name, package),
            *self._unimportable(name, package),
            *self._symbols(name, package),
            *unfound.judge(name, package),
            *self._mixed(name, package),
            *self._archs(name, package),
            *self._system(name, package),
            *self._import_fault(name, package),
        ]
        is_well = not found and package.name not in self.faulty
        return [works(f"{name}: {_summary(package)}")] if is_well else found

    def _unimportable(self, name: str, package: InstalledPackage) -> Iterator[Verdict]:
        wrong = [one.path for one in package.libraries if one.is_unimportable]
        if wrong:
            python = self.loader.environment.release
            yield broken(
                "python-version-unsupported",
                f"{name} is built for another Python than {python}",
                _some(wrong),
                "reinstall it with this Python",
                self.installer.install(f"{package.name}=={package.version}", again=True)
                if "+" not in package.version
                else "",
            )

    def _symbols(self, name: str, package: InstalledPackage) -> Iterator[Verdict]:
        faults = [(one.path, one.symbols) for one in package.libraries if one.symbols]
        if not faults or self.torch is None or lacks_cuda_of_torch(package, self.torch):
            return
        path, missing = faults[0]
        count = sum(len(symbols.names) for _, symbols in faults)
        more = f" and {count - 1} more" if count > 1 else ""
        cause = (
            f"{path.name} needs {missing.example}{more}, which torch {self.torch.version} "
            "doesn't have"
        )
        if all(symbols.is_abi_only for _, symbols in faults):
            yield broken(
                "cxx11-abi-mismatch",
                f"{name} is built with the other C++ string ABI than torch",
                f"{cause} with that ABI",
                f"install a wheel with cxx11abi{str(bool(self.torch.cxx11_abi)).upper()}, or "
                "build it here",
            )
            return
        release = ".".join(self.torch.version.split(".")[:2])
        yield broken(
            "torch-abi-mismatch",
            f"{name} is built for another torch than {self.torch.version}",
            f"{cause}{_built_for(package)}",
            f"install a {package.name} built for torch {release}, or build it from its source",
        )

    def _import_fault(self, name: str, package: InstalledPackage) -> Iterator[Verdict]:
        imports = {project_of(line) for line in package.requires}
        is_linked = any(library.is_for_torch for library in package.libraries)
        if self.torch and self.torch.failure and (is_linked or "torch" in imports):
            yield warns(
                "diagnose-import-failed",
                f"{name} needs torch, which can't be imported",
                f"torch {self.torch.version}: {self.torch.last_words}",
                "fix torch first, then run this again",
            )

    def _mixed(self, name: str, package: InstalledPackage) -> Iterator[Verdict]:
        torch = self.torch
        releases = package.cuda
        if torch is None or not torch.major or not releases or torch.major in releases:
            return
        is_linked = any(library.is_for_torch for library in package.libraries)
        judged = broken if is_linked else warns
        yield judged(
            "diagnose-mixed-cuda",
            f"{name} is for CUDA {' and '.join(sorted(releases))}, torch for CUDA {torch.cuda}",
            "both would be loaded into one process"
            + ", and what is compiled for torch shares its memory and streams" * is_linked,
            self.hints.get(package.name)
            or f"install a {package.name} for CUDA {torch.major}, or a torch for CUDA "
            f"{' or '.join(sorted(releases))}",
        )

    def _archs(self, name: str, package: InstalledPackage) -> Iterator[Verdict]:
        code = package.code
        if code is None or not (code.sass or code.ptx):
            return
        held = describe_code(code)
        for capability in sorted({gpu.capability for gpu in self.driver.gpus if gpu.capability}):
            how = runs_on(code, capability)
            if not how:
                yield broken(
                    "no-kernel-image",
                    f"{name} has no code for this GPU, sm_{capability}",
                    f"it contains {held}",
                    f"install a build for sm_{capability}, or build it with that arch "
                    f"(TORCH_CUDA_ARCH_LIST={capability[:-1]}.{capability[-1]})",
                )
            elif how == "PTX" and self._is_newer_than_driver():
                yield warns(
                    "ptx-unsupported-toolchain",
                    f"{name} has only PTX for sm_{capability}",
                    f"the driver supports CUDA up to {self.driver.newest_cuda} and may not "
                    "support the PTX of a newer one",
                    f"update the driver, or install a build with code for sm_{capability}",
                )

    def _is_newer_than_driver(self) -> bool:
        cuda, newest = self.torch.cuda if self.torch else "", self.driver.newest_cuda
        return bool(cuda and newest) and version_key(cuda) > version_key(newest)

    def _system(self, name: str, package: InstalledPackage) -> Iterator[Verdict]:
        """Whether C and C++ library are new enough."""
        if self.host is None:
            return
        libstdcxx = self.loader.environment.prefix / "lib" / "libstdc++.so.6"
        glibcxx = newest_glibcxx(libstdcxx) if libstdcxx.exists() else self.host.glibcxx
        fixes: tuple[tuple[str, Anchor, str, str], ...] = (
            ("GLIBC", "glibc-too-old", self.host.glibc, "use a newer system, or"),
            ("GLIBCXX", "glibcxx-too-old", glibcxx, "install a newer libstdc++, or"),
        )
        for family, anchor, has, fix in fixes:
            newer = [
                (version, library.path)
                for library in package.libraries
                for kind, version in library.versions
                if kind == family and has and version_key(version) > version_key(has)
            ]
            if newer:
                version, path = max(newer, key=lambda one: version_key(one[0]))
                yield broken(
                    anchor,
                    f"{name} needs {family}_{version}",
                    f"{path.name} was built for a newer system; this one has {family}_{has}",
                    f"{fix} build {package.name} here",
                )


def _damages(name: str, package: InstalledPackage) -> Iterator[Verdict]:
    for library in package.libraries:
        if library.damage:
            yield broken(
                "diagnose-damaged-installation",
                f"{library.path.name} of {name} can't be read",
                library.damage,
                "reinstall it",
            )


def _summary(package: InstalledPackage) -> str:
    """What was found good."""
    suppliers = {
        soname: supplier
        for soname, supplier in package.suppliers.items()
        if not is_from_driver(soname)
    }
    if not suppliers:
        return "needs no library of CUDA"
    return f"finds all {len(suppliers)} libraries of CUDA and frameworks that it needs"


def _built_for(package: InstalledPackage) -> str:
    """What the package itself says of its torch."""
    if found := _BUILT_FOR.search(package.version.partition("+")[2]):
        return f"; its version says that it was built for torch {found[1]}"
    asked = [line for line in package.requires if re.match(r"torch\s*\(?==", line)]
    return f"; it requires {asked[0]}" if asked else ""


def _some(paths: Iterable[Path]) -> str:
    first, *rest = paths
    return f"{first.name}{f' and {len(rest)} more' if rest else ''}"
