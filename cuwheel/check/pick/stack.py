"""The newest Python, PyTorch and CUDA for which several packages all have a wheel.

Cells are tried from the newest PyTorch, CUDA and Python down. Each wheel of a cell is judged as
`pick` judges it; which of the fitting wheels go together is decided by an installer, which the
caller runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from cuwheel.base.fetch.indexes.cuda_lines import cuda_of_line, line_of
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.formats.wheel.metadata import header
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.drivers import is_older, oldest_driver
from cuwheel.check.cuda.frameworks import torch_toolkit
from cuwheel.check.cuda.torch_exports import minor_of
from cuwheel.check.pick.choice import Offers, best_first, read_facts, with_contents
from cuwheel.check.pick.contents import is_remote
from cuwheel.check.pick.declarations import declared
from cuwheel.check.pick.fit import Judgement, RemoteWheelFacts, WheelJudge
from cuwheel.check.pick.machine import TargetMachine
from cuwheel.check.pick.release_lines import share_that_meets
from cuwheel.check.pick.tags import fit_tags

TORCH = "torch"
_PYTHON = re.compile(r"cp3(\d+)")
_REQUIRES_TORCH = re.compile(r"torch(?![\w-])(?!.*\bextra\b)")
_MOST_READ = 8  # wheels of a project in a cell, the newest that may fit
_OLDEST_PYTHON = 9  # of Python 3: older ones have no supported release
_NO_WHEEL = 50  # the weight of a package without any wheel for a Python and machine
_MOST_PYTHONS = 2  # that are tried of a PyTorch whose wheels don't go together with others
_MOST_CONFLICTS = 6  # runs of an installer's resolver that fail; each takes seconds


@dataclass(frozen=True, kw_only=True)
class StackCell:
    """A Python, a PyTorch and its CUDA.

    Attributes:
        python: `3.12`.
        torch: its version, `2.11.0+cu126`; empty: the packages don't need it.
        cuda: that PyTorch was built with; empty: unknown.
    """

    python: str
    torch: str = ""
    cuda: str = ""

    @property
    def rank(self) -> tuple[tuple[int, ...], ...]:
        """A key: the newest is the greatest."""
        torch = self.torch.partition("+")[0] or "0"
        return version_key(torch), version_key(self.cuda or "0"), version_key(self.python)

    def __str__(self) -> str:
        torch = f", torch {self.torch}" if self.torch else ""
        return f"Python {self.python}{torch}" + (f", CUDA {self.cuda}" if self.cuda else "")


@dataclass(frozen=True, kw_only=True)
class MissingWheel:
    """A package without a fitting wheel in a cell.

    Attributes:
        project: normalised name.
        why: no wheel fits.
        sdist: file name of its newest source; empty: there is none.
        weight: the distance of the nearest wheel from fitting.
        can_be_built: a recipe builds one for the cell.
    """

    project: str
    why: str
    sdist: str = ""
    weight: int = _NO_WHEEL
    can_be_built: bool = False


@dataclass(frozen=True, kw_only=True)
class StackFit:
    """The wheels of a cell.

    Attributes:
        machine: the machine with the cell's Python, PyTorch and CUDA.
        wheels: the newest fitting one of each project.
        fitting: those of each project among which an installer may choose, the best first.
        conflict: the installer's reason why the wheels don't go together; empty: none is known.
    """

    cell: StackCell
    machine: TargetMachine
    wheels: Mapping[str, Judgement]
    fitting: Mapping[str, tuple[Judgement, ...]]
    missing: tuple[MissingWheel, ...]
    conflict: str = ""

    @property
    def distance(self) -> tuple[int, int, int]:
        """A key: how many packages lack a recipe too, or a wheel, and how far these are from it."""
        unbuilt = sum(not wheel.can_be_built for wheel in self.missing)
        return unbuilt, len(self.missing), sum(wheel.weight for wheel in self.missing)

    @property
    def is_complete(self) -> bool:
        """True if each package has a wheel, and nothing is known against them together."""
        return not self.missing and not self.conflict


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What of a stack is decided already.

    Attributes:
        pythons: `3.12`; empty: any that PyTorch has wheels for.
        torch: a release, `2.11`; empty: any.
        cuda: a release or a major; empty: any.
    """

    pythons: tuple[str, ...] = ()
    torch: str = ""
    cuda: str = ""


class StackSearch:
    """The search of cells in which packages have wheels.

    Args:
        wanted: requirements by project; PyTorch may be among them.
        offers: of each of them, and of PyTorch, all with the caller's own and known sources.
        machine: its Python, frameworks and CUDA aren't used.
        can_build: returns whether a recipe builds a requirement for a machine.
    """

    def __init__(
        self,
        wanted: Mapping[str, Requirement],
        offers: Mapping[str, Offers],
        machine: TargetMachine,
        limits: Limits,
        can_build: Callable[[Requirement, TargetMachine], bool] = lambda *_: False,
    ) -> None:
        self._wanted = {name: wanted.get(name, Requirement(name)) for name in (*wanted, TORCH)}
        self._offers = offers
        self._base = machine
        self._limits = limits
        self._can_build = can_build
        self._facts: dict[str, RemoteWheelFacts] = {}
        self._whole: set[str] = set()
        self._tags: dict[str, frozenset[Tag]] = {}
        self._matching: dict[tuple[str, str], tuple[Offer, ...]] = {}
        self.projects = tuple(wanted)

    @cached_property
    def needs_torch(self) -> bool:
        """True if a package is built for PyTorch or requires it, or none has a wheel to tell."""
        if TORCH in self.projects:
            return True
        newest = [wheels[0] for name in self.projects if (wheels := self._wheels(name))]
        self._read(newest)
        metadata = (self._facts[offer.url].metadata or "" for offer in newest)
        declares = (
            "torch" in declared(name, offer.version)
            for name in self.projects
            for offer in self._wheels(name)
        )
        if not newest:
            return bool(self._wheels(TORCH))
        lines = (line for text in metadata for line in header(text, "requires-dist"))
        return any(declares) or any(map(_REQUIRES_TORCH.match, lines))

    def cells(self) -> Iterator[StackCell]:
        """Yield the cells that the machine's driver and C library allow, the newest first."""
        yield from sorted(self._every_cell(), key=lambda cell: cell.rank, reverse=True)

    def fit(self, cell: StackCell, *, is_thorough: bool = False) -> StackFit:
        """Judge the wheels of a cell.

        Only names are, without METADATA, if these show that a package has none.

        Args:
            is_thorough: METADATA of all wheels that may fit is read.
        """
        machine = self._machine(cell)
        if why := self._driver_fault(cell):
            return StackFit(
                cell=cell,
                machine=machine,
                wheels={},
                fitting={},
                missing=(MissingWheel(project=TORCH, why=why, weight=0),),
            )
        projects = (*self.projects, *([TORCH] if cell.torch and TORCH not in self.projects else []))
        named = {name: self._named(name, cell, machine) for name in projects}
        fitting = {
            name: tuple(wheel for wheel in wheels if wheel.fits) for name, wheels in named.items()
        }
        by_name = fitting
        if is_thorough or all(fitting.values()):
            most = _MOST_READ if is_thorough else 1
            others = [wheels for name, wheels in fitting.items() if name != TORCH]
            self._read(wheel.offer for wheels in others for wheel in wheels[:most])
            fitting = {
                name: wheels if name == TORCH else self._confirmed(wheels, machine, most=most)
                for name, wheels in fitting.items()
            }
        missing = (name for name, wheels in fitting.items() if not wheels)
        return StackFit(
            cell=cell,
            machine=machine,
            wheels={name: wheels[0] for name, wheels in fitting.items() if wheels},
            fitting={
                name: self._choices(name, wheels, by_name[name]) for name, wheels in fitting.items()
            },
            missing=tuple(self._missing(name, named[name], machine) for name in missing),
        )

    def _choices(
        self, project: str, confirmed: tuple[Judgement, ...], by_name: Iterable[Judgement]
    ) -> tuple[Judgement, ...]:
        """Return the wheels among which an installer may choose: of own indexes, if these have any.

        Without a framework older ones too, which fit by their names: others may require these.
        """
        wheels = confirmed
        if confirmed and not any(wheel.is_of_framework for wheel in confirmed):
            unread = (wheel for wheel in by_name if wheel.offer.url not in self._facts)
            wheels = (*confirmed, *unread)
        source_of = self._offers[project].source_of
        return tuple(wheel for wheel in wheels if not source_of(wheel.offer)) or wheels

    def _driver_fault(self, cell: StackCell) -> str:
        """Return why the machine's driver is too old for a cell's CUDA; empty: it isn't."""
        major = cell.cuda.partition(".")[0]
        least = oldest_driver(int(major)) if major.isdigit() else ""
        if not is_older(self._base.driver, least):
            return ""
        return f"CUDA {major} needs driver {least} or newer, this is {self._base.driver}"

    def _every_cell(self) -> Iterator[StackCell]:
        if not self.needs_torch:
            pythons = self._limits.pythons or self._pythons(self.projects)
            yield from (StackCell(python=python, cuda=self._limits.cuda) for python in pythons)
            return
        newest: dict[tuple[str, str], Offer] = {}
        for offer in self._wheels(TORCH):  # the newest of each minor release and CUDA line
            if self._limits.torch and not _is_meant(self._limits.torch, offer):
                continue
            newest.setdefault((minor_of(str(offer.version)), line_of(str(offer.version))), offer)
        for (minor, line), offer in newest.items():
            release = cuda_of_line(line) or torch_toolkit(minor)
            if self._is_within(minor, release) and not declared(TORCH, offer.version).get("device"):
                for python in self._limits.pythons or self._pythons((TORCH,)):
                    yield StackCell(python=python, torch=str(offer.version), cuda=release)

    def _is_within(self, minor: str, cuda: str) -> bool:
        limits = self._limits
        is_torch = not limits.torch or minor == minor_of(limits.torch)
        if not limits.cuda:
            return is_torch
        return is_torch and f"{cuda}.".startswith(f"{limits.cuda}.")

    def _pythons(self, projects: Iterable[str]) -> tuple[str, ...]:
        """Return the Pythons that projects have wheels for; this one if these are for any."""
        minors = {
            int(match[1])
            for name in projects
            for offer in self._wheels(name)
            for tag in self._tags_of(offer)
            if (match := _PYTHON.fullmatch(tag.abi))
        }
        known = tuple(f"3.{minor}" for minor in sorted(minors) if minor >= _OLDEST_PYTHON)
        return known or (".".join(map(str, self._base.release)),)

    def _machine(self, cell: StackCell) -> TargetMachine:
        return replace(
            self._base,
            python=cell.python,
            is_free_threaded=False,
            pypy_abi="",
            cuda=cell.cuda,
            cuda_of=TORCH if cell.torch else "",
            frameworks={TORCH: cell.torch} if cell.torch else {},
            is_planned=True,
        )

    def _wheels(self, project: str) -> tuple[Offer, ...]:
        """Return the wheels of a project, the highest version first."""
        files = (offer for offer in self._offers[project].files if offer.is_wheel)
        specifier = self._wanted[project].specifier
        allowed = (
            offer
            for offer in files
            if specifier.contains(offer.version, prereleases=True) and offer.yanked is None
        )
        allowed = (
            offer for offer in allowed if specifier.prereleases or not offer.version.is_prerelease
        )
        return tuple(sorted(allowed, key=lambda offer: offer.version, reverse=True))

    def _tags_of(self, offer: Offer) -> frozenset[Tag]:
        if offer.name not in self._tags:
            self._tags[offer.name] = parse_wheel_filename(offer.name)[3]
        return self._tags[offer.name]

    def _named(
        self, project: str, cell: StackCell, machine: TargetMachine
    ) -> tuple[Judgement, ...]:
        """Return a project's wheels for the cell's Python, judged by their names, the best first.

        Those of the caller's own indexes come first: a known source is used where they have none.
        """
        key = (project, cell.python)
        if key not in self._matching:
            wheels = self._wheels(project)
            fits = (fit_tags(self._tags_of(offer), machine).fits for offer in wheels)
            self._matching[key] = tuple(
                offer for offer, is_fit in zip(wheels, fits, strict=True) if is_fit
            )
        offers = self._matching[key]
        if project == TORCH and cell.torch:  # several CUDA lines may have the release
            offers = tuple(offer for offer in offers if str(offer.version) == cell.torch)
        judged = [self._judge(offer, machine, has_facts=False) for offer in offers]
        if project == TORCH:
            judged = [_with_cuda(wheel, cell.cuda) for wheel in judged]
        source_of = self._offers[project].source_of
        own = [wheel for wheel in judged if not source_of(wheel.offer)]
        others = [wheel for wheel in judged if source_of(wheel.offer)]
        return (*best_first(own), *best_first(others))

    def _judge(self, offer: Offer, machine: TargetMachine, *, has_facts: bool = True) -> Judgement:
        facts = self._facts[offer.url] if has_facts else RemoteWheelFacts()
        project = parse_wheel_filename(offer.name)[0]
        return WheelJudge(offer, machine, facts, self._wanted[project]).judge()

    def _read(self, offers: Iterable[Offer]) -> None:
        """Read the facts of wheels, each once."""
        unread = [offer for offer in offers if offer.url not in self._facts]
        facts = run_all([partial(read_facts, offer) for offer in unread], Stop())
        self._facts |= {offer.url: known for offer, known in zip(unread, facts, strict=True)}

    def _confirmed(
        self, named: Iterable[Judgement], machine: TargetMachine, *, most: int
    ) -> tuple[Judgement, ...]:
        """Return the first wheels that fit by all that can be read of them."""
        may_fit = [wheel.offer for wheel in named]
        confirmed: list[Judgement] = []
        while may_fit and len(confirmed) < most:
            batch, may_fit = may_fit[:most], may_fit[most:]
            self._read(batch)
            for offer in batch:
                wheel = self._judge(offer, machine)
                if wheel.fits and is_remote(offer) and offer.url not in self._whole:
                    self._facts[offer.url] = with_contents(self._facts[offer.url], offer)
                    self._whole.add(offer.url)
                    wheel = self._judge(offer, machine)
                confirmed += [wheel] if wheel.fits else []
        return tuple(confirmed)

    def _missing(
        self, project: str, named: Iterable[Judgement], machine: TargetMachine
    ) -> MissingWheel:
        files, silent = self._offers[project].files, self._offers[project].silent
        sdists = [offer for offer in files if not offer.is_wheel]
        sdist = max(sdists, key=lambda offer: offer.version, default=None)
        nearest = min(named, key=lambda wheel: wheel.weight, default=None)
        if nearest and nearest.fits:  # only METADATA, or its file, speaks against it
            self._read([nearest.offer])
            nearest = self._judge(nearest.offer, machine)
        why = f"{nearest.offer.name}: {nearest.reasons[0].text}" if nearest else ""
        if not why:
            has_wheels = any(offer.is_wheel for offer in files)
            python = f"Python {'.'.join(map(str, machine.release))} on this kind of machine"
            place = "no index that answered" if silent else "no index"
            limits = self._wanted[project].specifier
            name = f"a release {limits} of it" if str(limits) else "it"
            kind = f"a wheel for {python}" if has_wheels else "a wheel of it" if files else name
            why = f"{place} has {kind}"
        elif silent:
            why += f"; {silent}"
        return MissingWheel(
            project=project,
            why=why,
            sdist=sdist.name if sdist else "",
            weight=nearest.weight if nearest else _NO_WHEEL,
            can_be_built=self._can_build(self._wanted[project], machine),
        )


def _is_meant(release: str, torch: Offer) -> bool:
    """Return True for a wheel of a release of PyTorch, or of its line, for any CUDA."""
    return share_that_meets(release, SpecifierSet(f"=={torch.version.public}")) != "none"


def _with_cuda(torch: Judgement, cuda: str) -> Judgement:
    """Return a wheel of PyTorch with its known CUDA release, without reading METADATA for it."""
    if not cuda:
        return torch
    unknown = tuple(reason for reason in torch.unknown if reason.kind != "cuda")
    return replace(torch, cuda=cuda, unknown=unknown)


@dataclass(frozen=True, kw_only=True)
class StackChoice:
    """The result of a search.

    Attributes:
        best: the newest cell with all wheels, else the one that lacks fewest, where recipes build
            what it lacks if there is such a cell; None: no cell.
        runner_up: the next one of another PyTorch or CUDA with all wheels; not resolved.
        newer: for each newer PyTorch, its cell that lacks fewest; the newest first.
    """

    best: StackFit | None
    runner_up: StackCell | None = None
    newer: tuple[StackFit, ...] = ()


def find_stack(search: StackSearch, try_together: Callable[[StackFit], str]) -> StackChoice:
    """Find the newest cell in which each package has a wheel, and these go together.

    Args:
        try_together: runs an installer's resolver on a cell's wheels; returns why they don't go
            together; empty: they do.
    """
    best: StackFit | None = None
    lacking: list[StackFit] = []
    for cell in search.cells():
        conflicts = [fit.cell for fit in lacking if fit.conflict]
        if len(conflicts) >= _MOST_CONFLICTS:
            break
        if sum(not _differs(cell, other) for other in conflicts) >= _MOST_PYTHONS:
            continue
        if best and not _differs(cell, best.cell):
            continue
        fit = search.fit(cell)
        if best is None and fit.is_complete:
            fit = search.fit(cell, is_thorough=True)
            fit = replace(fit, conflict=try_together(fit) if fit.is_complete else "")
            best = fit if fit.is_complete else None
        elif best and fit.is_complete:
            return StackChoice(best=best, runner_up=cell, newer=_newer(lacking, best))
        lacking += [] if best else [fit]
    nearest = best or min(
        lacking, key=lambda fit: fit.distance, default=None
    )  # the newest of equals
    if nearest is None:
        return StackChoice(best=None)
    best = best or search.fit(nearest.cell, is_thorough=True)
    best = replace(best, conflict=nearest.conflict)
    return StackChoice(best=best, newer=_newer(lacking, best))


def _differs(cell: StackCell, other: StackCell) -> bool:
    if not cell.torch:
        return cell.python != other.python
    return (cell.torch, cell.cuda) != (other.torch, other.cuda)


def _newer(lacking: Iterable[StackFit], best: StackFit) -> tuple[StackFit, ...]:
    """Return the cell that lacks fewest of each PyTorch that is newer, or newer Python without."""
    nearest: dict[str, StackFit] = {}
    for fit in lacking:
        cell = fit.cell
        name = cell.torch or cell.python
        known = nearest.get(name)
        if cell.rank > best.cell.rank and name != (best.cell.torch or best.cell.python):
            nearest[name] = fit if known is None or fit.distance < known.distance else known
    return tuple(nearest.values())
