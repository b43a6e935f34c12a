"""Audit: read the finished wheel, and nothing else, and hold it to its contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.artefacts import Audit, BuiltWheel, RepairedWheel
from cuwheel.contract import Contract, Finding, Supply, library_findings, policy_of, supplies
from cuwheel.errors import AuditError, UnsafeArchiveError
from cuwheel.fatbin import sort_archs
from cuwheel.linkage import is_grafted
from cuwheel.wheelmeta import header
from cuwheel.wheelscan import scan_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.tags import Tag

    from cuwheel.target import Target
    from cuwheel.wheelscan import WheelScan
    from cuwheel.workspace import Workspace

_MIB = 1 << 20


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
        raise _refusal(path.name, [f"{problem.what}: {problem.why}"]) from problem
    contract = _contract(target)
    if findings := _findings(scan, contract):
        raise _refusal(path.name, findings)
    codes = [library.device_code for library in scan.libraries if library.device_code]
    return Audit(
        sha256=scan.sha256,
        archs=sort_archs(arch for code in codes for arch in code.sass),
        ptx_archs=sort_archs(arch for code in codes for arch in code.ptx),
        suppliers=tuple(
            (supply.library, supply.soname, supply.supplier) for supply in _supplies(scan, contract)
        ),
    )


def _contract(target: Target) -> Contract:
    recipe = target.recipe
    return Contract(
        project=canonicalize_name(recipe.name),
        release=None if target.source_override else recipe.version,
        local_version=target.local_version,
        cuda=target.toolkit.major,
        python=target.python if recipe.python == "each" else None,
        links=recipe.link.components,
        archs=sort_archs(target.archs),
        ptx_archs=sort_archs(target.ptx_archs),
        max_size=recipe.max_wheel_size,
    )


def _refusal(name: str, findings: Iterable[object]) -> AuditError:
    lines = [str(finding) for finding in findings]
    return AuditError(
        f"{name} breaks its contract ({len(lines)} finding{'s'[: len(lines) > 1]})",
        why="\n".join(lines),
        fix="correct the recipe (`link`, `archs`, `max_wheel_size`, patches) or the build's flags",
    )


def _findings(scan: WheelScan, contract: Contract) -> tuple[Finding, ...]:
    """Every breach of the contract."""
    return (
        *_name_findings(scan, contract),
        *_tag_findings(scan, contract),
        *(Finding(file=file, rule="archive", fact=fact) for file, fact in scan.archive_faults),
        *_size_findings(scan, contract),
        *_leak_findings(scan),
        *_graft_findings(scan),
        *library_findings(scan, contract, _platforms(scan)),
        *_arch_findings(scan, contract),
        *_supply_findings(scan, contract),
    )


def _name_findings(scan: WheelScan, contract: Contract) -> Iterator[Finding]:
    """File name, METADATA and `.dist-info` say the same project and version, the target's."""
    name = next(iter(header(scan.metadata, "name")), "")
    written = next(iter(header(scan.metadata, "version")), "")
    try:
        project, version, _, _ = parse_wheel_filename(scan.file_name)
        in_metadata = Version(written)
    except (InvalidWheelFilename, InvalidVersion) as problem:
        yield Finding(file=scan.file_name, rule="name", fact=str(problem))
        return
    if (canonicalize_name(name), in_metadata) != (project, version):
        fact = f"the file is called {project} {version}, METADATA says {name} {written}"
        yield Finding(file=scan.file_name, rule="name", fact=fact)
    if scan.dist_info != f"{'-'.join(scan.file_name.split('-')[:2])}.dist-info":
        yield Finding(file=scan.dist_info, rule="name", fact="the file name asks for another")
    if project != contract.project:
        fact = f"the project is {project}, the recipe's is {contract.project}"
        yield Finding(file=scan.file_name, rule="name", fact=fact)
    wanted = Version(f"{contract.release or version.public}+{contract.local_version}")
    if version != wanted:
        fact = f"the version is {version}, the target's is {wanted}"
        yield Finding(file=scan.file_name, rule="version", fact=fact)


def _tag_findings(scan: WheelScan, contract: Contract) -> Iterator[Finding]:
    """File name and WHEEL say the same tags, and they fit the target."""
    named = _tags(scan)
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
        if policy_of(tag.platform) is None:
            fact = f"{tag.platform} is not a manylinux tag that auditwheel knows"
            yield Finding(file=scan.file_name, rule="platform tag", fact=fact)


def _fits_python(tag: Tag, python: str | None) -> bool:
    if python is None:
        return (tag.interpreter, tag.abi) == ("py3", "none")
    own = f"cp{python.replace('.', '')}"
    if tag.abi != "abi3":
        return (tag.interpreter, tag.abi) == (own, own)
    # The stable ABI runs on later Pythons; behind "cp3" stands the minor version.
    minor = tag.interpreter.removeprefix("cp3")
    return minor.isdigit() and int(minor) <= int(own.removeprefix("cp3"))


def _size_findings(scan: WheelScan, contract: Contract) -> Iterator[Finding]:
    if scan.size > contract.max_size:
        fact = f"{scan.size / _MIB:.1f} MiB, the recipe allows {contract.max_size / _MIB:.1f} MiB"
        yield Finding(file=scan.file_name, rule="size", fact=fact)


def _leak_findings(scan: WheelScan) -> Iterator[Finding]:
    for leak in scan.leaks:
        times = f"; {leak.count} paths of that folder" if leak.count > 1 else ""
        yield Finding(file=leak.name, rule="build path", fact=f"it holds {leak.text}{times}")


def _graft_findings(scan: WheelScan) -> Iterator[Finding]:
    for name in scan.names:
        if is_grafted(name):
            fact = "a library that belongs to another wheel is copied in"
            yield Finding(file=name, rule="grafted library", fact=fact)


def _arch_findings(scan: WheelScan, contract: Contract) -> Iterator[Finding]:
    """Each library with device code serves every arch of the target, and no other."""
    codes = [(library.name, code) for library in scan.libraries if (code := library.device_code)]
    if not codes and (contract.archs or contract.ptx_archs):
        fact = f"no library holds device code, the target is for {_archs('sm', contract.archs)}"
        yield Finding(file=scan.file_name, rule="archs", fact=fact)
    for name, code in codes:
        for kind, held, wanted in (
            ("sm", code.sass, contract.archs),
            ("compute", code.ptx, contract.ptx_archs),
        ):
            if held != wanted:
                fact = f"it holds {_archs(kind, held)}, the target asks for {_archs(kind, wanted)}"
                yield Finding(file=name, rule="archs", fact=fact)


def _archs(kind: str, archs: tuple[str, ...]) -> str:
    return " ".join(f"{kind}_{arch}" for arch in archs) or f"no {kind}"


def _supply_findings(scan: WheelScan, contract: Contract) -> Iterator[Finding]:
    for supply in _supplies(scan, contract):
        for fault in supply.faults:
            yield Finding(file=supply.library, rule="needed library", fact=fault)


def _supplies(scan: WheelScan, contract: Contract) -> tuple[Supply, ...]:
    return tuple(supplies(scan, contract, _platforms(scan)))


def _tags(scan: WheelScan) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(scan.file_name)[3]
    except InvalidWheelFilename:
        return frozenset()


def _platforms(scan: WheelScan) -> tuple[str, ...]:
    return tuple(sorted({tag.platform for tag in _tags(scan)}))


def _list(tags: Iterable[Tag]) -> str:
    return ", ".join(sorted(map(str, tags))) or "none"
