"""Whether a wheel fits a machine, as far as its name, METADATA and provenance say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel.binaries.archs import DeviceCode, describe_code, is_arch, runs_on
from cuwheel.cuda.toolkits import oldest_driver
from cuwheel.pick.declarations import declared
from cuwheel.pick.machine import CPU_ONLY, FRAMEWORKS
from cuwheel.pick.reason import Reason
from cuwheel.pick.tags import fit_tags
from cuwheel.system.versions import version_key
from cuwheel.wheel.metadata import header, parse_requirement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.requirements import Requirement

    from cuwheel.pick.machine import TargetMachine
    from cuwheel.pypi.offers import Offer

_NVIDIA_WHEEL = re.compile(r"nvidia-[a-z-]+-cu(\d\d)")
_CUDA_EXTRA = re.compile(r"cuda|cu\d\d")
_RELEASE = re.compile(r"\d+\.\d+")  # of CUDA
_TOOLKIT_WHEEL = "cuda-toolkit"  # its version is CUDA's


@dataclass(frozen=True, kw_only=True)
class WheelFacts:
    """What is known of a wheel beside its name.

    Attributes:
        metadata: METADATA; None: it wasn't read.
        unread: why it can't be read.
        is_unusable: it can't since the wheel is gone or damaged.
        statement: the parameters of its provenance: `archs`, `ptx`, `toolkit`; None: there is none.
    """

    metadata: str | None = None
    unread: str = ""
    is_unusable: bool = False
    statement: Mapping[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How a wheel fits.

    Attributes:
        offer: the wheel.
        reasons: why it doesn't; none: it does, as far as is known.
        unknown: what decides and isn't known.
        needs: what has to be installed with it and METADATA doesn't require so: `torch==2.8.*`.
        extras: of its extras those that by their names bring libraries of CUDA.
        cuda: the release or major that it is for, `13.0`, `12`; empty where nobody says.
        archs: what it has code for, in words; empty where nobody says.
        rank: installers take the lowest of one version.
        is_whole: METADATA was read, or can't be.
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

    @property
    def fits(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons

    @property
    def weight(self) -> int:
        """How far it is from fitting."""
        return sum(one.weight for one in self.reasons)


def judge(
    offer: Offer, machine: TargetMachine, facts: WheelFacts, wanted: Requirement
) -> Judgement:
    """Hold a wheel against a machine.

    Args:
        offer: the wheel.
        machine: that it is to fit.
        facts: what is known of it.
        wanted: what a person asked for: versions that count, extras.
    """
    return _Judge(offer, machine, facts, wanted).judge()


@dataclass
class _Judge:
    offer: Offer
    machine: TargetMachine
    facts: WheelFacts
    wanted: Requirement
    _needs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._project, version, _, tags = parse_wheel_filename(self.offer.name)
        self._declared = declared(self._project, version)
        self._tags = tags
        stated = self.facts.statement or {}
        toolkit = str(stated.get("toolkit", ""))
        by_statement = toolkit if _RELEASE.fullmatch(toolkit) else ""
        self._cuda = by_statement or self._declared.get("cuda") or self._required_cuda
        self._code = DeviceCode(sass=_archs(stated.get("archs")), ptx=_archs(stated.get("ptx")))

    def judge(self) -> Judgement:
        tags = fit_tags(self._tags, self.machine)
        found = [*self._judge_page(), *tags.reasons, *tags.unknown]
        found += [*self._judge_frameworks(), *self._judge_build()]
        if self._is_compiled or self._cuda:
            found += [*self._judge_cuda(), *self._judge_archs()]
        else:
            text = "it isn't known whether it has code for GPUs: its tag says any platform"
            found.append(Reason(kind="arch", text=text, is_against=False))
        return Judgement(
            offer=self.offer,
            reasons=tuple(one for one in found if one.is_against),
            unknown=tuple(one for one in found if not one.is_against),
            needs=tuple(self._needs),
            extras=self._gpu_extras,
            cuda=self._cuda,
            archs=describe_code(self._code),
            rank=tags.rank,
            is_whole=self.facts.metadata is not None or bool(self.facts.unread),
        )

    @property
    def _is_compiled(self) -> bool:
        return any(tag.platform != "any" for tag in self._tags)

    @property
    def _requirements(self) -> tuple[Requirement, ...]:
        lines = header(self.facts.metadata or "", "requires-dist")
        found = filter(None, map(parse_requirement, lines))
        return tuple(one for one in found if self._applies(one))

    def _applies(self, one: Requirement) -> bool:
        """Whether a requirement counts on the machine with the extras that are asked for."""
        around = _around(self.machine)
        extras = ("", *self.wanted.extras)
        return one.marker is None or any(
            one.marker.evaluate({**around, "extra": extra}) for extra in extras
        )

    @property
    def _gpu_extras(self) -> tuple[str, ...]:
        """Extras that by their names bring libraries of CUDA."""
        offered = header(self.facts.metadata or "", "provides-extra")
        return tuple(one for one in offered if _CUDA_EXTRA.match(one))

    @property
    def _required_cuda(self) -> str:
        """The CUDA of NVIDIA's wheels that it requires; empty for none, or several."""
        found = set()
        for one in self._requirements:
            name = canonicalize_name(one.name)
            if wheel := _NVIDIA_WHEEL.fullmatch(name):
                found.add(wheel[1])
            elif name == _TOOLKIT_WHEEL:
                found |= {part.version.partition(".")[0] for part in one.specifier}
        return found.pop() if len(found) == 1 and min(found).isdecimal() else ""

    def _judge_page(self) -> Iterator[Reason]:
        offer, python = self.offer, self.machine.python
        if offer.yanked is not None:
            yield Reason(kind="yanked", text=f"it was yanked: {offer.yanked}")
        if offer.version.is_prerelease and not self.wanted.specifier.prereleases:
            text = f"{offer.version} is a pre-release; --pre allows them"
            yield Reason(kind="prerelease", text=text)
        requires = offer.requires_python
        requires = requires or "".join(header(self.facts.metadata or "", "requires-python")[:1])
        if requires and not _contains(requires, python):
            text = f"it requires Python {requires}, this is {python}"
            yield Reason(kind="python", text=text)
        if self.facts.unread:
            text = f"its requirements can't be read: {self.facts.unread}"
            yield Reason(kind="metadata", text=text, is_against=self.facts.is_unusable)

    def _judge_frameworks(self) -> Iterator[Reason]:
        for one in self._requirements:
            name = str(canonicalize_name(one.name))
            here = self.machine.framework(name)
            if name not in FRAMEWORKS or name == self._project or not str(one.specifier):
                continue
            if here and not one.specifier.contains(here, prereleases=True):
                text = f"it requires {name}{one.specifier}, but {name} {here} is installed"
                yield Reason(kind="framework", text=text)
            elif not here and not self.machine.is_here:
                text = f"it requires {name}{one.specifier}, but the machine's {name} isn't known"
                yield Reason(kind="framework", text=text, is_against=False)
        for declared_name in ("torch", "jax"):
            yield from self._judge_declared(declared_name)

    def _judge_declared(self, name: str) -> Iterator[Reason]:
        built_for, here = self._declared.get(name), self.machine.framework(name)
        if not built_for or name == self._project:
            return
        if not here:
            self._needs.append(f"{name}=={built_for}.*")
            if not self.machine.is_here:
                text = f"it was built for {name} {built_for}, but the machine's isn't known"
                yield Reason(kind="framework", text=text, is_against=False)
        elif version_key(here)[:2] != version_key(built_for):
            text = f"it was built for {name} {built_for}, but {name} {here} is installed"
            yield Reason(kind="framework", text=text)
        elif name == "torch":
            yield from self._judge_string_abi(here)

    def _judge_string_abi(self, torch: str) -> Iterator[Reason]:
        stated, here = self._declared.get("cxx11_abi"), self.machine.cxx11_abi
        if not stated:
            return
        if here is None:
            text = f"it has CXX11_ABI={stated.upper()}, but that of torch {torch} isn't known"
            yield Reason(kind="string-abi", text=text, is_against=False)
        elif here is not (stated == "true"):
            text = f"it has CXX11_ABI={stated.upper()}, but torch {torch} has the other one"
            yield Reason(kind="string-abi", text=text)

    def _judge_build(self) -> Iterator[Reason]:
        device = self._declared.get("device")
        if device and not self._cuda and self.machine.cuda != CPU_ONLY:
            yield Reason(kind="device", text=f"it was built for {device}, not for CUDA")

    def _judge_cuda(self) -> Iterator[Reason]:
        if not self._cuda:
            if not self._declared.get("device"):
                text = "its CUDA release isn't known: name, METADATA and provenance don't state it"
                yield Reason(kind="cuda", text=text, is_against=False)
            return
        major, here = self._cuda.partition(".")[0], self.machine.cuda
        by = self.machine.cuda_of
        if by != self._project and here:
            whose = f"{by} here" if by else "the machine"
            if here == CPU_ONLY:
                text = f"it was built for CUDA {self._cuda}, but {whose} was built without CUDA"
                yield Reason(kind="cuda", text=text)
            elif here.partition(".")[0] != major:
                text = f"it was built for CUDA {self._cuda}, but {whose} has CUDA {here}"
                yield Reason(kind="cuda", text=text)
        yield from self._judge_driver(major)

    def _judge_driver(self, major: str) -> Iterator[Reason]:
        least, here = oldest_driver(int(major)), self.machine.driver
        if not least:
            return
        if not here:
            text = f"CUDA {major} needs driver {least} or newer, but no driver is known"
            yield Reason(kind="driver", text=text, is_against=False)
        # `580` on paper stands for any of that branch.
        elif version_key(here) < version_key(least)[: len(version_key(here))]:
            text = f"CUDA {major} needs driver {least} or newer, this is {here}"
            yield Reason(kind="driver", text=text)

    def _judge_archs(self) -> Iterator[Reason]:
        if self._declared.get("device") and not self._cuda:
            return
        code, archs = self._code, self.machine.archs
        if not code.sass and not code.ptx:
            text = (
                "it isn't known for which GPUs it has code: neither an index nor provenance "
                "states it"
            )
            yield Reason(kind="arch", text=text, is_against=False)
        elif not archs:
            text = f"it has code for {describe_code(code)}, but no GPU is known"
            yield Reason(kind="arch", text=text, is_against=False)
        for arch in archs if code.sass or code.ptx else ():
            if not runs_on(code, arch):
                text = f"it has code for {describe_code(code)}, but the GPU is sm_{arch}"
                yield Reason(kind="arch", text=text)


def _archs(stated: object) -> tuple[str, ...]:
    """Archs that somebody's statement names, without what isn't one."""
    return tuple(filter(is_arch, map(str, stated))) if isinstance(stated, list) else ()


def _contains(specifier: str, version: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        return True  # installers pass over what they can't read


def _around(machine: TargetMachine) -> dict[str, str]:
    """What markers are judged by on a machine."""
    python = machine.python
    return {
        "implementation_name": "pypy" if machine.pypy_abi else "cpython",
        "platform_machine": machine.platform,
        "platform_python_implementation": "PyPy" if machine.pypy_abi else "CPython",
        "platform_system": "Linux",
        "python_full_version": python if python.count(".") > 1 else f"{python}.0",
        "python_version": ".".join(python.split(".")[:2]),
        "os_name": "posix",
        "sys_platform": "linux",
    }
