"""Rules for names, tags, METADATA and WHEEL: what installers and the index refuse."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, product
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.errors import ExceptionGroup
from packaging.metadata import Metadata, parse_email
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.base.formats.wheel.metadata import header, installed_path, unread_headers
from cuwheel.base.formats.wheel.publication import mark_source, split_mark
from cuwheel.base.system.versions import plain_release
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import (
    BACKPORTS,
    OF_MODULES,
    WITHOUT_WHEELS,
    misnamed,
    released,
    unknown_extras,
)
from cuwheel.check.audit.tags import list_tags, minor_of, policy_of
from cuwheel.check.cuda.frameworks import (
    extras_of,
    has_common_release,
    pin_conflict,
    toolkit_conflict,
)

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import Specifier

_OF_ONE_NAME = 20  # requirements that are compared with each other; real wheels have a few
_DIRTY = re.compile(r"(^|\.)(d20\d{6}|dirty)(\.|$)")  # of setuptools-scm and versioneer
_PARTS_WITH_BUILD = 6  # of a file's name
_LAST_WITH_M = 7  # of Python 3: later ones have no `m` in their ABI
_TAG_DASHES = 2  # between a tag's three parts
_GLIBC = re.compile(r"^manylinux(_\d+_\d+|\d+)")
_PLATFORM = re.compile(r"linux_|manylinux(1|2010|2014|_\d+_\d+)_|musllinux_\d+_\d+_")
_NO_MACHINES = ("_amd64", "_arm64", "_x64", "_x86", "_i386", "_sbsa")  # of others' names for them
_PYTHON_SUFFIX = re.compile(r"\.cpython-3(\d+)t?-[-\w]*\.so$")
# Setuptools wrote it long before metadata 2.4 had it; twine lets it pass (7.0.0, `package.py`).
_EARLY_FIELD = "license-file introduced in metadata version"
_REPEATED = re.compile(r"'(.+)' has invalid data")
_WITH_LICENSES = Version("2.4")  # of METADATA, from which the index looks for the files (PEP 639)
_PATCHES = 100  # more patch releases than any Python has
_LAST_PATCH, _MINORS = _PATCHES - 1, 40
_WHEEL_MAJOR = 1  # of Wheel-Version: installers refuse a greater one (PEP 427)
_DESCRIPTION_MAX = 1 << 20  # bytes that are rendered
_SUMMARY_MAX, _LABEL_MAX = 512, 32  # characters (Warehouse, `forklift`)
_LONGEST = 120  # characters of the renderer's message
# The index's list of classifiers (trove-classifiers, November 2026) in outline: a copy of all would
# soon lack new ones. Its first parts, and groups with what may follow; no licence is added any more
# (PEP 639), and here stand the short names that aren't in the list.
_GROUPS = frozenset(
    {"Development Status", "Environment", "Framework", "Intended Audience", "License"}
    | {"Natural Language", "Operating System", "Programming Language", "Topic", "Typing"}
)
_PRIVATE = "Private :: "  # which nobody means for the index
_MISSPACED = re.compile(r"\S::|::\S|  ")
_CLOSED = {
    "License :: OSI Approved :: ": r"MIT License|MIT No Attribution License \(MIT-0\)"
    r"|Apache Software License|BSD License"
    r"|(?!(?i:the )?(?i:mit|apache|bsd)\b).*(Licen[cs]e|Agreement|\().*",
    "Typing :: ": "Stubs Only|Typed",
    "Intended Audience :: ": "Customer Service|Developers|Education|End Users/Desktop"
    "|Financial and Insurance Industry|Healthcare Industry|Information Technology|Legal Industry"
    "|Manufacturing|Other Audience|Religion|Science/Research|System Administrators"
    "|Telecommunications Industry",
    "Development Status :: ": "1 - Planning|2 - Pre-Alpha|3 - Alpha|4 - Beta|5 - Production/Stable"
    "|6 - Mature|7 - Inactive",
    "Environment :: GPU": r"( :: NVIDIA CUDA( :: ([1-9]\.\d|10\.[0-2]|11(\.[0-8])?"
    r"|12( :: 12\.[0-6])?|13))?)?",
    "Programming Language :: Python :: ": r"[23]( :: Only)?|2\.[3-7]|3\.(\d|1[0-6])"
    r"|(Implementation|Free Threading)( :: .*)?",
}
_JAX_PLUGIN, _PIN = re.compile(r"jax-cuda1\d-(plugin|pjrt)"), re.compile(r"==(\d+\.\d+)\.\d+")
_PLAIN = ("text/plain", "text/markdown")  # always valid


def name_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about names, versions and tags."""
    yield from _project_findings(case)
    yield from _tag_findings(case)
    yield from _build_findings(case)


def metadata_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about METADATA and WHEEL."""
    yield from _specification_findings(case) if case.scan.metadata else ()
    yield from _description_findings(case)
    yield from _installer_findings(case)
    yield from _requirement_findings(case)


def _project_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield projects and versions that differ between file name, METADATA and target."""
    scan = case.scan
    if not scan.metadata and f"{scan.dist_info}/METADATA" not in scan.names:
        yield finding(scan.dist_info, "metadata", "it has no METADATA: installers refuse the wheel")
        return
    name = next(iter(header(scan.metadata, "name")), "")
    written = next(iter(header(scan.metadata, "version")), "")
    try:
        project, version, _, _ = parse_wheel_filename(scan.file_name)
        in_metadata = Version(written)
    except (InvalidWheelFilename, InvalidVersion) as problem:
        yield finding(scan.file_name, "name", str(problem))
        return
    if (canonicalize_name(name), in_metadata) != (project, version):
        fact = f"the file name says {project} {version}, METADATA says {name} {written}"
        yield finding(scan.file_name, "name", fact)
    if (version.release and not any(version.release)) or _DIRTY.search(version.local or ""):
        fact = f"the version {version} is that of a build without a tag, or with changed files"
        yield finding(scan.file_name, "name", fact, "note")
    if fact := _form_fault(scan.file_name):
        yield finding(scan.file_name, "name", fact, "note")
    # In normal forms, as installers compare names; pip and Python split at the first hyphen.
    stem, _, stated = scan.dist_info.removesuffix(".dist-info").partition("-")
    if (canonicalize_name(stem), _version(stated)) != (project, version):
        fact = "its name doesn't match the wheel's file name"
        fact += f": it reads as {stem} {stated}" if "-" in stated else ""
        yield finding(scan.dist_info, "name", fact)
    if contract := case.contract:
        if project != contract.project:
            fact = f"the project is {project}, the recipe's is {contract.project}"
            yield finding(scan.file_name, "name", fact)
        local = contract.local_version
        release = f"{contract.release}+{local}" if local else contract.release
        required = Version(mark_source(release, split_mark(version)[1]))
        if version != required:
            fact = f"the version is {version}, the target's is {required}"
            yield finding(scan.file_name, "version", fact)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _tag_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield tags that differ between file name and WHEEL, or don't fit target and content."""
    scan = case.scan
    lines = {text: _tags_in(text) for text in header(scan.tags_text, "tag")}
    written = frozenset[Tag]().union(*lines.values())
    for text in (text for text, tags in lines.items() if not tags and case.tags):
        fact = f"WHEEL has the tag {text or '(nothing)'}, but a tag has three parts"
        yield finding("WHEEL", "tag", fact)
    if not scan.tags_text:
        fact = "it has no WHEEL with the tags: installers refuse the wheel"
        yield finding(scan.dist_info, "archive", fact)
    elif case.tags and case.tags != written:
        fact = f"the file name has {list_tags(case.tags)}, WHEEL has {list_tags(written)}"
        # Installers go by the file name; `pip check` alone reports the other.
        severity = case.severity("note" if _is_as_open(written, case.tags) else "warning")
        yield finding("WHEEL", "tag", fact, severity)
    is_pure = header(scan.tags_text, "root-is-purelib") != ("false",) and bool(scan.tags_text)
    if case.host_libraries and is_pure:
        fact = (
            "Root-Is-Purelib isn't false: on systems with two site-packages folders its "
            "libraries are installed into the one for pure Python code"
        )
        graph = case.loader_graph
        # NVIDIA's wheels, whose libraries rpath entries lead to, are installed there too.
        own = {path.parts[0] for path in map(installed_path, scan.names) if path} | {"nvidia"}
        folders = (folder for name in graph.elves for folder in graph.folders(name))
        leaves = any(folder.parts and folder.parts[0] not in own for folder in folders)
        has_modules = any(elf.python_modules for _, elf in case.host_libraries)
        fact += ", where some of their rpath entries don't work" if leaves else ""
        severity = case.severity("warning" if has_modules and leaves else "note")
        yield finding("WHEEL", "tag", fact, severity)
    for tag in sorted(case.tags, key=str):
        if case.contract and not _fits_python(tag, case.contract.python):
            fact = f"{tag} is not a tag for {case.contract.python or 'every Python 3'}"
            yield finding(scan.file_name, "tag", fact)
        elif case.contract and case.contract.is_abi3 and tag.abi != "abi3":
            fact = f"{tag} serves one Python, the recipe states the stable ABI"
            yield finding(scan.file_name, "tag", fact)
        if case.is_read and case.host_libraries and policy_of(tag.platform) is None:
            fact = f"{tag.platform} is not a manylinux tag that auditwheel knows"
            refusal = _refusal(tag.platform)
            if tag.platform == "any":
                fact = "the tag includes every system, but the wheel has libraries for Linux"
            is_lost = refusal or (tag.platform == "any" and _is_linux_alone(case))
            severity = case.severity("error" if is_lost else "warning")
            yield finding(scan.file_name, "platform tag", refusal or fact, severity)
    yield from _module_findings(case)


def _form_fault(file_name: str) -> str:
    """Return why a file name isn't in the form of the specification; empty: it is (PEP 427)."""
    name, version = file_name.split("-")[:2]
    normal = canonicalize_name(name).replace("-", "_")
    if name != normal:
        return f"the specification's form of its project is {normal}, not {name}"
    stated = _version(version)
    is_normal = stated is None or str(stated) == version.replace("_", "-") or "_" in version
    return (
        "" if is_normal else f"the specification's form of its version is {stated}, not {version}"
    )


def _classifier_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield Pythons, systems and CUDA releases in classifiers that the wheel isn't for."""
    names = header(case.scan.metadata, "classifier")
    oldest, newest = case.oldest_python, case.newest_python
    stated = {int(m[1]) for each in names if (m := re.fullmatch(r".*:: Python :: 3\.(\d+)", each))}
    if stated and oldest and not any(oldest <= minor <= newest for minor in stated):
        fact = f"its classifiers are for Python 3.{max(stated)}, its tag and Requires-Python aren't"
        yield finding("METADATA", "metadata", fact, "note")
    systems = [each for each in names if each.startswith("Operating System :: ")]
    is_linux = bool(case.platforms) and all("linux" in each for each in case.platforms)
    if is_linux and systems and all(re.search("Microsoft|MacOS", each) for each in systems):
        fact = f"its classifiers are for {systems[0].rpartition(' :: ')[2]}, its tag is for Linux"
        yield finding("METADATA", "metadata", fact, "note")
    cuda = {int(m[1]) for each in names if (m := re.search(r"NVIDIA CUDA :: (\d+)", each))}
    if cuda and case.cuda and cuda.isdisjoint(case.cuda):
        fact = f"its classifiers are for CUDA {max(cuda)}, its libraries for CUDA {case.cuda[0]}"
        yield finding("METADATA", "metadata", fact, "note")  # installers read no classifier


def _build_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield tags that no Python has, and another build number in WHEEL than in the file name."""
    scan = case.scan
    # A compressed tag has all combinations of its parts: each Python needs one.
    served = {tag.interpreter for tag in case.tags if not _abi_fault(tag)}
    for tag in sorted(case.tags, key=str):
        if tag.interpreter not in served:
            yield finding(scan.file_name, "tag", _abi_fault(tag))
    parts = scan.file_name.split("-")
    build = parts[2] if len(parts) == _PARTS_WITH_BUILD else ""
    stated = next(iter(header(scan.tags_text, "build")), "")
    if scan.tags_text and build != stated:
        fact = f"the build in the file name is {build or 'missing'}, in WHEEL {stated or 'missing'}"
        yield finding("WHEEL", "tag", fact, "note")


def _abi_fault(tag: Tag) -> str:
    """Return why no Python installs a tag, for its ABI; empty: one does (PEP 425, PEP 703)."""
    abis = {"none"}
    if re.fullmatch(r"cp3\d+", tag.interpreter):
        name, minor = tag.interpreter, int(tag.interpreter.removeprefix("cp3"))
        letters = ("t", "d", "td") if minor > _LAST_WITH_M else ("d", "m", "dm")
        abis |= {"abi3", "abi3t", name, *(f"{name}{letter}" for letter in letters)}
    is_known = re.fullmatch(r"cp3\d+|py3\d*", tag.interpreter)
    return (
        "" if not is_known or tag.abi in abis else f"no Python installs {tag}: its ABI is another's"
    )


def _refusal(platform: str) -> str:
    """Return why no installer takes a tag of Linux; empty: some do."""
    if not platform.startswith(("linux", "manylinux", "musllinux")):
        return ""
    if platform.endswith(_NO_MACHINES):
        return f"{platform} names no machine that installers know: x86_64 or aarch64"
    return "" if _PLATFORM.match(platform) else f"installers know no tag {platform}"


def _is_linux_alone(case: AuditCase) -> bool:
    """Return True if importing the wheel loads a library for Linux, and it has no other's."""
    is_for_others = any(name.endswith((".dll", ".pyd", ".dylib")) for name in case.scan.names)
    run = {name for name in case.code.run if name in case.scan.loaders}
    text = b"\n".join(case.scan.sources[name] for name in run)
    files = [PurePosixPath(library.name).name.encode() for library, _ in case.host_libraries]
    is_loaded = any(case.code.is_always_loaded(library.name) for library, _ in case.host_libraries)
    return not is_for_others and (is_loaded or any(file in text for file in files))


def _tags_in(text: str) -> frozenset[Tag]:
    """Return the tags of a compressed one; empty if it isn't a tag."""
    is_whole = text.count("-") == _TAG_DASHES and all(text.split("-"))
    try:
        return parse_tag(text) if is_whole else frozenset()
    except ValueError:
        return frozenset()


def _is_as_open(written: Iterable[Tag], tags: Iterable[Tag]) -> bool:
    """Return True if WHEEL differs only by plain `linux`, or `any`, in place of manylinux.

    Installers choose by the file name. `pip check` reads WHEEL, and reports nothing either.
    """
    plain = {(tag.interpreter, tag.abi, _GLIBC.sub("linux", tag.platform)) for tag in tags}
    open_tags = {(tag.interpreter, tag.abi, tag.platform) for tag in written}
    return open_tags in (plain, {(*names, "any") for *names, _ in plain})


def _module_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield extension modules for one Python in a wheel with tags for others.

    If there are modules for several Pythons, `Requires-Python` decides.
    """
    modules: dict[str, dict[int, str]] = {}
    for library, elf in case.host_libraries:
        match = _PYTHON_SUFFIX.search(library.name)
        if match and elf.python_modules:
            stem = library.name[: match.start()]
            modules.setdefault(stem, {})[int(match[1])] = library.name
    for names in modules.values():
        minors = set(names)
        required = [minor_of(tag) for tag in case.tags]
        if len(minors) == 1 and not all(minor in minors for minor in required):
            fact = (
                f"only Python 3.{min(minors)} can import it, but the tag is {list_tags(case.tags)}"
            )
            is_for_others = None not in required and minors.isdisjoint(required)
            # A package may do without a module that it doesn't always import.
            is_vital = any(map(case.code.is_always_loaded, names.values()))
            severity = "error" if is_for_others or is_vital else case.severity("warning")
            yield finding(next(iter(names.values())), "tag", fact, severity)
        elif others := sorted(minors - {*required} if None not in required else ()):
            fact = f"only Python 3.{others[0]} can import it, and no tag is for that"
            yield finding(names[others[0]], "tag", fact, "note")


def _fits_python(tag: Tag, python: str | None) -> bool:
    if python is None:
        return (tag.interpreter, tag.abi) == ("py3", "none")
    abi = f"cp{python.replace('.', '')}"
    release = plain_release(abi)
    if tag.abi != "abi3" or release != abi:  # a free-threaded Python has no stable ABI (PEP 703)
        return (tag.interpreter, tag.abi) == (release, abi)
    # The stable ABI runs on later Pythons; "cp3" is followed by the minor version.
    minor = tag.interpreter.removeprefix("cp3")
    return minor.isdigit() and int(minor) <= int(release.removeprefix("cp3"))


def _specification_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield breaches of the core metadata specification; upstream's are warnings."""
    line, lost = unread_headers(case.scan.metadata)
    if line:
        fact = (
            f"line {line} is no header: installers take it and all that follows for the description"
        )
        fact += f", {', '.join(lost)} too" if lost else ""
        yield finding("METADATA", "metadata", fact, "error" if lost else "warning")
    try:
        Metadata.from_email(case.scan.metadata, validate=True)
    except RecursionError:
        fact = "the brackets of a requirement are nested too deeply for any installer"
        yield finding("METADATA", "metadata", fact)
    except ExceptionGroup as problems:
        for problem in problems.exceptions:
            fact = " ".join(str(problem).split())
            if fact.startswith(_EARLY_FIELD):
                continue
            repeated = _REPEATED.fullmatch(fact)
            if repeated and (count := len(header(case.scan.metadata, repeated[1]))) > 1:
                fact = f"{count} lines state {repeated[1].title()}, and one may"
            # Only the index refuses the others.
            is_refused = fact.endswith("invalid for 'requires-dist'")
            yield finding("METADATA", "metadata", fact, "error" if is_refused else "warning")
    yield from _header_findings(case.scan.metadata)
    yield from _classifier_findings(case)
    yield from _claim_findings(case)


def _claim_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files and extras of METADATA that aren't there, and licences stated twice."""
    text, info = case.scan.metadata, case.scan.dist_info
    stated = _version("".join(header(text, "metadata-version")))
    is_checked = stated is not None and stated >= _WITH_LICENSES
    for file in header(text, "license-file") if is_checked else ():
        if not {f"{info}/licenses/{file}", f"{info}/{file}"} & {*case.scan.names}:
            fact = f"License-File: {file} isn't in {info}/licenses"
            yield finding("METADATA", "metadata", fact, "warning")
    for name in header(text, "classifier"):
        if _is_refused(name):
            fact = f"the index refuses the classifier {name}, which isn't in its list"
            yield finding("METADATA", "metadata", fact, "warning")
    licences = [name for name in header(text, "classifier") if name.startswith("License ::")]
    if licences and header(text, "license-expression"):
        fact = f"License-Expression replaces the classifier {licences[0]}"
        yield finding("METADATA", "metadata", fact, "note")
    declared = set(map(canonicalize_name, header(text, "provides-extra")))
    extras = {extra for each in case.requirements for extra in extras_of(each, case.markers)} - {""}
    own = (each for each in case.requirements if canonicalize_name(each.name) == case.project)
    extras |= {extra for each in own for extra in each.extras}
    shown = re.findall(rf"pip3? install [\"']?{re.escape(case.project)}\[([\w, -]+)\]", text)
    named = {canonicalize_name(extra.strip()) for line in shown for extra in line.split(",")}
    for extra in sorted(named - declared - extras):
        fact = f"its description names the extra {extra}, which isn't in Provides-Extra"
        yield finding("METADATA", "metadata", fact, "note")
    for extra in sorted({canonicalize_name(extra) for extra in extras} - declared):
        fact = f"requirements are for the extra {extra}, which isn't in Provides-Extra: pip ignores"
        yield finding("METADATA", "metadata", f"{fact} it", "warning")


def _header_findings(text: str) -> Iterator[AuditFinding]:
    """Yield headers that the index refuses for their form."""
    for line in header(text, "project-url"):
        label, comma, address = (part.strip() for part in line.partition(","))
        if not (comma and address and 0 < len(label) <= _LABEL_MAX):
            fact = f"the index refuses the Project-URL {line}, which isn't a label of up to "
            fact += f"{_LABEL_MAX} characters, a comma and an address"
            yield finding("METADATA", "metadata", fact, "warning")
    for line in header(text, "summary"):
        if len(line) > _SUMMARY_MAX:
            fact = f"the index refuses a Summary of {len(line)} characters: {_SUMMARY_MAX} at most"
            yield finding("METADATA", "metadata", fact, "warning")


def _is_refused(classifier: str) -> bool:
    """Return True for a classifier that can't be in the index's list."""
    if classifier.startswith(_PRIVATE):
        return False
    group, separator, _ = classifier.partition(" :: ")
    return (
        group not in _GROUPS
        or not separator
        or bool(_MISSPACED.search(classifier))
        or any(
            classifier.startswith(start) and not re.fullmatch(rest, classifier.removeprefix(start))
            for start, rest in _CLOSED.items()
        )
    )


def _installer_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the reasons of installers to refuse a readable file."""
    stated = next(iter(header(case.scan.tags_text, "wheel-version")), "")
    if case.scan.tags_text and stated.partition(".")[0] != str(_WHEEL_MAJOR):
        fact = f"Wheel-Version is {stated or 'missing'}, and installers support {_WHEEL_MAJOR}.x"
        yield finding("WHEEL", "archive", fact)
    required = next(iter(header(case.scan.metadata, "requires-python")), "")
    try:
        allowed = SpecifierSet(required)
    except InvalidSpecifier:
        return  # a finding of `_specification_findings`
    minors = {minor_of(tag) for tag in case.tags}
    pythons = range(_MINORS) if None in minors else filter(None, minors)
    served = {n: _served_patches(allowed, n) for n in pythons}
    if minors and not any(served.values()):
        fact = f"Requires-Python is {required}, but the tag is {list_tags(case.tags)}"
        yield finding("METADATA", "metadata", fact)
    cut = {n: patches[-1] for n, patches in served.items() if patches and patches[-1] < _LAST_PATCH}
    for n, patch in cut.items():
        fact = f"Requires-Python is {required}: pip refuses Python 3.{n}.{patch + 1} and all later "
        is_whole = all(n in cut for n, patches in served.items() if patches)
        fact += f"3.{n}, meant is =={'3.' + str(n)}.* or <3.{n + 1}"
        yield finding("METADATA", "metadata", fact, "error" if is_whole else "warning")


@functools.lru_cache(maxsize=1024)  # many wheels state the same; a comparison takes microseconds
def _served_patches(allowed: SpecifierSet, minor: int) -> tuple[int, ...]:
    return tuple(p for p in range(_PATCHES) if allowed.contains(f"3.{minor}.{p}"))


def _requirement_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield requirements that the index refuses, or that no installer can meet together."""
    by_name: dict[str, list[Requirement]] = {}
    for each in case.requirements:
        group = by_name.setdefault(canonicalize_name(each.name), [])
        if "" in extras_of(each, case.markers) and len(group) < _OF_ONE_NAME:
            group.append(each)
    yield from _local_findings(case)
    for each in case.requirements:
        yield from _alone_findings(each, case)
    for first, second in chain.from_iterable(combinations(group, 2) for group in by_name.values()):
        alone = (has_common_release(each.specifier, each.specifier) for each in (first, second))
        if all(alone) and not has_common_release(first.specifier, second.specifier):
            fact = f"{first} and {second} exclude each other: no installer takes the wheel"
            yield finding("METADATA", "metadata", fact)
    yield from _jax_findings(by_name)
    for torch, each in product(by_name.get("torch", ()), chain.from_iterable(by_name.values())):
        if brought := toolkit_conflict(torch.specifier, each):
            fact = f"torch{torch.specifier} requires the libraries of CUDA {brought}, which "
            fact += f"{each} excludes: no installer takes the wheel"
            yield finding("METADATA", "metadata", fact)
        elif _is_for_x86(case) and (pins := pin_conflict(torch.specifier, each)):
            fact = f"torch{torch.specifier} requires {each.name}=={pins}, which {each} excludes: "
            yield finding("METADATA", "metadata", f"{fact}no installer takes the wheel")


def _jax_findings(by_name: Mapping[str, list[Requirement]]) -> Iterator[AuditFinding]:
    """Yield a pinned plugin of another release than JAX's, which doesn't use it then."""
    plugins = [name for name in by_name if _JAX_PLUGIN.fullmatch(name)]
    for jax in chain.from_iterable(by_name.get(name, ()) for name in ("jax", "jaxlib")):
        for plugin in chain.from_iterable(by_name[name] for name in plugins):
            pins = [_PIN.fullmatch(str(each.specifier)) for each in (jax, plugin)]
            if all(pins) and len({pin[1] for pin in pins if pin}) > 1:
                fact = f"{jax} doesn't use {plugin}: a plugin is for the JAX of its own release"
                yield finding("METADATA", "metadata", fact)


def _is_for_x86(case: AuditCase) -> bool:
    return any(name == "any" or name.endswith("x86_64") for name in case.platforms)


def _local_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield requirements of local versions, by a wheel that is not of one itself."""
    locals_ = [
        f"{canonicalize_name(required.name)}{each}"
        for required in case.requirements
        if "" in extras_of(required, case.markers) and not required.url
        for each in required.specifier
        if "+" in each.version
    ]
    if locals_ and "+" not in case.scan.dist_info:
        fact = f"the public index has no local versions, as {', '.join(locals_)}: pip finds "
        fact += f"{'these' if len(locals_) > 1 else 'it'} only with the address of another index "
        yield finding("METADATA", "metadata", f"{fact}(--extra-index-url)", "warning")


def _alone_findings(required: Requirement, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a requirement that the index refuses, or that no release of the index meets."""
    name, is_always = canonicalize_name(required.name), "" in extras_of(required, case.markers)
    fact, severity = "", "warning"
    if required.url:
        fact = f"{name} is required from an address, which the index refuses: {required.url}"
        severity = "error" if str(required.url).startswith("file:") else "warning"
    elif name == case.project and (fact := _own_fault(required, case)):
        severity = "error" if is_always else "warning"
    elif (known := released(name)) and not any(
        has_common_release(SpecifierSet(text), required.specifier) for text in known.split(" or ")
    ):
        fact = f"{required} has no release, {name} has {known}: no installer takes the wheel"
        severity = "error" if is_always else "warning"
    elif any(map(_is_development, required.specifier)):
        fact = f"the public index has no development releases, as {required}"
    elif not has_common_release(required.specifier, required.specifier):
        fact = f"no release meets {required}: no installer takes the wheel"
        severity = "error" if is_always else "warning"
    elif extras := unknown_extras(name, required.extras):
        fact = f"{name} has no extra {' or '.join(extras)}: installers leave out what it stands for"
    elif is_always:
        fact, severity = _project_fault(name, case)
    if fact:
        yield finding("METADATA", "metadata", fact, severity)  # type: ignore[arg-type]


def _project_fault(name: str, case: AuditCase) -> tuple[str, Severity]:
    """Return what is wrong with requiring a project at all; empty: nothing that is known."""
    if name in WITHOUT_WHEELS and not case.contract:
        fact = f"{name} has no wheels on the index: installers build it{WITHOUT_WHEELS[name]}"
        return fact, "warning" if WITHOUT_WHEELS[name] else "note"
    if why := misnamed(name):
        return f"the project {name} on the index {why}", "error"
    if other := OF_MODULES.get(name):
        return f"{name} is a module's name: its project on the index is {other}", "warning"
    if name in BACKPORTS:
        return f"{name} is a module of Python's own: the project is for Pythons before it", "note"
    return "", "note"


def _is_development(each: Specifier) -> bool:
    """Return True for an exact development release."""
    version = _version(each.version) if each.operator in ("==", "===") else None
    return version is not None and version.is_devrelease


def _own_fault(required: Requirement, case: AuditCase) -> str:
    """Return why no installer can meet a project's requirement of itself; empty: it can."""
    own = _version(next(iter(header(case.scan.metadata, "version")), ""))
    if own is None or required.specifier.contains(own, prereleases=True):
        return ""
    return f"the wheel of {own} requires itself as {required}: no installer takes it"


@functools.lru_cache(maxsize=16)
def _rendering_fault(description: str) -> str:
    """Return the first fault of reStructuredText, with its line; empty: it can be rendered."""
    # docutils takes 0.1 s to import, and few descriptions are reStructuredText.
    from readme_renderer import rst  # noqa: PLC0415

    messages = io.StringIO()
    if rst.render(description, stream=messages) is not None:
        return ""
    return " ".join(messages.getvalue().split()).removeprefix("<string>:")[:_LONGEST]


def _description_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a finding for a description that the index's own renderer can't render."""
    raw, _ = parse_email(case.scan.metadata)
    description = raw.get("description") or ""
    stated = (raw.get("description_content_type") or "").partition(";")[0].strip().lower()
    if not description.strip() or stated in _PLAIN or len(description) > _DESCRIPTION_MAX:
        return
    if fault := _rendering_fault(description):
        kind = (
            "reStructuredText" if stated else "read as reStructuredText because no type is stated,"
        )
        fact = f"the long description is {kind} and can't be rendered: line {fault}"
        yield finding("METADATA", "metadata", fact, "warning")
