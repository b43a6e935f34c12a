"""Verdicts on GPU packages: libraries, symbols, device code and the system's libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement

from cuwheel.base.formats.binaries.archs import DeviceCode, runs_on
from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.drivers import code_fault
from cuwheel.check.cuda.suppliers import components_of, is_from_driver
from cuwheel.check.diagnose.facts.environment import Distribution
from cuwheel.check.diagnose.facts.gpu_packages import PARTS_OF_CUDNN, DiagnosedPackage
from cuwheel.check.diagnose.facts.imports import is_late
from cuwheel.check.diagnose.facts.installed_files import importable_modules
from cuwheel.check.diagnose.facts.machine import newest_glibcxx
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.frameworks import cuda_majors, fix_opened, judge_archs
from cuwheel.check.diagnose.rules.import_failures import (
    FIRST,
    exception_in,
    explain,
    explain_variable,
)
from cuwheel.check.diagnose.rules.installer import where_from
from cuwheel.check.diagnose.rules.isolation import Failure, judge_cause
from cuwheel.check.diagnose.rules.requirements import (
    SIBLINGS,
    cuda_of,
    extra_fix,
    extras_of,
    numpy_fix,
)
from cuwheel.check.diagnose.verdict import Diagnosis, broken, not_examined, notes, warns, works

_CUDA_IN_NAME = re.compile(r"-cu(\d\d)(?=-|$)")
_BUILT_FOR = re.compile(r"torch\.?(\d+\.\d+)")
# The entry about a library that isn't found, by the beginning of its name; the runtime comes first,
# as who lacks it lacks all.
_ANCHORS = {
    "libcudart.": "libcudart-not-found",
    "libcudnn": "libcudnn-not-found",
    "libnvrtc": "libnvrtc-missing",
    "libtorch": "torch-abi-mismatch",
    "libc10": "torch-abi-mismatch",
}
# Problems of files with which no import works.
_FATAL = frozenset(
    {
        "built-without-cuda",
        "diagnose-damaged-installation",
        "glibc-too-old",
        "glibcxx-too-old",
        "python-version-unsupported",
    }
)
# Their wheels' major releases are those of their names.
_NUMBERED = re.compile(r"lib(?:cudnn|nvinfer|nvonnxparser)\w*\.so\.(\d+)")
# A library for one release of CUDA, which the package chooses: libbitsandbytes_cuda129.so.
_PER_CUDA = re.compile(r"lib\w+_cu(?:da)?(\d\d)(\d)\.so$")
_SHOWN = 3  # names of libraries
_NO_OPERATOR = re.compile(r"operator \w+::\w+ does not exist")
_NO_PROGRAM = re.compile(r"(PermissionError|OSError): .*(ptxas|Exec format).*")
_LACKS = re.compile(r"No module named|cannot open shared|not found|[Cc]ould not (find|load)")
_OF_TORCH_CUDA = ("libc10_cuda.so", "libtorch_cuda.so")


def judge_package(
    package: DiagnosedPackage,
    context: RuleContext,
    *,
    remedy: str | None = None,
    is_faulty: bool = False,
    hint: str = "",
) -> list[Diagnosis]:
    """Return all problems of a package, or that it works.

    Args:
        remedy: the command (may be empty) of a fault that is to be fixed first: its own, or of what
            it requires; None: there is none.
        is_faulty: it has other faults; its import may load less than it should.
        hint: the fix if the package chooses its library; empty: none.
    """
    judge = _PackageJudge(package, context, remedy, is_faulty, hint)
    problems = list(judge.problems())
    if not problems and package.unopened:
        return [judge.unopened()]
    if problems or is_faulty:
        return problems
    count = sum(not is_from_driver(soname) for soname in package.suppliers)
    sources = f"finds all {count} libraries of CUDA and frameworks that it needs"
    return [works(f"{package.title}: {sources if count else 'needs no library of CUDA'}")]


@dataclass(frozen=True)
class _PackageJudge:
    package: DiagnosedPackage
    context: RuleContext
    remedy: str | None
    is_faulty: bool
    hint: str

    def problems(self) -> Iterator[Diagnosis]:
        """Yield all problems of the package.

        The exception of its import is a fact: what the files show explains it, or comes after it.
        """
        failure, package = self.package.failure, self.package
        found = [*self._static_problems()]
        needs_torch = "torch" in set(map(project_of, self._requires)) or package.is_for_torch
        if needs_torch and (torch := self.context.torch) and torch.failure:
            yield from found
            yield warns(
                "diagnose-import-failed",
                f"{package.title} needs torch, which can't be imported",
                f"torch {torch.version}: {exception_in(torch.failure)}",
                "fix torch first, then run this again",
            )
            return
        if is_late(failure):
            yield from found
            yield not_examined(f"the import of {package.title}", exception_in(failure))
            return
        if not failure:
            yield from found
            yield from self._without_cuda() if package.without_cuda else self._blindness()
            return
        if change := self.context.changes.get(package.name):  # of which others may follow
            anchor, line, fix, command = explain_variable(failure, change)
            yield broken(anchor, f"{package.title} can't be imported", line, fix, command)
            return
        explains = [problem.level == "broken" and self._explains(problem) for problem in found]
        for problem, is_cause in zip(found, explains, strict=True):
            cause = f"{problem.cause}; its import ends with {exception_in(failure)}"
            if is_cause:
                yield replace(problem, cause=cause)
            elif not problem.what.startswith(self._unfound_start):
                yield problem
            elif self.remedy is None:  # a search is no proof
                sonames = problem.what.removeprefix(self._unfound_start)
                yield notes(
                    problem.anchor,
                    f"{package.title} may not find {sonames}",
                    "no search finds it, and the import ended before it could load it itself",
                    FIRST,
                )
        if not any(explains):
            yield self._import_failure()

    def unopened(self) -> Diagnosis:
        """Judge a package that can be used without a GPU, and opens CUDA's libraries for one."""
        sonames, context = self.package.unopened, self.context
        first = min(sonames, key=lambda soname: _position((soname, Path())))
        shown = ", ".join(sonames[:_SHOWN]) + " and more" * (len(sonames) > _SHOWN)
        judged = warns if context.driver.gpus else notes
        return judged(
            _anchor(first),
            f"{self.package.title} can't use a GPU: it doesn't find {shown}",
            "it opens libraries of CUDA by name when it first uses a GPU; the CPU needs none",
            *fix_opened(context, self._own, first),
        )

    @property
    def _unfound_start(self) -> str:
        return f"{self.package.title} doesn't find "

    def _explains(self, problem: Diagnosis) -> bool:
        """Return True if a problem of the files is why the import fails."""
        failure = self.package.failure
        if problem.anchor == "built-without-cuda" and _NO_OPERATOR.search(failure):
            return True
        if problem.what.startswith(self._unfound_start):
            sonames = problem.what.removeprefix(self._unfound_start).split(", ")
            return any(soname in failure for soname in sonames)
        if problem.anchor in {"torch-abi-mismatch", "cxx11-abi-mismatch"}:
            return "undefined symbol" in failure
        return problem.anchor in _FATAL

    def _import_failure(self) -> Diagnosis:
        package, own = self.package, self._own
        what = f"{package.title} can't be imported"
        failure = Failure(what=what, text=package.failure, owner=own, remedy=self.remedy)
        if found := judge_cause(failure, self.context):
            return found
        otherwise = f"python -c 'import {self._module}' shows the full error"
        anchor, line, fix = explain(package.failure, otherwise, self.remedy)
        command = self.remedy or ""
        if anchor == "numpy-abi-mismatch":
            fix, command = numpy_fix(self.context, own)
        return broken(anchor, what, line, fix, command)

    @property
    def _module(self) -> str:
        names = importable_modules(self._own)
        return next(iter(names), self.package.name)

    def _without_cuda(self) -> Iterator[Diagnosis]:
        """Judge a package whose part for CUDA doesn't work."""
        package, part = self.package, self.package.part or "use CUDA"
        own = self._own
        failure, what = package.without_cuda, f"{package.title} can't {part}"
        cause = Failure(
            what=what,
            text=failure,
            owner=own,
            state="it can",
            remedy=self.remedy,
            is_clear=bool(_NO_PROGRAM.search(failure) or _LACKS.search(exception_in(failure))),
        )
        if found := judge_cause(cause, self.context):
            yield found
        elif self.remedy is not None:
            anchor = explain(failure, "", "")[0]
            yield broken(anchor, what, exception_in(failure), FIRST, self.remedy)
        elif match := _NO_PROGRAM.search(failure):
            again = self.context.installer.reinstall(own)
            fix = f"install {package.name} again, whose program can't be started"
            yield broken("diagnose-damaged-installation", what, match[0], fix, again)
        else:
            fix = f"python -c 'import {self._module}' and a first use show the full error"
            command = ""
            if _LACKS.search(exception_in(failure)):
                fix, command = extra_fix(self.context, own)
            anchor, line, fix = explain(failure, fix)
            yield broken(anchor, what, line, fix, command)

    def _blindness(self) -> Iterator[Diagnosis]:
        """Judge a package that sees no GPU though CUDA programs do."""
        if self.package.available is False and self.context.driver.visible:
            yield warns(
                "no-cuda-device",
                f"{self.package.title} sees no GPU, though a CUDA program sees "
                f"{self.context.driver.visible}",
                "it reports no reason; it may be a build for the CPU, or not find CUDA's libraries",
                "install its build for CUDA with the libraries that it requires",
            )

    def _static_problems(self) -> Iterator[Diagnosis]:
        """Yield what its files show."""
        for library in self.package.libraries:
            if library.damage:
                yield broken(
                    "diagnose-damaged-installation",
                    f"{library.path.name} of {self.package.title} can't be read",
                    library.damage,
                    "reinstall it",
                )
        yield from self._unimportable()
        yield from self._symbols()
        if not any(library.damage for library in self.package.libraries):
            yield from self._unfound()
        yield from self._mixed()
        yield from self._without_cuda_of_torch()
        yield from self._no_library()
        yield from self._archs()
        yield from self._system()

    @property
    def _own(self) -> Distribution:
        return self.context.environment.distributions[self.package.name]

    @property
    def _end(self) -> str:
        return exception_in(self.package.failure)

    @property
    def _requires(self) -> tuple[str, ...]:
        return self._own.requires

    def _unimportable(self) -> Iterator[Diagnosis]:
        package, context = self.package, self.context
        names = [library.path.name for library in package.libraries if library.is_unimportable]
        own = context.environment.distributions[package.name]
        if names and self.remedy is None:  # else its wheel's tag shows it
            yield broken(
                "python-version-unsupported",
                f"{package.title} is built for another Python than {context.environment.release}",
                f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}",
                f"reinstall it with this Python{where_from(own)}",
                context.installer.reinstall(own),
            )

    def _symbols(self) -> Iterator[Diagnosis]:
        package, torch = self.package, self.context.torch
        faults = [(lib.path, lib.symbols) for lib in package.libraries if lib.symbols]
        if not faults or torch is None or self._lacks_cuda_of_torch:
            return
        path, missing = faults[0]
        count = sum(len(symbols.names) for _, symbols in faults)
        more = f" and {count - 1} more" if count > 1 else ""
        cause = f"{path.name} needs {missing.example}{more}, which torch {torch.version} doesn't "
        cause += "have"
        if all(symbols.is_abi_only for _, symbols in faults):
            abi = str(bool(torch.cxx11_abi)).upper()
            yield broken(
                "cxx11-abi-mismatch",
                f"{package.title} is built with the other C++ string ABI than torch",
                f"{cause} with that ABI",
                f"install a wheel with cxx11abi{abi}, or build it here",
            )
            return
        pins = [line for line in self._requires if re.match(r"torch\s*\(?==", line)]
        built_for = f"; it requires {pins[0]}" if pins else ""
        if match := _BUILT_FOR.search(package.version.partition("+")[2]):
            built_for = f"; its version says that it was built for torch {match[1]}"
        release = ".".join(torch.version.split(".")[:2])
        yield broken(
            "torch-abi-mismatch",
            f"{package.title} is built for another torch than {torch.version}",
            f"{cause}{built_for}",
            f"install a {package.name} built for torch {release}, or build it from its source",
        )

    def _mixed(self) -> Iterator[Diagnosis]:
        package, torch, releases = self.package, self.context.torch, sorted(self.package.cuda)
        if torch is None or not torch.major or not releases or torch.major in releases:
            return
        judged = broken if package.is_for_torch else warns
        shares = ", and what is compiled for torch shares its memory and streams"
        yield judged(
            "diagnose-mixed-cuda",
            f"{package.title} is for CUDA {' and '.join(releases)}, torch for CUDA {torch.cuda}",
            "both would be loaded into one process" + shares * package.is_for_torch,
            self.hint
            or f"install a {package.name} for CUDA {torch.major}, or a torch for CUDA "
            f"{' or '.join(releases)}",
        )

    def _without_cuda_of_torch(self) -> Iterator[Diagnosis]:
        """Judge one of PyTorch's own packages for the CPU, with a torch for CUDA."""
        package, torch = self.package, self.context.torch
        local = torch.version.partition("+")[2] if torch else ""
        if torch and torch.major and package.name in SIBLINGS and package.version.endswith("+cpu"):
            release = package.version.partition("+")[0]
            yield broken(
                "built-without-cuda",
                f"{package.title} is built without CUDA, and torch {torch.version} for CUDA",
                "its operators end with an error for a tensor on a GPU",
                f"install {package.name} {release} from the index that torch is of"
                + f": {release}+{local}" * bool(local),
                self.context.installer.exchange(package.name, f"{package.name}==={release}"),
            )

    def _no_library(self) -> Iterator[Diagnosis]:
        """Judge a package with a library for each release of CUDA, none for that of torch."""
        torch, package = self.context.torch, self.package
        matches = [match for path in self._own.libraries if (match := _PER_CUDA.match(path.name))]
        releases = {f"{match[1]}.{match[2]}" for match in matches}
        majors = {release.partition(".")[0] for release in releases}
        if torch and torch.major and majors and torch.major not in majors:
            newest = max(releases, key=version_key)
            yield broken(
                "diagnose-no-library",
                f"{package.title} has no library for CUDA {torch.cuda}, which torch is for",
                f"its libraries are for releases up to {newest}, one of them {matches[0][0]}",
                f"install a newer {package.name}, or a torch for CUDA {newest.partition('.')[0]}",
                self.context.installer.install(f"{package.name}>{package.version}"),
            )

    def _archs(self) -> Iterator[Diagnosis]:
        package, context = self.package, self.context
        code = DeviceCode(sass=package.archs, ptx=package.ptx_archs)
        if not code.sass and not code.ptx:
            return
        fix = "install a build for {0}, or build it with that arch (TORCH_CUDA_ARCH_LIST={1})"
        yield from judge_archs(self.package.title, code, context.driver, fix)
        driver = context.driver
        for capability in driver.capabilities:
            fault = code_fault(package.code, capability, driver.version, driver.newest_cuda)
            if fault and runs_on(code, capability):
                yield warns(
                    "ptx-unsupported-toolchain",
                    f"driver {driver.version} may not run the code of {package.title}",
                    fault,
                    f"update the driver, or install a build with code for sm_{capability} and an "
                    "older CUDA",
                )

    def _system(self) -> Iterator[Diagnosis]:
        """Judge whether C and C++ library are new enough."""
        host = self.context.host
        if host is None:
            return
        libstdcxx = self.context.environment.prefix / "lib" / "libstdc++.so.6"
        glibcxx = newest_glibcxx(libstdcxx) if libstdcxx.exists() else host.glibcxx
        fixes = (
            ("GLIBC", "glibc-too-old", host.glibc, "use a newer system"),
            ("GLIBCXX", "glibcxx-too-old", glibcxx, "install a newer libstdc++"),
        )
        for family, anchor, has, fix in fixes:
            newest, path = max(
                (
                    (version, library.path)
                    for library in self.package.libraries
                    for kind, version in library.versions
                    if kind == family
                ),
                key=lambda needed: version_key(needed[0]),
                default=("", Path()),
            )
            if has and newest and version_key(newest) > version_key(has):
                yield broken(
                    anchor,
                    f"{self.package.title} needs {family}_{newest}",
                    f"{path.name} was built for a newer system; this one has {family}_{has}",
                    f"{fix}, or build {self.package.name} here",
                )

    def _unfound(self) -> Iterator[Diagnosis]:
        """Judge the libraries that the package doesn't find, together: one cause, one fix."""
        libraries = self.package.libraries
        own = {path.name for path in self._own.libraries if f"{path.name}: cannot" not in self._end}
        unfound = {
            library.path: [
                soname
                for soname, source in library.needs
                if source is None and soname not in own and not self._waits_for_torch(soname)
            ]
            for library in libraries
        }
        works_without = any(lib.code and not unfound[lib.path] for lib in libraries)
        spare: dict[str, Path] = {}
        needed: dict[str, Path] = {}
        for library in libraries:
            is_spare = works_without and not library.is_module and not library.code
            for soname in unfound[library.path]:
                may_spare = is_spare and soname not in PARTS_OF_CUDNN.values()
                (spare if may_spare else needed).setdefault(soname, library.path)
        if needed:
            yield self._broken(dict(sorted(needed.items(), key=_position)))
        elif spare:
            first, path = min(spare.items(), key=_position)
            yield notes(
                _anchor(first),
                f"{path.name} of {self.package.title} can't be loaded here",
                f"it needs {', '.join(sorted(spare))}; the package's other libraries find "
                "everything that they need",
                "nothing, unless that part of the package is used",
            )
        calls = (lib.call for library in libraries for _, lib in library.needs if lib)
        for call in dict.fromkeys(filter(None, calls)):
            yield notes(
                "diagnose-not-loaded-yet",
                f"{self.package.title} finds its libraries only after a call of {call}",
                "no rpath entry points to NVIDIA's wheels, and the import alone doesn't load them",
                f"call {call} before anything that uses the GPU",
            )

    def _waits_for_torch(self, soname: str) -> bool:
        """Return True if PyTorch would load it, and its import fails for another reason."""
        torch = self.context.torch
        folders = self._wheel_folders(soname)
        return bool(torch and torch.failure) and any((path / soname).exists() for path in folders)

    def _wheel_folders(self, soname: str) -> set[Path]:
        """Return the folders in which wheels install a library."""
        sites, components = self.context.environment.sites, components_of(soname)
        return {site / component.site_folder for site in sites for component in components}

    def _broken(self, unfound: dict[str, Path]) -> Diagnosis:
        """Return the verdict on libraries, the most important one first."""
        package, context = self.package, self.context
        what = f"{package.title} doesn't find {', '.join(unfound)}"
        if context.torch and self._lacks_cuda_of_torch:
            version, other = context.torch.version, self._other_torch(context.torch.version)
            with_cuda = f"install {other or 'the same torch'} with CUDA"
            return broken(
                "built-without-cuda",
                what,
                f"it is built for a torch with CUDA, and torch {version} is for the CPU",
                f"{with_cuda}, or a {package.name} for torch {version}",
                "" if other else context.cuda_build("torch"),
            )
        first, path = next(iter(unfound.items()))
        fix, command = (self.hint, "") if self.hint else self._fix(unfound)
        return broken(
            _anchor(first),
            what,
            f"{path.name} needs {'them' if len(unfound) > 1 else 'it'}; neither an rpath entry, "
            "LD_LIBRARY_PATH, the system nor a package imported before provides it",
            fix,
            command,
        )

    def _fix(self, unfound: Iterable[str]) -> tuple[str, str]:
        """Return the fix in words, and as a command; empty without one."""
        package, context = self.package, self.context
        if extras := self._extras(unfound):
            words = f"install it with extra{'s' * (len(extras) > 1)} {' and '.join(extras)}"
            requirement = f"{package.name}[{','.join(extras)}]=={package.version}"
            return words, context.installer.install(requirement)
        suppliers = [self._supplier(soname) for soname in unfound]
        if all(suppliers) and all(map(self._has_rpath_to, unfound)):
            wheels = sorted(set(map(self._requirement, unfound)))
            return "install the wheels that contain them", context.installer.install(*wheels)
        torch, majors = context.torch, sorted(package.cuda)
        installed = context.environment.distributions.get(suppliers[0])
        if installed and self.is_faulty:
            words = "first fix what else this report says about it, then run this again"
        elif installed:
            words = f"{installed.title} is installed, but no rpath entry points to it: import "
            words += "torch first, or add its folder to LD_LIBRARY_PATH"
        elif torch and torch.major and majors and torch.major not in majors:
            words = f"install the package for CUDA {torch.major}, which torch uses; it is built "
            words += f"for CUDA {' and '.join(majors)}"
        elif majors and (others := self._other_wheels(majors)):
            words = (
                f"install a release of it for CUDA {others}, as NVIDIA's wheels here are, maybe "
            )
            words += f"a newer one; it is built for CUDA {' and '.join(majors)}"
        elif not suppliers[0]:
            words = "install the package that contains them, for the CUDA of the framework"
        else:
            names = ", ".join(sorted({*map(self._requirement, unfound)} - {""}))
            words = f"install {names}, then import torch first "
            words += "or add their folders to LD_LIBRARY_PATH: no rpath entry points to them"
        return words, ""

    def _extras(self, unfound: Iterable[str]) -> list[str]:
        """Return the package's extras that add the libraries; none if a supplier is installed."""
        environment, package = self.context.environment, self.package
        offered = extras_of(environment.distributions[package.name], environment.markers)
        chosen: list[str] = []
        for soname in sorted(unfound):
            suppliers = {component.distribution for component in components_of(soname)}
            if suppliers & environment.distributions.keys():
                return []
            covering = [extra for extra, projects in offered.items() if suppliers & projects]
            if covering and not set(covering) & set(chosen):
                chosen.append(covering[0])
        return sorted(chosen) if "+" not in package.version else []

    def _other_torch(self, version: str) -> str:
        """Return the package's requirement of torch if the installed one doesn't meet it."""
        lines = [line for line in self._requires if project_of(line) == "torch"]
        requirements = (Requirement(line) for line in lines)
        unmet = (one for one in requirements if not one.specifier.contains(version, True))
        return next((f"torch{one.specifier}" for one in unmet), "")

    def _other_wheels(self, majors: Iterable[str]) -> str:
        """Return the CUDA of NVIDIA's installed wheels if none is for one of these."""
        installed = cuda_majors(self.context.environment.distributions)
        return "" if set(majors) & installed.keys() else " and ".join(sorted(installed))

    def _requirement(self, soname: str) -> str:
        """Return the supplier in a release with that library."""
        supplier, number = self._supplier(soname), _NUMBERED.fullmatch(soname)
        family, _, _ = supplier.rpartition("-")
        if family and self.package.name.startswith(f"{family}-") and "nvidia" not in family:
            return f"{supplier}=={self.package.version}"  # published together
        if supplier and number:
            return f"{supplier}>={number[1]},<{int(number[1]) + 1}"
        return supplier

    def _supplier(self, soname: str) -> str:
        """Return the distribution with a library, for the CUDA of the package if that is known."""
        components = components_of(soname)
        majors = self.package.cuda or {*_CUDA_IN_NAME.findall(self.package.name)}
        majors = majors or {cuda_of(self.context)} - {""}
        fitting = [part for part in components if str(part.cuda or "") in majors]
        first = next(iter((*fitting, *components)), None)
        if first and not fitting and len(majors) == 1:  # named alike for each CUDA
            return _CUDA_IN_NAME.sub(f"-cu{min(majors)}", first.distribution)
        return first.distribution if first else ""

    def _has_rpath_to(self, soname: str) -> bool:
        """Return True if an rpath entry of the package leads to where wheels install a library."""
        folders = self._wheel_folders(soname)
        return any(
            folders.intersection(library.folders)
            for library in self.package.libraries
            if soname in dict(library.needs)
        )

    @property
    def _lacks_cuda_of_torch(self) -> bool:
        """True if it is for a torch with CUDA, and this one has none: the cause of all else."""
        torch = self.context.torch
        return bool(torch and torch.is_cpu_only) and any(
            soname in _OF_TORCH_CUDA and source is None
            for library in self.package.libraries
            for soname, source in library.needs
        )


def _anchor(soname: str) -> str:
    anchors = (anchor for start, anchor in _ANCHORS.items() if soname.startswith(start))
    return next(anchors, "cuda-math-lib-not-found")


def _position(item: tuple[str, Path]) -> tuple[int, str]:
    soname, _ = item
    numbers = (number for number, start in enumerate(_ANCHORS) if soname.startswith(start))
    return next(numbers, len(_ANCHORS)), soname
