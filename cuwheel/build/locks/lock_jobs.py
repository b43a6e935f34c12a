"""The locks that exist: the engine's own, the toolchains', the Pythons', and the recipes'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from cuwheel.base.errors import LockError, RecipeError, UsageError, nearest, suggest
from cuwheel.base.paths import ROOT, find_lock, is_checkout
from cuwheel.base.system.quantities import plural
from cuwheel.build.environments.lock_file import as_input, faults_of_lock, read_input
from cuwheel.build.recipe.catalogue import CatalogueEntry, how_to_draft, refuse_broken
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.recipe.recipe_lock import RecipeLock, locks_of
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.conda.environment_file import name_of_lock
from cuwheel.build.toolchains.debian import lock_file as debian_lock
from cuwheel.build.toolchains.debian import source_file as debian_source
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import TOOLKITS

LockKind = Literal["pypi", "conda", "debian", "redist"]

_TOOLCHAIN_LOCKS: dict[str, str] = {  # by provider
    "pypi": "pypi.lock",
    "conda": "conda-lock.yml",
    "debian": debian_lock.LOCK_NAME,
    "redist": "redist.lock",
}

# Inputs below envs/, each with what names its lock by the folder.
_SOURCES: dict[LockKind, tuple[str, Callable[[str], str]]] = {
    "pypi": ("cuda*/pypi.in", lambda folder: f"toolchain:{folder.removeprefix('cuda')}:pypi"),
    "conda": ("*/environment.yml", name_of_lock),
    "debian": (f"*/{debian_source.SOURCE_NAME}", debian_source.name_of_lock),
    "redist": ("cuda*/redist.in", lambda folder: f"toolchain:{folder.removeprefix('cuda')}:redist"),
}
COOLDOWN = 7  # days that a release has to have been public before it is considered

# cuwheel's own, which are only written in its repository.
_ENGINE_LOCKS = (
    "clients",
    "engine",
    "dev",
    "lock",
    "mcp",
    "nox",
    "perf",
    "report",
    "sigstore",
    "site",
    "twine",
)
_OLDEST_PYTHON = "3.10"  # on which the engine runs


@dataclass(frozen=True, kw_only=True)
class LockSpec:
    """A lock file and its input.

    Attributes:
        name: `engine`, `toolchain:130:pypi`, `toolchain:122:conda`, `toolchain:124:debian`,
            `toolchain:122:redist`, `host-compiler:gcc12`, `python:312`, `build:<recipe>` or
            `smoke:<recipe>`, with `:cu13` after it if it is for one major release of CUDA.
        source: the `.in` file, the `environment.yml`, `debian.yml` or `redist.in`, or a recipe's
            declaration.
        python: the oldest Python that wheels have to serve, `3.10`; empty where it names files.
        pythons: those that the framework in it has wheels for; empty: not known, or it has none.
    """

    name: str
    source: Path | RecipeLock
    lock: Path
    python: str = ""
    pythons: tuple[str, ...] = ()

    @property
    def kind(self) -> LockKind:
        """The kind of what it pins: wheels, or files of conda's, Debian's or NVIDIA's."""
        names = {pattern.rpartition("/")[2]: kind for kind, (pattern, _) in _SOURCES.items()}
        return names.get(self.source.name, "pypi")

    @property
    def file(self) -> Path:
        """The input of a lock of another kind than a recipe's."""
        return cast("Path", self.source)

    @property
    def input_text(self) -> str:
        """The input for the resolver of wheels.

        Raises:
            LockError: the `.in` file is missing.
            UsageError: the recipe links a component that doesn't exist.
        """
        if isinstance(self.source, RecipeLock):
            return as_input(self.source.requirements)
        return read_input(self.source)

    @property
    def command(self) -> str:
        """The command that writes this lock."""
        if isinstance(self.source, RecipeLock):
            return self.source.command
        return f"nox -s lock -- {self.name}"


def lock_jobs(
    names: Iterable[str],
    entries: tuple[CatalogueEntry, ...],
    framework: Framework | None = None,
    *,
    roots: tuple[Path, ...] = (ROOT,),
) -> tuple[LockSpec, ...]:
    """Return the locks of these names.

    Args:
        names: as on the command line; `all` means every one, `toolchain:130` those of its default
            provider.
        framework: for `build:` locks, instead of the recipe's own.
        roots: the project folders, with the locks of toolchains and Pythons.

    Raises:
        UsageError: a name is unknown; the message names the nearest.
        RecipeError: it is a lock of a recipe whose module can't be loaded.
    """
    known = _all_jobs(entries, roots)
    chosen = (
        _with_framework(job, framework) for name in names for job in _named(name, known, entries)
    )
    return tuple(dict.fromkeys(chosen))


def file_jobs(names: Iterable[str], roots: tuple[Path, ...]) -> tuple[LockSpec, ...]:
    """Return the locks that name files, conda's, redist's and Debian's, by name.

    Args:
        names: `122`, `toolchain:122:redist`, `host-compiler:gcc12`, `python:312` or `all`.

    Raises:
        UsageError: a name is unknown; the message names the nearest.
    """
    known = [job for job in _env_jobs(roots) if job.kind != "pypi"]
    full = [f"toolchain:{name}" if name.isdecimal() else name for name in names]
    return tuple(
        dict.fromkeys(job for name in full for job in _named(name, known, session="lock-verify"))
    )


def _named(
    name: str,
    known: list[LockSpec],
    entries: Iterable[CatalogueEntry] = (),
    session: str = "lock",
) -> list[LockSpec]:
    if name == "all":
        return known
    # `toolchain` alone means none.
    is_part = ":" in name
    jobs = [
        job for job in known if job.name == name or (is_part and job.name.startswith(f"{name}:"))
    ]
    kind, _, tag = name.partition(":")
    if session == "lock" and kind == "toolchain":
        providers = {toolkit.tag: toolkit.provider for toolkit in TOOLKITS}
        provider = providers.get(tag, "")
        kinds = ("debian", "pypi") if provider == "debian" else (provider,)  # with its libraries
        jobs = [job for job in jobs if job.name.rpartition(":")[2] in kinds] or jobs
    if not jobs:
        names = [*dict.fromkeys(job.name for job in known)]
        raise _unknown_lock(name, names, entries, session)
    return jobs


def _unknown_lock(
    name: str, names: list[str], entries: Iterable[CatalogueEntry], session: str
) -> UsageError:
    kind, _, package = name.partition(":")
    refuse_broken(package or name, entries)
    if locks := [lock for lock in names if lock.split(":")[1:2] == [name]]:
        return UsageError(
            f'no lock is called "{name}"',
            why=f"the recipe {name} has {', '.join(locks)}",
            fix=f"nox -s {session} -- {' '.join(locks)}",
        )
    of_recipe = kind in {"build", "smoke"} and package != ""
    of_kind = [lock for lock in names if lock.startswith(f"{kind}:")]
    near = nearest(name.lower(), of_kind if of_recipe else [*names, "all"])
    if of_recipe and not near:
        return UsageError(
            f'there is no lock "{name}"',
            why=f"there is no recipe of {package}",
            fix=how_to_draft(package),
        )
    return UsageError(
        f'there is no lock "{name}"',
        why=f'did you mean "{near}"?' if near else suggest(name, [*names, "all"]),
        fix=f"nox -s {session} -- {near}" if near else f"one of {', '.join(names)}, all",
    )


def refuse_questions(jobs: Iterable[LockSpec]) -> None:
    """Refuse a recipe's draft that leaves open what provides a module.

    Raises:
        RecipeError: with every such module; locking its name would pin a stranger's project.
    """
    locks = [job.source for job in jobs if isinstance(job.source, RecipeLock)]
    names = dict.fromkeys(name for lock in locks for name in lock.questions)
    if not names:
        return
    files = ", ".join(dict.fromkeys(lock.recipe.module for lock in locks if lock.questions))
    raise RecipeError(
        f"{files}: `requires` has {plural(len(names), 'open question')}",
        why=f"which distributions provide {', '.join(name[1:] for name in names)} isn't known: an "
        "import name is no distribution, and a project of that name may be a stranger's",
        fix=f"in {files}, replace each of {', '.join(names)} by the distribution that upstream "
        "names, or remove it if the source itself has the module or the build works without it; "
        "then run the same command",
    )


def toolchain_lock(target: Target, workspace: Workspace) -> Path | None:
    """Return the lock of a target's toolchain; None without one, or for the machine's toolkit."""
    name = _TOOLCHAIN_LOCKS.get(target.provider)
    return find_lock(f"cuda{target.toolkit.tag}/{name}", workspace.caller.roots) if name else None


def toolchain_locks(target: Target, workspace: Workspace) -> tuple[Path, ...]:
    """Return the existing locks of a target's CUDA home and of its host compiler."""
    roots = workspace.caller.roots
    locks = [toolchain_lock(target, workspace)]
    if target.provider == "debian" and locks[0]:  # its libraries are NVIDIA's wheels
        locks.append(find_lock(f"cuda{target.toolkit.tag}/pypi.lock", roots))
    if target.is_compiler_pinned:
        locks.append(find_lock(f"{target.host_compiler}/{debian_lock.LOCK_NAME}", roots))
    return tuple(lock for lock in locks if lock)


def check_target_lock(target: Target) -> None:
    """Check that the locks of a target exist and match its recipe's declarations.

    Raises:
        LockError: with every fault of every lock, and the command that writes them again.
    """
    served = (other.locked_smoke for other in target.served)
    locks = dict.fromkeys((target.locked_build, target.locked_smoke, *served))
    faults = {
        lock: lines
        for lock in locks
        if (lines := faults_of_lock(target.root / lock.path, as_input(lock.requirements)))
    }
    if not faults:
        return
    lines = [f"{lock.path}: {line}" for lock in faults for line in faults[lock]]
    names: dict[str, list[str]] = {}  # by the command's options: of another framework
    for lock in faults:
        options = lock.command.partition(f" -- {lock.name}")[2]
        names.setdefault(options, []).append(lock.name)
    commands = [f"nox -s lock -- {' '.join(names[options])}{options}" for options in names]
    raise LockError(
        f"{target.id}: {plural(len(faults), 'lock')} can't be used",
        why="\n".join((*lines, f"its input is the declarations in {target.recipe.module}")),
        fix="; ".join(commands),
    )


def _all_jobs(entries: tuple[CatalogueEntry, ...], roots: tuple[Path, ...]) -> list[LockSpec]:
    roots = tuple(root for root in roots if root != ROOT or is_checkout())
    names = _ENGINE_LOCKS if is_checkout() else ()
    jobs = [*(_spec_of_file(name, ROOT / "envs" / f"{name}.in") for name in names)]
    jobs += _env_jobs(roots)
    for entry in entries:
        if entry.recipe:  # its build lock and smoke lock, or those for single majors of CUDA
            locks = locks_of(entry.recipe)
            others = (other for lock in locks for other in _of_other_releases(lock, entry.root))
            jobs += [spec_of(lock, entry.root) for lock in dict.fromkeys((*locks, *others))]
    return jobs


def _spec_of_file(name: str, source: Path) -> LockSpec:
    lock = source.with_suffix(".lock")
    return LockSpec(name=name, source=source, lock=lock, python=_OLDEST_PYTHON)


def _of_other_releases(declared: RecipeLock, root: Path) -> Iterator[RecipeLock]:
    """Yield the same lock for other releases of the framework, if the files exist."""
    if declared.framework is None:
        return
    name = declared.framework.name
    pattern = replace(declared, framework=Framework(name=name, version="*")).path
    for path in sorted(root.glob(str(pattern))):
        version = path.name.removesuffix(".lock").rpartition(f"-{name}")[2]
        yield replace(declared, framework=Framework(name=name, version=version))


def _env_jobs(roots: tuple[Path, ...]) -> list[LockSpec]:
    """Return locks of toolchains, compilers and Pythons; the first project of a name counts."""
    jobs: dict[str, LockSpec] = {}
    for kind, (pattern, name_of) in _SOURCES.items():
        for source in (path for root in roots for path in sorted((root / "envs").glob(pattern))):
            job = LockSpec(
                name=name_of(source.parent.name),
                source=source,
                lock=source.with_name(_TOOLCHAIN_LOCKS[kind]),
                python=_OLDEST_PYTHON if kind == "pypi" else "",
            )
            jobs.setdefault(job.name, job)
    return list(jobs.values())


def spec_of(declared: RecipeLock, root: Path) -> LockSpec:
    """Return the lock file of a recipe's declaration, in its project folder."""
    return LockSpec(
        name=declared.name,
        source=declared,
        lock=root / declared.path,
        python=declared.recipe.oldest_python,
    )


def _with_framework(job: LockSpec, framework: Framework | None) -> LockSpec:
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
