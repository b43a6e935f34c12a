"""Rules for the wheel as a whole: names, tags, metadata, archive, size, paths, copied libraries."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.audit.findings import Finding
from cuwheel.audit.manylinux import policy_of
from cuwheel.audit.tags import list_tags, minor_of
from cuwheel.cuda.components import COMPONENTS
from cuwheel.cuda.frameworks import preloads
from cuwheel.cuda.suppliers import (
    component_of_copy,
    is_from_driver,
    is_grafted,
    name_before_graft,
    stem_of,
)
from cuwheel.system.quantities import show_size
from cuwheel.system.versions import plain_release
from cuwheel.wheel.metadata import header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.tags import Tag

    from cuwheel.audit.case import Case
    from cuwheel.audit.contract import Contract


_TAG_DASHES = 2  # between a tag's three parts
_GLIBC = re.compile(r"^manylinux(_\d+_\d+|\d+)")
_PYTHON_SUFFIX = re.compile(r"\.cpython-3(\d+)t?-[-\w]*\.so$")


def wheel_findings(case: Case) -> Iterator[Finding]:
    """Breaches of the wheel as a whole."""
    yield from _name_findings(case)
    yield from _tag_findings(case)
    for file, fact in case.scan.archive_faults:
        yield Finding(file=file, rule="archive", fact=fact)
    yield from _size_findings(case)
    yield from _leak_findings(case)
    yield from _graft_findings(case)


def _name_findings(case: Case) -> Iterator[Finding]:
    """File name, METADATA and `.dist-info` say the same project and version, the target's."""
    scan = case.scan
    name = next(iter(header(scan.metadata, "name")), "")
    written = next(iter(header(scan.metadata, "version")), "")
    try:
        project, version, _, _ = parse_wheel_filename(scan.file_name)
        in_metadata = Version(written)
    except (InvalidWheelFilename, InvalidVersion) as problem:
        yield Finding(file=scan.file_name, rule="name", fact=str(problem))
        return
    if (canonicalize_name(name), in_metadata) != (project, version):
        fact = f"the file name says {project} {version}, METADATA says {name} {written}"
        yield Finding(file=scan.file_name, rule="name", fact=fact)
    if not _is_own_dist_info(scan.dist_info, project, version):
        yield Finding(
            file=scan.dist_info, rule="name", fact="its name doesn't match the wheel's file name"
        )
    if case.contract:
        yield from _identity_findings(scan.file_name, project, version, case.contract)


def _is_own_dist_info(folder: str, project: str, version: Version) -> bool:
    """Backends don't agree on case and on `-`, `_` and `.`; installers compare normal forms."""
    stem, _, written = folder.removesuffix(".dist-info").rpartition("-")
    try:
        return canonicalize_name(stem) == project and Version(written) == version
    except InvalidVersion:
        return False


def _identity_findings(
    file: str, project: str, version: Version, contract: Contract
) -> Iterator[Finding]:
    if project != contract.project:
        fact = f"the project is {project}, the recipe's is {contract.project}"
        yield Finding(file=file, rule="name", fact=fact)
    public = contract.release or version.public
    required = Version(f"{public}+{contract.local_version}" if contract.local_version else public)
    if version != required:
        fact = f"the version is {version}, the target's is {required}"
        yield Finding(file=file, rule="version", fact=fact)


def _tag_findings(case: Case) -> Iterator[Finding]:
    """File name and WHEEL say the same tags, and they fit the target and the content."""
    scan = case.scan
    written, faults = _written_tags(header(scan.tags_text, "tag"))
    for text in faults:
        fact = f"WHEEL has the tag {text or '(nothing)'}, but a tag has three parts"
        yield Finding(file="WHEEL", rule="tag", fact=fact)
    if case.tags and case.tags != written:
        fact = f"the file name has {list_tags(case.tags)}, WHEEL has {list_tags(written)}"
        severity = case.severity("note" if _is_as_open(written, case.tags) else "error")
        yield Finding(file="WHEEL", rule="tag", fact=fact, severity=severity)
    if case.host_libraries and header(scan.tags_text, "root-is-purelib") != ("false",):
        fact = (
            "Root-Is-Purelib isn't false: on systems with two site-packages folders its "
            "libraries are installed into the one for pure Python code, where their rpath "
            "entries don't work"
        )
        yield Finding(file="WHEEL", rule="tag", fact=fact, severity=case.severity("note"))
    for tag in sorted(case.tags, key=str):
        if case.contract and not _fits_python(tag, case.contract.python):
            fact = f"{tag} is not a tag for {case.contract.python or 'every Python 3'}"
            yield Finding(file=scan.file_name, rule="tag", fact=fact)
        if case.is_read and case.host_libraries and policy_of(tag.platform) is None:
            fact = f"{tag.platform} is not a manylinux tag that auditwheel knows"
            if tag.platform == "any":
                fact = "the tag includes every system, but the wheel has libraries for Linux"
            severity = case.severity("warning")
            yield Finding(file=scan.file_name, rule="platform tag", fact=fact, severity=severity)
    yield from _module_findings(case)


def _written_tags(texts: Iterable[str]) -> tuple[set[Tag], list[str]]:
    """The tags of WHEEL, and what isn't one."""
    found: set[Tag] = set()
    faults = []
    for text in texts:
        tags = _tags_in(text)
        found |= tags
        faults += [] if tags else [text]
    return found, faults


def _tags_in(text: str) -> frozenset[Tag]:
    """The tags that a compressed one stands for; none where it is no tag."""
    is_whole = text.count("-") == _TAG_DASHES and all(text.split("-"))
    try:
        return parse_tag(text) if is_whole else frozenset()
    except ValueError:
        return frozenset()


def _is_as_open(written: Iterable[Tag], named: Iterable[Tag]) -> bool:
    """Whether WHEEL says plain `linux` where the file name says more, and else the same.

    Installers choose by the file name. `pip check` reads WHEEL, and finds nothing either.
    """
    plain = {(tag.interpreter, tag.abi, _GLIBC.sub("linux", tag.platform)) for tag in named}
    return plain == {(tag.interpreter, tag.abi, tag.platform) for tag in written}


def _module_findings(case: Case) -> Iterator[Finding]:
    """Extension modules that can be imported by one Python, in a wheel whose tags promise others.

    Where there is one for each of several Pythons, `Requires-Python` decides.
    """
    modules: dict[str, dict[int, str]] = {}
    for library, elf in case.host_libraries:
        found = _PYTHON_SUFFIX.search(library.name)
        if found and elf.python_modules:
            stem = library.name[: found.start()]
            modules.setdefault(stem, {})[int(found[1])] = library.name
    for names in modules.values():
        minors = set(names)
        required = [minor_of(tag) for tag in case.tags]
        if len(minors) == 1 and not all(minor in minors for minor in required):
            fact = (
                f"only Python 3.{min(minors)} can import it, but the tag is {list_tags(case.tags)}"
            )
            is_for_others = None not in required and minors.isdisjoint(required)
            severity = "error" if is_for_others else case.severity("warning")
            yield Finding(file=next(iter(names.values())), rule="tag", fact=fact, severity=severity)


def _fits_python(tag: Tag, python: str | None) -> bool:
    if python is None:
        return (tag.interpreter, tag.abi) == ("py3", "none")
    abi = f"cp{python.replace('.', '')}"
    own = plain_release(abi)
    if tag.abi != "abi3" or own != abi:  # a free-threaded Python has no stable ABI (PEP 703)
        return (tag.interpreter, tag.abi) == (own, abi)
    # The stable ABI runs on later Pythons; behind "cp3" stands the minor version.
    minor = tag.interpreter.removeprefix("cp3")
    return minor.isdigit() and int(minor) <= int(own.removeprefix("cp3"))


def _size_findings(case: Case) -> Iterator[Finding]:
    scan, contract = case.scan, case.contract
    if contract and scan.size > contract.max_size:
        allowed = f"the recipe allows {show_size(contract.max_size)}"
        fact = f"{show_size(scan.size)}, {allowed}"
        yield Finding(file=scan.file_name, rule="size", fact=fact)


def _leak_findings(case: Case) -> Iterator[Finding]:
    for leak in case.scan.leaks:
        times = f"; {leak.count} paths of that folder" if leak.count > 1 else ""
        # What a copy of NVIDIA's library holds is of NVIDIA's machines.
        severity = "note" if is_grafted(leak.name) else case.severity("note")
        fact = f"it contains {leak.text}{times}"
        yield Finding(file=leak.name, rule="build path", fact=fact, severity=severity)


def _graft_findings(case: Case) -> Iterator[Finding]:
    sonames = {library.name: elf.soname for library, elf in case.host_libraries}
    # A wheel may have 200,000 files, and few are libraries or lie where repair tools put them.
    for name in (one for one in case.scan.names if ".so" in one or ".libs/" in one):
        file = name_before_graft(PurePosixPath(name).name)
        if is_from_driver(sonames.get(name, "")) or is_from_driver(file):
            fact = "it belongs to the GPU's driver, and has to match the one on the user's machine"
            yield Finding(file=name, rule="grafted library", fact=fact)
        elif is_grafted(name) and not case.is_supplier and not _is_bundled(file, case.contract):
            fact = "a library that belongs to another wheel is copied in"
            severity = case.severity("warning" if _is_second(name, file, case) else "note")
            yield Finding(file=name, rule="grafted library", fact=fact, severity=severity)
        elif _is_unnamed_copy(name, case.contract):
            fact = "it was copied from the build machine, and is not in the recipe's `bundles`"
            yield Finding(file=name, rule="grafted library", fact=fact)
        yield from _dlopen_findings(name, file, case)


def _is_unnamed_copy(name: str, contract: Contract | None) -> bool:
    path = PurePosixPath(name)
    if contract is None or not path.parts[0].endswith(".libs") or is_grafted(name):
        return False
    return stem_of(path.name) not in contract.bundles


def _is_second(name: str, file: str, case: Case) -> bool:
    """Whether a repair tool copied a library, or a requirement brings the same one.

    A package that puts a library of NVIDIA's among its own files has made up its mind.
    """
    component = component_of_copy(file)
    brought = {one.distribution for one in case.dependencies if not one.extra}
    is_brought = component is not None and component.distribution in brought
    return is_brought or PurePosixPath(name).parts[0].endswith(".libs")


def _dlopen_findings(name: str, file: str, case: Case) -> Iterator[Finding]:
    """A copy that opens others by name: under the names that repair tools give it finds none."""
    component = component_of_copy(file)
    if component is None or file == PurePosixPath(name).name:
        return
    files = {one for one in case.files if name_before_graft(one) == one}
    for pattern in component.opens:
        is_loaded = any(preloads(one.by, pattern) for one in case.dependencies)
        if not is_loaded and not any(fnmatchcase(one, pattern) for one in files):
            fact = f"it opens {pattern} by name, but the wheel has no file of that name"
            yield Finding(file=name, rule="grafted library", fact=fact)


def _is_bundled(file: str, contract: Contract | None) -> bool:
    """Whether the recipe requires copies; a framework's libraries are never copied."""
    frameworks = [pattern for one in COMPONENTS if one.cuda is None for pattern in one.sonames]
    is_framework = any(PurePosixPath(file).match(pattern) for pattern in frameworks)
    return contract is not None and contract.mode == "bundled" and not is_framework
