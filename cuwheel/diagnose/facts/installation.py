"""What is wrong with what pip or uv has put into an environment, whatever the packages do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.installed_files import (
    digest_of,
    find_damaged_libraries,
    modules_of,
    recorded_files,
    verify_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.installed_files import FileFault, RecordedFile


@dataclass(frozen=True, kw_only=True)
class SharedFiles:
    """Libraries that several distributions say are theirs, each another one.

    Attributes:
        owners: the distributions, by name.
        paths: the libraries.
        in_place: whose library is there; empty where it is none of theirs.
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
        shared: libraries with several owners.
        shadows: modules that hide installed ones.
    """

    faults: Mapping[str, tuple[FileFault, ...]] = field(default_factory=dict)
    shared: tuple[SharedFiles, ...] = ()
    shadows: tuple[Shadow, ...] = ()


def read_installation(
    environment: PythonEnvironment, examined: Iterable[Distribution], verified: Iterable[str]
) -> InstallationFacts:
    """Look at the files of an environment.

    Args:
        environment: which.
        examined: distributions whose files and modules count.
        verified: names of those of which every file is read and held against its hash.
    """
    shared = tuple(_shared(environment))
    contested = {path for one in shared for path in one.paths}
    all_read = frozenset(verified)
    faults: dict[str, tuple[FileFault, ...]] = {}
    shadows: list[Shadow] = []
    for one in examined:
        found = (*find_damaged_libraries(one), *(verify_files(one) if one.name in all_read else ()))
        first = {fault.path: fault for fault in reversed(found) if fault.path not in contested}
        if first:
            faults[one.name] = tuple(first.values())
        shadows += _shadows(one, environment)
    return InstallationFacts(faults=faults, shared=shared, shadows=tuple(shadows))


def _shared(environment: PythonEnvironment) -> Iterator[SharedFiles]:
    """Groups of owners; files that are the same in all of them are left out."""
    owners: dict[Path, list[Distribution]] = defaultdict(list)
    for one in environment.distributions.values():
        for path in one.libraries:
            owners[path].append(one)
    groups: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for path, claimants in owners.items():
        if len(claimants) > 1:
            groups[tuple(sorted(one.name for one in claimants))].append(path)
    for names, paths in groups.items():
        distributions = tuple(environment.distributions[name] for name in names)
        records = {one.name: _by_path(one) for one in distributions}
        differing = [path for path in paths if len({_hash_in(records[n], path) for n in names}) > 1]
        if differing:
            yield SharedFiles(
                owners=distributions,
                paths=tuple(differing),
                in_place=_whose(differing[0], records),
            )


def _by_path(distribution: Distribution) -> dict[Path, RecordedFile]:
    return {file.path: file for file in recorded_files(distribution)}


def _hash_in(record: Mapping[Path, RecordedFile], path: Path) -> str:
    return record[path].digest if path in record else ""


def _whose(path: Path, records: Mapping[str, Mapping[Path, RecordedFile]]) -> str:
    try:
        there = digest_of(path, "sha256")
    except OSError:
        return ""
    return next((name for name, one in records.items() if _hash_in(one, path) == there), "")


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
