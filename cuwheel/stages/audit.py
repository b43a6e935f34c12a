"""Audit: read the finished wheel, and nothing else, and hold it to its contract."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import Policy, WheelPolicies
from packaging.tags import Tag, parse_tag
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from cuwheel.artefacts import Audit, BuiltWheel, RepairedWheel
from cuwheel.errors import AuditError, UnsafeArchiveError
from cuwheel.fatbin import sort_archs
from cuwheel.linkage import (
    component_of,
    is_cuda_library,
    is_from_driver,
    is_grafted,
    resolve_entry,
)
from cuwheel.wheelmeta import header, installed_path, is_optional, project_of
from cuwheel.wheelscan import scan_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.elf import Elf
    from cuwheel.target import Target
    from cuwheel.toolkits import Component
    from cuwheel.wheelscan import Library, WheelScan
    from cuwheel.workspace import Workspace

_MIB = 1 << 20
_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
_INDENT = "\n           "  # below the first line of an error's "because"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A breach of the contract: which file, which rule, what is the fact."""

    file: str
    rule: str
    fact: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.file}: {self.rule}: {self.fact}"


@dataclass(frozen=True, kw_only=True)
class _Contract:
    """What the wheel has to be.

    Attributes:
        project: normalised name.
        release: version without local part; None where the source was given by hand.
        local_version: the part after `+`.
        python: `3.12`; None where one wheel serves every Python.
        links: declared components.
        archs: of the machine code.
        ptx_archs: of the PTX.
        max_size: bytes.
    """

    project: str
    release: str | None
    local_version: str
    python: str | None
    links: tuple[str, ...]
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    max_size: int


def audit(target: Target, space: Workspace) -> Audit:
    """Hold the repaired wheel to the target's contract.

    Raises:
        AuditError: it breaks it; every breach is listed.
    """
    path = space.load("repair", RepairedWheel).path
    private = space.load("build", BuiltWheel).private_paths
    try:
        scan = scan_wheel(path, private_paths=private, scratch=space.folder("audit"))
    except UnsafeArchiveError as problem:
        raise _refusal(path.name, (problem.why or problem.what,)) from problem
    findings, suppliers = _findings(scan, _contract(target))
    if findings:
        raise _refusal(path.name, findings)
    codes = [library.device_code for library in scan.libraries if library.device_code]
    return Audit(
        sha256=scan.sha256,
        archs=sort_archs(arch for code in codes for arch in code.sass),
        ptx_archs=sort_archs(arch for code in codes for arch in code.ptx),
        suppliers=suppliers,
    )


def _contract(target: Target) -> _Contract:
    recipe = target.recipe
    return _Contract(
        project=canonicalize_name(recipe.name),
        release=None if target.source_override else recipe.version,
        local_version=target.local_version,
        python=target.python if recipe.python == "each" else None,
        links=recipe.link.components,
        archs=sort_archs(target.archs),
        ptx_archs=sort_archs(target.ptx_archs),
        max_size=recipe.max_wheel_size,
    )


def _refusal(name: str, findings: tuple[object, ...]) -> AuditError:
    return AuditError(
        f"{name} breaks its contract in {len(findings)} place{'s'[: len(findings) > 1]}",
        why=_INDENT.join(map(str, findings)),
        fix="correct the recipe (`link`, `archs`, `max_wheel_size`, patches) or the build's flags",
    )


def _findings(
    scan: WheelScan, contract: _Contract
) -> tuple[tuple[Finding, ...], tuple[tuple[str, str, str], ...]]:
    """Every breach; and who supplies what, as file, soname, supplier."""
    policies = tuple(_policies(scan.file_name))
    supplies = tuple(_supplies(scan, contract, policies))
    found = [
        *_name_findings(scan, contract),
        *_tag_findings(scan, contract),
        *(Finding(file=file, rule="archive", fact=fact) for file, fact in scan.archive_faults),
        *_size_findings(scan, contract),
        *_leak_findings(scan),
        *_graft_findings(scan),
        *_library_findings(scan, policies),
        *_arch_findings(scan, contract),
        *(supply for supply in supplies if isinstance(supply, Finding)),
    ]
    return tuple(found), tuple(supply for supply in supplies if not isinstance(supply, Finding))


# --- the wheel as a whole


def _name_findings(scan: WheelScan, contract: _Contract) -> Iterator[Finding]:
    """File name, METADATA and `.dist-info` say the same project and version, the target's."""
    names = header(scan.metadata, "name")
    versions = header(scan.metadata, "version")
    if len(names) != 1 or len(versions) != 1:
        yield Finding(file="METADATA", rule="name", fact="it gives no single name and version")
        return
    try:
        project, version, _, _ = parse_wheel_filename(scan.file_name)
        in_metadata = Version(versions[0])
    except (InvalidWheelFilename, InvalidVersion) as problem:
        yield Finding(file=scan.file_name, rule="name", fact=str(problem))
        return
    said = (canonicalize_name(names[0]), in_metadata)
    if said != (project, version):
        fact = f"the file is called {project} {version}, METADATA says {names[0]} {versions[0]}"
        yield Finding(file=scan.file_name, rule="name", fact=fact)
    if scan.dist_info != "-".join(scan.file_name.split("-")[:2]) + ".dist-info":
        yield Finding(file=scan.dist_info, rule="name", fact="the file name says another")
    if said[0] != contract.project:
        fact = f"the project is {said[0]}, the recipe's is {contract.project}"
        yield Finding(file="METADATA", rule="name", fact=fact)
    wanted = Version(f"{contract.release or in_metadata.public}+{contract.local_version}")
    if in_metadata != wanted:
        fact = f"the version is {in_metadata}, the target's is {wanted}"
        yield Finding(file="METADATA", rule="version", fact=fact)


def _tag_findings(scan: WheelScan, contract: _Contract) -> Iterator[Finding]:
    """File name and WHEEL say the same tags, and they fit the target's Python."""
    named = _tags(scan.file_name)
    written = {tag for text in header(scan.tags_text, "tag") for tag in parse_tag(text)}
    if named != written:
        fact = f"the file name says {_list(named)}, WHEEL says {_list(written)}"
        yield Finding(file="WHEEL", rule="tag", fact=fact)
    if header(scan.tags_text, "root-is-purelib") != ("false",):
        yield Finding(file="WHEEL", rule="tag", fact="Root-Is-Purelib isn't false")
    for tag in sorted(named, key=str):
        if not _fits_python(tag, contract.python):
            fact = f"{tag} is not a tag for {contract.python or 'every Python 3'}"
            yield Finding(file=scan.file_name, rule="tag", fact=fact)
        if not tag.platform.startswith("manylinux_") or _policy(tag) is None:
            fact = f"{tag.platform} is no manylinux tag that auditwheel knows"
            yield Finding(file=scan.file_name, rule="tag", fact=fact)


def _fits_python(tag: Tag, python: str | None) -> bool:
    if python is None:
        return (tag.interpreter, tag.abi) == ("py3", "none")
    own = f"cp{python.replace('.', '')}"
    is_stable = tag.abi == "abi3" and tag.interpreter.startswith("cp3")
    # cp39 runs on 3.12 too: numbers behind "cp3" compare as minor versions.
    old_enough = is_stable and int(tag.interpreter[3:] or 0) <= int(own[3:])
    return (tag.interpreter, tag.abi) == (own, own) or old_enough


def _size_findings(scan: WheelScan, contract: _Contract) -> Iterator[Finding]:
    if scan.size > contract.max_size:
        fact = f"{scan.size / _MIB:.1f} MiB, the recipe allows {contract.max_size / _MIB:.1f} MiB"
        yield Finding(file=scan.file_name, rule="size", fact=fact)


def _leak_findings(scan: WheelScan) -> Iterator[Finding]:
    for leak in scan.leaks:
        fact = f"it holds {leak.text} ({leak.count} of this folder)"
        yield Finding(file=leak.name, rule="build path", fact=fact)


def _graft_findings(scan: WheelScan) -> Iterator[Finding]:
    for name in scan.names:
        if is_grafted(name):
            fact = "a library of another wheel is copied in"
            yield Finding(file=name, rule="grafted library", fact=fact)


# --- one library


def _library_findings(scan: WheelScan, policies: tuple[Policy, ...]) -> Iterator[Finding]:
    if not scan.libraries:
        yield Finding(file=scan.file_name, rule="library", fact="it holds no compiled library")
    machines = {_MACHINES.get(tag.platform.split("_", 3)[-1]) for tag in _tags(scan.file_name)}
    for library in scan.libraries:
        if library.damage:
            yield Finding(file=library.name, rule="library", fact=library.damage)
        if library.elf and library.elf.is_host_code:
            if machines.isdisjoint({library.elf.machine}):
                fact = f"it is for {library.elf.machine}, which the tag doesn't say"
                yield Finding(file=library.name, rule="tag", fact=fact)
            yield from _symbol_findings(library.name, library.elf, policies)
            yield from _hardening_findings(library.name, library.elf)
            yield from _rpath_findings(library.name, library.elf, scan)


def _symbol_findings(name: str, elf: Elf, policies: tuple[Policy, ...]) -> Iterator[Finding]:
    """Symbol versions that a system which the tag promises to run on doesn't have."""
    for policy in policies:
        for supplier, symbol in elf.versions:
            family, _, version = symbol.partition("_")
            known = policy.symbol_versions.get(family)
            if known is not None and version not in known:
                fact = f"it needs {symbol} of {supplier}, newer than {policy.name} has"
                yield Finding(file=name, rule="platform tag", fact=fact)


def _hardening_findings(name: str, elf: Elf) -> Iterator[Finding]:
    # glibc 2.41 refuses to load such a library into a running program.
    if elf.has_executable_stack:
        yield Finding(file=name, rule="executable stack", fact="it asks for one")
    if elf.has_text_relocations:
        yield Finding(file=name, rule="text relocations", fact="the loader has to write its code")


def _rpath_findings(name: str, elf: Elf, scan: WheelScan) -> Iterator[Finding]:
    """Entries that are absolute, leave site-packages, or lead to no folder with libraries."""
    place = installed_path(name)
    folders = _library_folders(scan)
    for entry in (*elf.rpath, *elf.runpath):
        folder = resolve_entry(place, entry) if place else None
        if folder is None:
            fact = f"the entry {entry} doesn't lead to a folder below site-packages"
            yield Finding(file=name, rule="rpath", fact=fact)
        elif folder not in folders and not _is_component_folder(folder, elf):
            yield Finding(file=name, rule="rpath", fact=f"the entry {entry} leads to nothing")


def _library_folders(scan: WheelScan) -> set[PurePosixPath]:
    places = (installed_path(library.name) for library in scan.libraries)
    return {place.parent for place in places if place}


def _is_component_folder(folder: PurePosixPath, elf: Elf) -> bool:
    components = (component_of(soname) for soname in elf.needed)
    return any(component and str(folder) == component.site_folder for component in components)


def _arch_findings(scan: WheelScan, contract: _Contract) -> Iterator[Finding]:
    """Each library with device code serves every arch of the target, and no other."""
    codes = [(library.name, code) for library in scan.libraries if (code := library.device_code)]
    if not codes and (contract.archs or contract.ptx_archs):
        fact = f"no library holds device code; the target is for {_archs(contract.archs, 'sm')}"
        yield Finding(file=scan.file_name, rule="archs", fact=fact)
    for name, code in codes:
        for kind, held, wanted in (
            ("sm", code.sass, contract.archs),
            ("compute", code.ptx, contract.ptx_archs),
        ):
            if held != wanted:
                fact = f"it holds {_archs(held, kind)}, the target is {_archs(wanted, kind)}"
                yield Finding(file=name, rule="archs", fact=fact)


# --- who supplies what


def _supplies(
    scan: WheelScan, contract: _Contract, policies: tuple[Policy, ...]
) -> Iterator[tuple[str, str, str] | Finding]:
    """For each library and each soname it needs: the supplier, or what is wrong."""
    system = frozenset.intersection(*(policy.whitelist for policy in policies), frozenset()) \
        if not policies else frozenset.intersection(*(policy.whitelist for policy in policies))
    for library in scan.libraries:
        for soname in library.elf.needed if library.elf else ():
            if soname in system or soname.startswith("ld-linux"):
                yield (library.name, soname, "system")
            elif is_from_driver(soname):
                yield (library.name, soname, "driver")
            else:
                yield _supply(library, soname, scan, contract)
