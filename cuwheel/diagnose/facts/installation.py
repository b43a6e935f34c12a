"""What is wrong with what pip or uv has put into an environment, whatever the packages do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.installed_files import (
    digest_of,
    find_damaged_libraries,
    module_files,
    modules_of,
    verify_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.installed_files import FileFault


@dataclass(frozen=True, kw_only=True)
class SharedFiles:
    """Files that several distributions say are theirs, each another one.

    Attributes:
        owners: the distributions, by name.
        paths: the files, a library first if there is one.
        in_place: whose the first of them is; empty where it is none of theirs.
    """

    owners: tuple[Distribution, ...]
    paths: tuple[Path, ...]
    in_place: str


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """A module that isn't the installed one, and is imported in its stead.

    Attributes:
        distribution: the name of the installed one.
        module: what is imported.
        path: the file that comes first.
        entry: the entry of `sys.path` that leads there.
    """

    distribution: str
    module: str
    path: Path
    entry: Path


@dataclass(frozen=True, kw_only=True)
class InstallationFacts:
    """What was found.

    Attributes:
        faults: files that are lost, damaged or changed, by distribution.
        shared: files with several owners.
        shadows: modules that hide installed ones.
    """

    faults: Mapping[str, tuple[FileFault, ...]] = field(default_factory=dict)
    shared: tuple[SharedFiles, ...] = ()
    shadows: tuple[Shadow, ...] = ()


def read_installation(
    environment: PythonEnvironment,
    examined: Iterable[Distribution],
    held: Iterable[Distribution],
    verified: Iterable[str],
) -> InstallationFacts:
    """Look at the files of an environment.

    Args:
        environment: which.
        examined: distributions whose modules count.
        held: those whose libraries are looked at; one that is cut off doesn't show what it was for.
        verified: names of those of which every file is read and held against its hash.
    """
    examined = tuple(examined)
    shared = tuple(_shared(environment, (one.name for one in examined)))
    contested = {path for one in shared for path in one.paths}
    all_read = frozenset(verified)
    faults: dict[str, tuple[FileFault, ...]] = {}
    shadows: list[Shadow] = []
    for one in held:
        found = (*find_damaged_libraries(one), *(verify_files(one) if one.name in all_read else ()))
        first = {fault.path: fault for fault in reversed(found) if fault.path not in contested}
        if first:
            faults[one.name] = tuple(first.values())
    for one in examined:
        shadows += _shadows(one, environment)
    return InstallationFacts(faults=faults, shared=shared, shadows=tuple(shadows))


def _shared(environment: PythonEnvironment, examined: Iterable[str]) -> Iterator[SharedFiles]:
    """Groups of owners whose modules or libraries differ, those that are examined or share one."""
    names = frozenset(examined)
    claims: dict[Path, dict[str, str]] = defaultdict(dict)
    for one in environment.distributions.values():
        for file in module_files(one):
            claims[file.path][one.name] = file.digest
    groups: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for path, digests in claims.items():
        if len(set(digests.values())) > 1:
            groups[tuple(sorted(digests))].append(path)
    for owners, paths in groups.items():
        libraries = [path for path in paths if ".so" in path.name]
        # Packages of one namespace may each have its `__init__.py`.
        is_more = any(path.name != "__init__.py" for path in paths)
        if libraries or (is_more and names.intersection(owners)):
            first = (libraries or paths)[0]
            yield SharedFiles(
                owners=tuple(environment.distributions[name] for name in owners),
                paths=(first, *(path for path in paths if path != first)),
                in_place=_whose(first, claims[first]),
            )


def _whose(path: Path, digests: Mapping[str, str]) -> str:
    try:
        there = digest_of(path, "sha256")
    except OSError:
        return ""
    return next((name for name, digest in digests.items() if digest == there), "")


def _shadows(distribution: Distribution, environment: PythonEnvironment) -> Iterator[Shadow]:
    """Modules of other folders that come before the distribution's own."""
    if distribution.site not in environment.sites:
        return
    before = environment.sites[: environment.sites.index(distribution.site)]
    installed = {one.site for one in environment.shadowed} | {
        one.site for one in environment.distributions.values()
    }
    for entry in before:
        for module in modules_of(distribution) if entry not in installed else ():
            if path := _module_in(entry, module, (".py", *environment.suffixes)):
                yield Shadow(distribution=distribution.name, module=module, path=path, entry=entry)


def _module_in(entry: Path, module: str, suffixes: Iterable[str]) -> Path | None:
    files = (entry / module / "__init__.py", *(entry / f"{module}{end}" for end in suffixes))
    return next((path for path in files if path.is_file()), None)
