"""What is said of libraries that a package needs and that the loader doesn't find for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.cuda.suppliers import components_of
from cuwheel.diagnose.rules.requirements import extras_of
from cuwheel.diagnose.verdict import broken, notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.diagnose.facts.gpu_packages import InstalledLibrary, InstalledPackage
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.facts.loader import Loader
    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.diagnose.verdict import Anchor, Verdict


# What is to be read where a library isn't found, by the beginning of its name.
_ANCHORS: tuple[tuple[str, Anchor], ...] = (
    ("libcudart.", "libcudart-not-found"),
    ("libcudnn", "libcudnn-not-found"),
    ("libnvrtc", "libnvrtc-missing"),
    ("libtorch", "torch-abi-mismatch"),
    ("libc10", "torch-abi-mismatch"),
)
_OF_TORCH_CUDA = ("libc10_cuda.so", "libtorch_cuda.so")


@dataclass(frozen=True, kw_only=True)
class UnfoundLibrariesJudge:
    """Judges what one package doesn't find.

    Attributes:
        torch: what is known of PyTorch; None where it isn't installed.
        loader: of the environment.
        installer: writes the commands.
        cuda_build: the command that installs this PyTorch with CUDA; empty where none does.
        hint: a way out that is known already.
        is_faulty: something else is wrong with the package, so its import may load less than it
            should.
    """

    torch: FrameworkFacts | None
    loader: Loader
    installer: Installer
    cuda_build: str
    hint: str
    is_faulty: bool

    def judge(self, name: str, package: InstalledPackage) -> Iterator[Verdict]:
        """Judge the libraries of a package together: one cause, one fix."""
        lost = {one.path: self._lost(one) for one in package.libraries}
        works_without = any(one.code and not lost[one.path] for one in package.libraries)
        extra = [
            one.path
            for one in package.libraries
            if works_without and lost[one.path] and not one.is_module and not one.code
        ]
        needed = _first_by_soname(lost, [path for path in lost if path not in extra])
        spare = _first_by_soname(lost, extra)
        if needed:
            yield self._broken(name, package, needed)
        elif spare:
            first = min(spare, key=_position)
            yield notes(
                self._anchor(first),
                f"{spare[first].name} of {name} can't be loaded here",
                f"it needs {_listed(spare)}; the package's other libraries find everything "
                "that they need",
                "nothing, unless that part of the package is used",
            )
        yield from _conditions(name, package)

    def _lost(self, library: InstalledLibrary) -> tuple[str, ...]:
        return tuple(
            soname
            for soname, found in library.needs
            if found is None and not self._waits_for_torch(soname)
        )

    def _waits_for_torch(self, soname: str) -> bool:
        """Whether it is there for who imports PyTorch first, which fails for another reason."""
        return bool(self.torch and self.torch.failure) and any(
            (site / component.site_folder / soname).exists()
            for site in self.loader.environment.sites
            for component in components_of(soname)
        )

    def _broken(self, name: str, package: InstalledPackage, lost: dict[str, Path]) -> Verdict:
        first = min(lost, key=_position)
        what = f"{name} doesn't find {_listed(lost)}"
        if self.torch and lacks_cuda_of_torch(package, self.torch):
            return broken(
                "built-without-cuda",
                what,
                f"it is built for a torch with CUDA, and torch {self.torch.version} is for the CPU",
                f"install the same torch with CUDA, or a {package.name} for the CPU",
                self.cuda_build,
            )
        fix, command = (self.hint, "") if self.hint else self._fix(package, lost)
        return broken(
            self._anchor(first),
            what,
            f"{lost[first].name} needs {'them' if len(lost) > 1 else 'it'}; neither an rpath "
            "entry, LD_LIBRARY_PATH, the system nor a package imported before provides it",
            fix,
            command,
        )

    def _anchor(self, soname: str) -> Anchor:
        found = (anchor for start, anchor in _ANCHORS if soname.startswith(start))
        return next(found, "cuda-math-lib-not-found")

    def _fix(self, package: InstalledPackage, lost: dict[str, Path]) -> tuple[str, str]:
        """Words and command."""
        if extras := self._extras(package, lost):
            asked = f"{package.name}[{','.join(extras)}]=={package.version}"
            return f"install it with {_extras_in_words(extras)}", self.installer.install(asked)
        suppliers = {soname: self._supplier(package, soname) for soname in lost}
        if all(suppliers.values()) and all(self._leads_to(package, soname) for soname in lost):
            wheels = sorted(set(suppliers.values()))
            return "install the wheels that contain them", self.installer.install(*wheels)
        return self._fix_in_words(package, lost, suppliers), ""

    def _fix_in_words(
        self, package: InstalledPackage, lost: dict[str, Path], suppliers: dict[str, str]
    ) -> str:
        first = min(lost, key=_position)
        supplier = suppliers[first]
        there = self.loader.environment.distributions.get(supplier)
        if there and self.is_faulty:
            return "first fix what else this report says about it, then run this again"
        if there:
            return (
                f"{supplier} {there.version} is installed, but no rpath entry points to it: "
                "import torch first, or add its folder to LD_LIBRARY_PATH"
            )
        majors = sorted(package.cuda)
        if self.torch and self.torch.major and majors and self.torch.major not in majors:
            return (
                f"install the package for CUDA {self.torch.major}, which torch uses; it is "
                f"built for CUDA {' and '.join(majors)}"
            )
        if not supplier:
            return f"install the package that contains {first}, for the CUDA of the framework"
        named = sorted({one for one in suppliers.values() if one})
        return (
            f"install {', '.join(named)}, then import torch first or add their folders to "
            "LD_LIBRARY_PATH: no rpath entry points to them"
        )

    def _extras(self, package: InstalledPackage, lost: Iterable[str]) -> list[str]:
        """Extras of the package that bring what is lost; none where one of them is there."""
        environment = self.loader.environment
        offered = extras_of(environment.distributions[package.name], environment.markers)
        chosen: list[str] = []
        for soname in sorted(lost):
            suppliers = {component.distribution for component in components_of(soname)}
            if suppliers & environment.distributions.keys():
                return []
            covering = [extra for extra, projects in offered.items() if suppliers & projects]
            if covering and not set(covering) & set(chosen):
                chosen.append(covering[0])
        return sorted(chosen) if "+" not in package.version else []

    def _supplier(self, package: InstalledPackage, soname: str) -> str:
        """The distribution that has a library, for the CUDA of the package where that is known."""
        found = components_of(soname)
        fitting = [one for one in found if str(one.cuda or "") in package.cuda]
        return next((one.distribution for one in (*fitting, *found)), "")

    def _leads_to(self, package: InstalledPackage, soname: str) -> bool:
        """Whether an rpath entry of the package leads to where wheels put a library."""
        folders = {
            site / component.site_folder
            for site in self.loader.environment.sites
            for component in components_of(soname)
        }
        return any(
            folders.intersection(library.folders)
            for library in package.libraries
            if soname in dict(library.needs)
        )


def lacks_cuda_of_torch(package: InstalledPackage, torch: FrameworkFacts) -> bool:
    """Whether it is for a torch with CUDA, and this one has none: all else follows from that."""
    return torch.is_cpu_only and any(
        soname in _OF_TORCH_CUDA and found is None
        for library in package.libraries
        for soname, found in library.needs
    )


def _first_by_soname(lost: dict[Path, tuple[str, ...]], paths: Iterable[Path]) -> dict[str, Path]:
    """Each soname that is lost, and the first library that needs it."""
    found: dict[str, Path] = {}
    for path in paths:
        for soname in lost[path]:
            found.setdefault(soname, path)
    return found


def _conditions(name: str, package: InstalledPackage) -> Iterator[Verdict]:
    """What the package itself loads only when it is told to."""
    called = {
        found.call: soname
        for library in package.libraries
        for soname, found in library.needs
        if found and found.call
    }
    for call in called:
        yield notes(
            "diagnose-not-loaded-yet",
            f"{name} finds its libraries only after a call of {call}",
            "no rpath entry points to NVIDIA's wheels, and the import alone doesn't load them",
            f"call {call} before anything that uses the GPU",
        )


def _extras_in_words(extras: list[str]) -> str:
    return f"extra{'s' if len(extras) > 1 else ''} {' and '.join(extras)}"


def _listed(sonames: Iterable[str]) -> str:
    return ", ".join(sorted(sonames, key=_position))


def _position(soname: str) -> tuple[int, str]:
    """The runtime first: who lacks it lacks all."""
    starts = [start for start, _ in _ANCHORS]
    found = (number for number, start in enumerate(starts) if soname.startswith(start))
    return next(found, len(starts)), soname
