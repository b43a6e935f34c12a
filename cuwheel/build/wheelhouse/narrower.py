"""The check against a wheel that serves fewer machines than the published one that it replaces.

Installers take the highest build tag of a version, and the most specific tag that fits: the new
wheel wins, and users who need what only the older one has get none that works.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.errors import PublishedWheelError, WheelIndexError
from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.base.formats.wheel.metadata import python_tags
from cuwheel.base.formats.wheel.publication import build_tag_of, split_mark
from cuwheel.base.formats.wheel.variants import split_variant
from cuwheel.base.system.versions import version_key
from cuwheel.build.recipe.link import MODES
from cuwheel.build.recipe.target import Target
from cuwheel.build.wheelhouse.entries import Entry, read_entries
from cuwheel.build.wheelhouse.facts import WheelFacts, read_facts
from cuwheel.build.wheelhouse.yanks import read_yanks
from cuwheel.check.audit.tags import oldest_glibc
from cuwheel.check.cuda.toolkits import TOOLKITS

_PYTHONS = range(8, 20)  # minor releases of CPython 3 that are compared
_NEWER_GPU = "9990"  # a compute capability that only PTX serves
_MODE = re.compile(rf"\.?({'|'.join(MODES)})$")


def read_folder(folder: Path, cache: Path) -> dict[Path, Entry]:
    """List the wheels of a folder that are not withdrawn; nothing is written into it.

    Raises:
        WheelIndexError: files in it are not valid wheels.
        UsageError: its list of withdrawn wheels is damaged.
    """
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    kept = cache / "published" / f"{digest}.json"
    entries = read_entries(folder, read_yanks(folder), kept, writes=False)
    return {folder / entry.name: entry for entry in entries if entry.yanked is None}


def check_serves_as_many(
    new: Mapping[Path, Entry], published: Mapping[Path, Entry], cache: Path, *, kept_at: str = ""
) -> None:
    """Check that no new wheel serves fewer machines than a published one that it wins over.

    Args:
        published: may contain those of `new`.
        kept_at: text for the error about the place of the new wheel; empty: none.

    Raises:
        PublishedWheelError: one does; everything that users would lose is named.
    """
    by_version: dict[object, dict[Path, Entry]] = defaultdict(dict)
    for path, entry in published.items():
        by_version[entry.project, base_of(entry.version)][path] = entry
    lines = []
    for path, entry in new.items():
        same_version = by_version[entry.project, base_of(entry.version)]
        others = {
            file: other for file, other in same_version.items() if other.sha256 != entry.sha256
        }
        for file, other in preferred(others).items():
            if not wins_over(entry, other):
                continue
            ours, theirs = read_offered(entry, path, cache), read_offered(other, file, cache)
            if lost := losses(theirs, ours):
                codes = [describe_code(wheel.code) or "no device code" for wheel in (ours, theirs)]
                lines.append(
                    f"{entry.name} has {codes[0]}, the published {other.name} has {codes[1]}; "
                    f"users would lose {', '.join(lost)}"
                )
    if lines:
        raise _broader_published(lines, [entry.name for entry in new.values()], kept_at)


def check_declared(target: Target, dist: Path, cache: Path) -> None:
    """Check the same by a target's declaration, before anything is compiled.

    Raises:
        PublishedWheelError: `dist` has a wheel of its version for more GPUs.
    """
    if target.source_override:
        return
    try:
        published = read_folder(dist, cache)
    except WheelIndexError:  # the build may put back a damaged file, or is refused at its end
        return
    code = DeviceCode(sass=target.archs, ptx=target.ptx_archs)
    lines = []
    for path, entry in preferred(published).items():
        if not _is_replaced_by(entry, target):
            continue
        theirs = read_offered(entry, path, cache)
        if lost := lost_gpus(theirs.code, code):
            lines.append(
                f"{entry.name} has {describe_code(theirs.code)}, {target.id} would have "
                f"{describe_code(code)}; users would lose {', '.join(lost)}"
            )
    if lines:
        raise _broader_published(lines, [target.id], "")


def _is_replaced_by(entry: Entry, target: Target) -> bool:
    """Return True if a target's wheel would win over an entry's, by their names."""
    public = Version(target.recipe.version).public
    local = f"+{target.local_version}" if target.local_version else ""
    ours = Version(f"{public}{local}")
    is_version = (entry.project, base_of(entry.version)) == (
        canonicalize_name(target.project),
        base_of(ours),
    )
    pythons = {target.python} if target.recipe.python == "each" else pythons_of(entry)
    platforms = {"any", target.platform.machine}
    return (
        is_version
        and ours >= entry.version
        and not split_variant(entry.name)[1]
        and bool(pythons & pythons_of(entry))
        and bool(platforms & platforms_of(entry))
    )


def _broader_published(
    lines: Iterable[str], names: Iterable[str], kept_at: str
) -> PublishedWheelError:
    return PublishedWheelError(
        f"{', '.join(names)}: a published wheel of this version serves more machines",
        why="\n".join(lines),
        fix="build one wheel for all of them; or publish it in another folder: -- --dist DIR; or "
        "replace the broader one all the same: -- --replace-broader"
        + (f"\n{kept_at}" if kept_at else ""),
    )


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A wheel, with the facts that were read from its bytes."""

    entry: Entry
    facts: WheelFacts

    @property
    def code(self) -> DeviceCode:
        """The device code."""
        return DeviceCode(sass=self.facts.archs, ptx=self.facts.ptx)


def read_offered(entry: Entry, path: Path, cache: Path) -> Offered:
    """Read the facts of a wheel; one without libraries has no device code."""
    facts = read_facts(path, entry.sha256, cache) if entry.has_libraries else WheelFacts()
    return Offered(entry=entry, facts=facts)


def preferred(entries: Mapping[Path, Entry]) -> dict[Path, Entry]:
    """Choose of several builds of a wheel the one with the highest build tag."""
    newest: dict[object, Path] = {}
    for path in sorted(entries, key=lambda path: _build_tag(entries[path])):
        entry = entries[path]
        newest[entry.project, entry.version, entry.tags, split_variant(entry.name)[1]] = path
    return {path: entries[path] for path in newest.values()}


def wins_over(new: Entry, old: Entry) -> bool:
    """Return True if some machine that was served by a wheel gets another one instead of it."""
    same_build = (new.version, new.tags) == (old.version, old.tags)
    platforms = platforms_of(new), platforms_of(old)
    return (
        (new.project, base_of(new.version)) == (old.project, base_of(old.version))
        and split_variant(new.name)[1] == split_variant(old.name)[1]
        and new.version >= old.version
        and not (same_build and _build_tag(new) < _build_tag(old))
        and bool(pythons_of(new) & pythons_of(old))
        and (bool(platforms[0] & platforms[1]) or "any" in platforms[0] | platforms[1])
    )


def losses(old: Offered, new: Offered) -> tuple[str, ...]:
    """List what a published wheel serves and another doesn't, as text."""
    first, second = old.entry, new.entry
    lost = [*lost_gpus(old.code, new.code)]
    pythons = pythons_of(first) - pythons_of(second)
    lost += [
        f"Python {python}" for python in sorted(pythons, key=lambda name: (version_key(name), name))
    ]
    lost += [f"CUDA {major}" for major in sorted({*old.facts.cuda} - {*new.facts.cuda})]
    if "any" not in platforms_of(second):
        lost += sorted(platforms_of(first) - platforms_of(second))
    before, now = oldest_glibc(first.tags), oldest_glibc(second.tags)
    if before and now and version_key(now) > version_key(before):
        lost.append(f"systems with glibc {before} or newer, but older than {now}")
    drivers = [min(wheel.facts.drivers, key=version_key, default="") for wheel in (old, new)]
    if all(drivers) and version_key(drivers[1]) > version_key(drivers[0]):
        lost.append(f"drivers from {drivers[0]} on, but older than {drivers[1]}")
    return (*lost, *_lost_frameworks(first.framework, second.framework))


def lost_gpus(old: DeviceCode, new: DeviceCode) -> list[str]:
    """List the GPUs that only the older code runs on; code of `90a` is for sm_90 alone.

    Those that had machine code and get PTX count too: their driver has to be as new as the toolkit
    was, and compiles the PTX at the first use.
    """
    known = {arch.rstrip("af") for toolkit in TOOLKITS for arch in toolkit.archs}
    known |= {arch.rstrip("af") for arch in (*old.sass, *old.ptx)}
    names = {arch: f"sm_{arch}" for arch in sorted(known, key=int)}
    names[_NEWER_GPU] = f"GPUs newer than sm_{max(map(int, known))} (by PTX)"
    ways = {name: (runs_on(old, arch), runs_on(new, arch)) for arch, name in names.items()}
    lost = [name for name, (before, now) in ways.items() if before and not now]
    if by_ptx := [name for name, way in ways.items() if way == ("SASS", "PTX")]:
        lost.append(f"machine code for {', '.join(by_ptx)} (only PTX is left)")
    return lost


def _lost_frameworks(old: str, new: str) -> list[str]:
    """List releases of a framework that only the older requirement allows."""
    try:
        allowed = Requirement(old).specifier if old else SpecifierSet()
        required = Requirement(new) if new else None
    except (InvalidRequirement, InvalidSpecifier):
        return []
    if required is None:
        return []
    lost = [
        str(release)
        for release in sorted(_boundaries(allowed) | _boundaries(required.specifier))
        if allowed.contains(release, prereleases=True)
        and not required.specifier.contains(release, prereleases=True)
    ]
    return [f"{required.name} {', '.join(lost)} (it requires {new})"] if lost else []


def _boundaries(specifier: SpecifierSet) -> set[Version]:
    """Return the releases that a specifier names, and their neighbours."""
    releases: set[Version] = set()
    for part in specifier:
        try:
            release = list(Version(part.version.removesuffix(".*")).release)
        except InvalidVersion:
            continue
        minor = [*release, 0][:2]
        releases |= {Version(".".join(map(str, release)))}
        releases |= {Version(f"{minor[0]}.{max(minor[1] + step, 0)}.0") for step in (-1, 0, 1)}
    return releases


@lru_cache(maxsize=1024)
def pythons_of(entry: Entry) -> frozenset[str]:
    """Return the CPythons of a wheel, `3.12`, `3.13t`, by its tags and Requires-Python."""
    pairs = {(tag.interpreter, tag.abi) for tag in entry.tags}
    pythons = (f"3.{minor}{ending}" for minor in _PYTHONS for ending in ("", "t"))
    try:
        allowed = SpecifierSet(entry.requires_python)
    except InvalidSpecifier:
        allowed = SpecifierSet()  # like installers
    return frozenset(
        name
        for name in pythons
        if pairs & python_tags(name) and allowed.contains(f"{name.rstrip('t')}.99")
    )


def platforms_of(entry: Entry) -> set[str]:
    """Return the machines of a wheel's tags without the C library: `x86_64`, `any`."""
    return {
        re.sub(r"^(manylinux\d+|(many|musl)linux_\d+_\d+|linux)_", "", tag.platform)
        for tag in entry.tags
    }


def base_of(version: Version) -> tuple[str, str]:
    """Return a version without the mode of linking CUDA, which installers only order by."""
    local, mark = split_mark(version)
    return version.public, f"{_MODE.sub('', local)}+{mark}"


def _build_tag(entry: Entry) -> int:
    return build_tag_of(split_variant(entry.name)[0])
