"""The fit of a wheel and a machine, by its name, METADATA and provenance."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code, is_arch, runs_on
from cuwheel.base.formats.wheel.metadata import header, parse_requirement
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.drivers import code_fault, is_older, oldest_driver
from cuwheel.check.cuda.torch_exports import describe_releases, minor_of, torch_exports
from cuwheel.check.pick.contents import WheelContents
from cuwheel.check.pick.declarations import declared
from cuwheel.check.pick.machine import CPU_ONLY, FRAMEWORKS, TargetMachine
from cuwheel.check.pick.release_lines import newest_of, share_that_meets
from cuwheel.check.pick.tags import Kind, Reason, against, fit_tags, unknown

_NVIDIA_WHEEL = re.compile(r"nvidia-[a-z-]+-cu(\d\d)")
_CUDA_EXTRA = re.compile(r"cuda|cu\d\d")
_TORCH = re.compile(r"\b(py)?torch\b", re.IGNORECASE)
_RELEASE = re.compile(r"\d+\.\d+")  # of CUDA
_TOOLKIT_WHEEL = "cuda-toolkit"  # its version is CUDA's


@dataclass(frozen=True, kw_only=True)
class RemoteWheelFacts:
    """The facts about a wheel outside of its name.

    Attributes:
        metadata: METADATA; None: it wasn't read.
        statement: the parameters of its provenance: `archs`, `ptx`, `toolkit`; None: there is none.
        contents: of its file; None: it isn't here.
        signers: for whom its attestations are signed, as its index says.
    """

    metadata: str | None = None
    unread: str = ""
    is_unusable: bool = False
    statement: Mapping[str, object] | None = None
    contents: WheelContents | None = None
    signers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result for a wheel.

    Attributes:
        reasons: those against it; empty: it fits, as far as is known.
        needs: other packages to install with it, without a requirement: `torch==2.8.*`.
        cuda: its release or major, `13.0`, `12`; empty: unknown.
        archs: of its code, in words; empty: unknown.
        is_stated: there is a statement of its build.
        signers: for whom its attestations are signed, as its index says.
        is_of_framework: it states or requires CUDA or a release of a framework.
    """

    offer: Offer
    reasons: tuple[Reason, ...]
    unknown: tuple[Reason, ...] = ()
    needs: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    cuda: str = ""
    archs: str = ""
    rank: tuple[int, int] = (0, 0)
    is_whole: bool = False
    is_stated: bool = False
    signers: tuple[str, ...] = ()
    is_of_framework: bool = False

    @property
    def fits(self) -> bool:
        """True if there is nothing against it."""
        return not self.reasons

    @property
    def weight(self) -> int:
        """The distance from fitting."""
        return sum(reason.weight for reason in self.reasons)


@dataclass
class WheelJudge:
    """The judge of the fit of a wheel and a machine."""

    offer: Offer
    machine: TargetMachine
    facts: RemoteWheelFacts
    wanted: Requirement
    _needs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._project, version, _, tags = parse_wheel_filename(self.offer.name)
        self._declared = {**dict(self.offer.declares), **declared(self._project, version)}
        self._tags = tags
        stated = self.facts.statement or {}
        toolkit = str(stated.get("toolkit", ""))
        by_statement = toolkit if _RELEASE.fullmatch(toolkit) else ""
        self._cuda = by_statement or self._declared.get("cuda") or self._required_cuda
        self._code = DeviceCode(sass=_archs(stated.get("archs")), ptx=_archs(stated.get("ptx")))
        self._read = ""  # the part of a file that the code is from; empty: not from parts
        if contents := self.facts.contents:  # what the file holds counts before what is stated
            majors = [str(major) for major in contents.cuda]
            if not contents.read or not self._has_code:
                self._code, self._read = contents.code, contents.read
            if len(majors) == 1 and self._cuda.partition(".")[0] != majors[0]:
                self._cuda = majors[0]

    def judge(self) -> Judgement:
        """Judge the wheel by all that is known of it."""
        tags = fit_tags(self._tags, self.machine)
        reasons = [*self._judge_page(), *tags.reasons]
        reasons += [*self._judge_frameworks()]
        device = self._declared.get("device")
        if device and not self._cuda and self.machine.cuda != CPU_ONLY:
            text = f"it was built for {device}, not for CUDA"
            reasons.append(against("device", text))
        if self._cuda or any(tag.platform != "any" for tag in self._tags):
            reasons += [*self._judge_cuda(), *self._judge_archs()]
        else:
            text = "it isn't known whether it has code for GPUs: its tag says any platform"
            reasons.append(unknown("arch", text))
        return Judgement(
            offer=self.offer,
            reasons=tuple(reason for reason in reasons if reason.is_against),
            unknown=tuple(reason for reason in reasons if not reason.is_against),
            needs=tuple(self._needs),
            extras=self._gpu_extras,
            cuda=self._cuda,
            archs=describe_code(self._code) + (", …" if self._read and self._has_code else ""),
            rank=tags.rank,
            is_whole=self.facts.metadata is not None or bool(self.facts.unread),
            is_stated=self.facts.statement is not None,
            signers=self.facts.signers,
            is_of_framework=bool(self._cuda or self._declared)
            or any(requirement.name in FRAMEWORKS for requirement in self._requirements),
        )

    @property
    def _has_code(self) -> bool:
        return bool(self._code.sass or self._code.ptx)

    @cached_property
    def _every_requirement(self) -> tuple[Requirement, ...]:
        """Its valid requirements, those of all extras too."""
        lines = header(self.facts.metadata or "", "requires-dist")
        return tuple(filter(None, map(parse_requirement, lines)))

    @cached_property
    def _requirements(self) -> tuple[Requirement, ...]:
        """Its requirements on the machine, with the wanted extras."""
        environment = _marker_environment(self.machine)
        extras = [{**environment, "extra": extra} for extra in ("", *self.wanted.extras)]
        return tuple(
            requirement
            for requirement in self._every_requirement
            if not requirement.marker or any(map(requirement.marker.evaluate, extras))
        )

    @property
    def _is_there(self) -> str:
        """The end of a sentence about the machine's framework."""
        return "is wanted" if self.machine.is_planned else "is installed"

    @property
    def _gpu_extras(self) -> tuple[str, ...]:
        """Extras for libraries of CUDA, by their names."""
        offered = header(self.facts.metadata or "", "provides-extra")
        return tuple(extra for extra in offered if _CUDA_EXTRA.match(extra))

    @property
    def _required_cuda(self) -> str:
        """The CUDA major of the required NVIDIA wheels, or else of those that extras bring.

        Empty for none, or several.
        """
        return _cuda_of(self._requirements) or _cuda_of(self._every_requirement)

    def _judge_page(self) -> Iterator[Reason]:
        offer = self.offer
        if offer.yanked is not None:
            yield against("yanked", f"it was yanked: {offer.yanked}")
        if offer.version.is_prerelease and not self.wanted.specifier.prereleases:
            yield against("prerelease", f"{offer.version} is a pre-release; --pre allows them")
        requires = offer.requires_python
        requires = requires or "".join(header(self.facts.metadata or "", "requires-python")[:1])
        with contextlib.suppress(InvalidSpecifier):  # installers ignore invalid ones
            yield from self._judge_release("python", "Python", requires)
        if self.facts.unread:
            text = f"its requirements can't be read: {self.facts.unread}"
            yield Reason(kind="metadata", text=text, is_against=self.facts.is_unusable)

    def _judge_frameworks(self) -> Iterator[Reason]:
        for requirement in self._requirements:
            name, versions = str(canonicalize_name(requirement.name)), requirement.specifier
            if name not in FRAMEWORKS or name == self._project or not str(versions):
                continue
            if self.machine.framework(name):
                yield from self._judge_release("framework", name, str(versions))
            elif not self.machine.is_here:
                text = f"it requires {name}{versions}, but the machine's {name} isn't known"
                yield unknown("framework", text)
        for framework in ("torch", "jax"):
            yield from self._judge_declared(framework)
        yield from self._judge_unstated_torch()

    def _judge_release(self, kind: Kind, name: str, versions: str) -> Iterator[Reason]:
        """Yield that the machine's release doesn't meet a requirement, or not all of its line."""
        is_python, machine = kind == "python", self.machine
        here = machine.python if is_python else machine.framework(name)
        requires = f"it requires {name}{' ' * is_python}{versions}"
        end = f"this is {here}" if is_python else f"but {name} {here} {self._is_there}"
        share = share_that_meets(here, SpecifierSet(versions))
        if share == "none":
            yield against(kind, f"{requires}, {end}")
        elif share == "some":
            yield unknown(kind, f"{requires}, which not every {name} {here} meets")

    def _judge_unstated_torch(self) -> Iterator[Reason]:
        """Yield that a compiled wheel about PyTorch states no release of it, which may decide."""
        here, metadata = self.machine.framework("torch"), self.facts.metadata or ""
        if here and self.facts.contents and self.facts.contents.torch:
            yield from self._judge_symbols(here, self.facts.contents.torch)
            return
        limits = (item.specifier for item in self._requirements if item.name == "torch")
        is_stated = self._declared.get("torch") or any(map(str, limits))
        is_compiled = all(tag.platform != "any" and tag.abi != "none" for tag in self._tags)
        is_about = "torch" in self._project or bool(_TORCH.search(metadata))
        if here and is_compiled and is_about and not is_stated and self._project != "torch":
            text = f"it states no torch that it was built for, and torch {here} {self._is_there}; "
            yield unknown("framework", f"{text}`nox -s audit -- WHEEL` reads its symbols")

    def _judge_symbols(self, here: str, torch: tuple[str, ...]) -> Iterator[Reason]:
        """Yield that the machine's PyTorch lacks symbols, by the wheel's file."""
        known = map(minor_of, torch_exports().releases)
        if minor_of(here) in known and minor_of(here) not in torch:
            text = f"torch {here} lacks symbols that it needs: it loads with "
            yield against("framework", text + describe_releases(torch))

    def _judge_declared(self, name: str) -> Iterator[Reason]:
        built_for, here = self._declared.get(name), self.machine.framework(name)
        if not built_for or name == self._project:
            return
        built = f"it was built for {name} {built_for}"
        if not here:
            self._needs.append(f"{name}=={built_for}.*")
            if not self.machine.is_here:
                yield unknown("framework", f"{built}, but the machine's isn't known")
        elif version_key(here)[:2] != version_key(built_for):
            if name == "torch" and self._loads_with(here):
                text = f"{built} and loads with {here}, which has all symbols that it needs; "
                yield unknown("framework", f"{text}layouts of classes weren't compared")
            else:
                yield against("framework", f"{built}, but {name} {here} {self._is_there}")
        elif name == "torch" and (abi := self._declared.get("cxx11_abi")):
            has, own = f"it has CXX11_ABI={abi.upper()}", self.machine.cxx11_abi
            if own is None:
                yield unknown("string-abi", f"{has}, but that of torch {here} isn't known")
            elif own is not (abi == "true"):
                yield against("string-abi", f"{has}, but torch {here} has the other one")

    def _loads_with(self, torch: str) -> bool:
        """Return True if a release of PyTorch has all symbols of the wheel, by its file."""
        contents = self.facts.contents
        return contents is not None and minor_of(torch) in contents.torch

    def _judge_cuda(self) -> Iterator[Reason]:
        if not self._cuda:
            text = "its CUDA release isn't known: name, METADATA and provenance don't state it"
            yield from () if self._declared.get("device") else (unknown("cuda", text),)
            return
        major, here, by = self._cuda.partition(".")[0], self.machine.cuda, self.machine.cuda_of
        if by != self._project and here:
            built = (
                f"it was built for CUDA {self._cuda}, but {f'{by} here' if by else 'the machine'}"
            )
            if here == CPU_ONLY:
                yield against("cuda", f"{built} was built without CUDA")
            elif here.partition(".")[0] != major:
                yield against("cuda", f"{built} has CUDA {here}")
        contents, driver = self.facts.contents, self.machine.driver
        least = oldest_driver(int(major))
        needs = f"CUDA {major} needs driver {least} or newer"
        if contents and contents.drivers:
            least = min(contents.drivers, key=version_key)
            by = f", by {self._read} of its file" if self._read else ""
            needs = f"its code needs driver {least} or newer{by}"
        if least and not driver:
            yield unknown("driver", f"{needs}, but no driver is known")
        elif is_older(driver, least):
            yield against("driver", f"{needs}, this is {driver}")

    def _judge_archs(self) -> Iterator[Reason]:
        if self._declared.get("device") and not self._cuda:
            return
        archs, has = self.machine.archs, f"it has code for {describe_code(self._code)}"
        if not self._has_code:
            if self.facts.contents and not self._read:
                return  # it has none of its own
            text = "it isn't known for which GPUs it has code: neither an index nor provenance "
            read = f", and {self._read} of its file don't show it" if self._read else ""
            yield unknown("arch", f"{text}states it{read}")
            return
        if self._read:
            yield unknown("arch", f"{has}, by {self._read} of its file; the rest wasn't read")
            return
        if not archs:
            yield unknown("arch", f"{has}, but no GPU is known")
        for arch in archs:
            if not runs_on(self._code, arch):
                yield against("arch", f"{has}, but the GPU is sm_{arch}")
            elif fault := code_fault(self._code, arch, self.machine.driver):
                yield self._judge_code_fault(f"{fault}, this is {self.machine.driver}")

    def _judge_code_fault(self, text: str) -> Reason:
        """Return what an old driver means: of libraries for several CUDA majors, one is loaded."""
        if self.facts.contents and len(self.facts.contents.cuda) > 1:
            return unknown("driver", f"{text}; it may be that of a library for another CUDA")
        return against("driver", text)


def _cuda_of(requirements: Iterable[Requirement]) -> str:
    """Return the only CUDA major of the NVIDIA wheels; empty: there is none, or several."""
    majors = set()
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        if wheel := _NVIDIA_WHEEL.fullmatch(name):
            majors.add(wheel[1])
        elif name == _TOOLKIT_WHEEL:
            majors |= {part.version.partition(".")[0] for part in requirement.specifier}
    return majors.pop() if len(majors) == 1 and min(majors).isdecimal() else ""


def _archs(stated: object) -> tuple[str, ...]:
    return tuple(filter(is_arch, map(str, stated))) if isinstance(stated, list) else ()


def _marker_environment(machine: TargetMachine) -> dict[str, str]:
    python = machine.python
    return {
        "implementation_name": "pypy" if machine.pypy_abi else "cpython",
        "platform_machine": machine.platform,
        "platform_python_implementation": "PyPy" if machine.pypy_abi else "CPython",
        "platform_system": "Linux",
        "python_full_version": newest_of(python),
        "python_version": ".".join(python.split(".")[:2]),
        "os_name": "posix",
        "sys_platform": "linux",
    }
