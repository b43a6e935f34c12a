"""Which locks there are: the engine's own, the toolchains', the Pythons', and the recipes'."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuwheel.conda.environment_file import name_of_lock
from cuwheel.errors import LockError, UsageError, nearest, suggest
from cuwheel.model.catalogue import how_to_draft, refuse_broken
from cuwheel.model.recipe import Framework
from cuwheel.model.recipe_lock import RecipeLock, locks_of
from cuwheel.paths import ROOT, find_lock, is_checkout, project_roots
from cuwheel.pypi.lock_file import as_input, faults_of_lock, read_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.target import Target


_TOOLCHAIN_LOCKS = {"pypi": "pypi.lock", "conda": "conda-lock.yml"}  # by provider

COOLDOWN = 7  # days that a release has to have been public before it is considered

# cuwheel's own, which its repository alone writes.
_OWN = ("clients", "engine", "dev", "lock", "nox", "perf", "report", "sigstore", "site", "twine")
_OLDEST_PYTHON = "3.10"  # that the engine itself runs on


@dataclass(frozen=True, kw_only=True)
class PypiLockSpec:
    """One lock file and what it is made from.

    Attributes:
        name: `engine`, `dev`, `toolchain:130:pypi`, `build:<recipe>` or `smoke:<recipe>`, with
            `:cu13` behind it where it is for one major release of CUDA.
        source: the `.in` file, or what a recipe declares.
        lock: the file to write.
        python: the oldest Python that it has to serve, `3.10`.
        pythons: those that the framework in it has wheels for; empty: not asked, or it has none.
    """

    name: str
    source: Path | RecipeLock
    lock: Path
    python: str
    pythons: tuple[str, ...] = ()

    @property
    def input_text(self) -> str:
        """What it is made from, as the resolver gets it.

        Raises:
            LockError: the `.in` file isn't there.
            UsageError: the recipe links a component that there isn't.
        """
        if isinstance(self.source, RecipeLock):
            return as_input(self.source.requirements)
        return read_input(self.source)

    @property
    def command(self) -> str:
        """What a person types to write this lock again."""
        if isinstance(self.source, RecipeLock):
            return self.source.command
        return f"nox -s lock -- {self.name}"


@dataclass(frozen=True, kw_only=True)
class CondaLockSpec:
    """One conda lock and what it is made from.

    Attributes:
        name: `toolchain:122:conda` or `python:312`.
        source: the `environment.yml`.
        lock: the `conda-lock.yml` to write.
    """

    name: str
    source: Path
    lock: Path

    @property
    def command(self) -> str:
        """What a person types to write this lock again."""
        return f"nox -s lock -- {self.name}"


def lock_jobs(
    names: Iterable[str], entries: tuple[CatalogueEntry, ...], framework: Framework | None = None
) -> tuple[PypiLockSpec | CondaLockSpec, ...]:
    """The locks that these names stand for.

    Args:
        names: as on the command line; `all` stands for every one, `toolchain:130` for those of
            all its providers.
        entries: the catalogue.
        framework: for `build:` locks, instead of the recipe's own.

    Raises:
        UsageError: a name is unknown; the message names the nearest.
        RecipeError: it is a lock of a recipe whose module can't be loaded.
    """
    known = _all_jobs(entries)
    chosen = (
        _with_framework(job, framework) for name in names for job in _named(name, known, entries)
    )
    return tuple(dict.fromkeys(chosen))


def conda_jobs(names: Iterable[str], roots: tuple[Path, ...]) -> tuple[CondaLockSpec, ...]:
    """The conda locks that these names stand for.

    Args:
        names: as on the command line: `122`, `toolchain:122`, `python:312` or `all`.
        roots: the project folders.

    Raises:
        UsageError: a name is unknown; the message names the nearest.
    """
    known: list[PypiLockSpec | CondaLockSpec] = [*_conda_jobs(roots)]
    full = [f"toolchain:{name}" if name.isdecimal() else name for name in names]
    chosen = dict.fromkeys(job for name in full for job in _named(name, known))
    return tuple(job for job in chosen if isinstance(job, CondaLockSpec))


def _named(
    name: str,
    known: list[PypiLockSpec | CondaLockSpec],
    entries: Iterable[CatalogueEntry] = (),
) -> list[PypiLockSpec | CondaLockSpec]:
    if name == "all":
        return known
    # `toolchain:130` is what all providers of it share; `toolchain` alone names none.
    is_part = ":" in name
    found = [
        job for job in known if job.name == name or (is_part and job.name.startswith(f"{name}:"))
    ]
    if not found:
        names = [*dict.fromkeys(job.name for job in known)]
        kind, _, package = name.partition(":")
        recipes = {job.name.split(":")[1] for job in known if job.name.startswith("build:")}
        refuse_broken(package or name, entries)
        if own := [one for one in names if one.split(":")[1:2] == [name]]:
            raise UsageError(
                f'no lock is called "{name}"',
                why=f"the recipe {name} has {', '.join(own)}",
                fix=f"nox -s lock -- {' '.join(own)}",
            )
        if kind in {"build", "smoke"} and package and not nearest(package, recipes):
            raise UsageError(
                f'there is no lock "{name}"',
                why=f"there is no recipe of {package}",
                fix=how_to_draft(package),
            )
        raise UsageError(
            f'there is no lock "{name}"',
            why=suggest(name, [*names, "all"]),
            fix=f"nox -s lock -- {near}"
            if (near := nearest(name, [*names, "all"]))
            else f"one of {', '.join(names)}, all",
        )
    return found


def toolchain_lock(target: Target) -> Path | None:
    """The lock of a target's toolchain; None where there is none, or it's the machine's toolkit."""
    name = _TOOLCHAIN_LOCKS.get(target.provider)
    return find_lock(f"cuda{target.toolkit.tag}/{name}", project_roots()) if name else None


def check_target_lock(target: Target) -> None:
    """See that the locks of a target are there and match what its recipe declares.

    Raises:
        LockError: with every fault of all that don't, and the command that writes them again.
    """
    served = (other.locked_smoke for other in target.served)
    declared = dict.fromkeys((target.locked_build, target.locked_smoke, *served))
    faults = {
        one: found
        for one in declared
        if (found := faults_of_lock(target.root / one.path, as_input(one.requirements)))
    }
    if not faults:
        return
    if len(faults) == 1:
        [(only, lines)] = faults.items()
        what, whose = f"the lock {only.path} can't be used", "its"
    else:
        what, whose = f"{len(faults)} locks can't be used", "their"
        lines = [f"{one.path}: {line}" for one, found in faults.items() for line in found]
    raise LockError(
        f"{target.id}: {what}",
        why="\n".join((*lines, f"{whose} input is the declarations in {target.recipe.module}")),
        fix=_command_for(faults),
    )


def _command_for(declared: Iterable[RecipeLock]) -> str:
    """One command that writes several locks again, or two where one asks for another framework."""
    names: dict[str, list[str]] = {}
    for one in declared:
        _, _, options = one.command.partition(f" -- {one.name}")
        names.setdefault(options, []).append(one.name)
    return "; ".join(f"nox -s lock -- {' '.join(one)}{more}" for more, one in names.items())


def _all_jobs(entries: tuple[CatalogueEntry, ...]) -> list[PypiLockSpec | CondaLockSpec]:
    envs = ROOT / "envs"
    jobs: list[PypiLockSpec | CondaLockSpec] = [
        PypiLockSpec(
            name=name,
            source=envs / f"{name}.in",
            lock=envs / f"{name}.lock",
            python=_OLDEST_PYTHON,
        )
        for name in (_OWN if is_checkout() else ())
    ]
    roots = tuple(root for root in project_roots() if root != ROOT or is_checkout())
    jobs += _toolchain_jobs(roots)
    jobs += _conda_jobs(roots)
    for entry in entries:
        if entry.recipe:  # its build lock and smoke lock, or those for single majors of CUDA
            declared = locks_of(entry.recipe)
            kept = (one for lock in declared for one in _kept_beside(lock, entry.root))
            jobs += [spec_of(lock, entry.root) for lock in dict.fromkeys((*declared, *kept))]
    return jobs


def _kept_beside(declared: RecipeLock, root: Path) -> Iterator[RecipeLock]:
    """The same lock for other releases of the framework, as far as there are files."""
    if declared.framework is None:
        return
    name = declared.framework.name
    pattern = replace(declared, framework=Framework(name=name, version="*")).path
    for path in sorted(root.glob(str(pattern))):
        version = path.name.removesuffix(".lock").rpartition(f"-{name}")[2]
        yield replace(declared, framework=Framework(name=name, version=version))


def _toolchain_jobs(roots: tuple[Path, ...]) -> list[PypiLockSpec]:
    """Those from wheels, of all project folders; the first of two with one name counts."""
    found: dict[str, PypiLockSpec] = {}
    for root in roots:
        for source in sorted((root / "envs").glob("cuda*/pypi.in")):
            name = f"toolchain:{source.parent.name.removeprefix('cuda')}:pypi"
            lock = source.with_suffix(".lock")
            job = PypiLockSpec(name=name, source=source, lock=lock, python=_OLDEST_PYTHON)
            found.setdefault(name, job)
    return list(found.values())


def _conda_jobs(roots: tuple[Path, ...]) -> list[CondaLockSpec]:
    """Those of all project folders; the first of two with one name counts."""
    found: dict[str, CondaLockSpec] = {}
    for root in roots:
        for source in sorted((root / "envs").glob("*/environment.yml")):
            name = name_of_lock(source.parent.name)
            job = CondaLockSpec(name=name, source=source, lock=source.with_name("conda-lock.yml"))
            found.setdefault(name, job)
    return list(found.values())


def spec_of(declared: RecipeLock, root: Path) -> PypiLockSpec:
    """The lock file of what a recipe declares, in its project folder."""
    return PypiLockSpec(
        name=declared.name,
        source=declared,
        lock=root / declared.path,
        python=declared.recipe.oldest_python,
    )


def _with_framework(
    job: PypiLockSpec | CondaLockSpec, framework: Framework | None
) -> PypiLockSpec | CondaLockSpec:
    if framework is None:
        return job
    declared = job.source
    if not isinstance(declared, RecipeLock) or declared.framework is None:
        raise UsageError(
            f"--framework can't be used with {job.name}",
            why="only locks of recipes that are compiled against a framework contain one",
            fix="leave it out, or name such a lock, e.g. build:causal-conv1d",
        )
    root = job.lock.parents[len(declared.path.parts) - 1]
    return spec_of(replace(declared, framework=framework), root)
