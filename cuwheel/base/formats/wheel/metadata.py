"""Metadata of an unpacked wheel, its `.dist-info` folder: read and edited.

Only the lines that have to change are changed; every other byte, the description's above all,
stays. Why not a library: docs/adr/0007.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

import packaging.markers
import packaging.requirements
import packaging.utils
from packaging.tags import compatible_tags, cpython_tags

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.system.regular_files import read_bytes, read_text

_UNREADABLE = (
    packaging.requirements.InvalidRequirement,
    packaging.markers.UndefinedComparison,
    packaging.markers.UndefinedEnvironmentName,
)

_HEADER = re.compile(rb"[!-9;-~]*:|[ \t]")  # of e-mail (RFC 5322, section 2.2), or continued
# Headers that a resolver reads, or the index shows.
_FIELD = re.compile(
    r"(Requires|Provides|Classifier|License|Name|Version|Author|Project|Dynamic)\b.*:"
)
_RESOLVED = re.compile(r"Requires-(Dist|Python): ")
_LIBRARY = re.compile(r"\.so(\.\d+)*$")


def is_library(name: str) -> bool:
    """Return True if a file is a shared library by its name: `a.so`, `lib/b.so.12`."""
    return _LIBRARY.search(name) is not None


def headers(text: str) -> tuple[tuple[str, str], ...]:
    """Return names (lower case) and values of the header lines of METADATA or WHEEL."""
    blocks, _ = _split_headers(text.encode())
    pairs = (block.decode().partition(":") for block in blocks)
    return tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)


def header(text: str, name: str) -> tuple[str, ...]:
    """Return all values of one header, in order."""
    return tuple(value for key, value in headers(text) if key == name.lower())


def unread_headers(text: str) -> tuple[int, tuple[str, ...]]:
    """Return the number of the line that ends the headers too early; 0: none does.

    It isn't empty, or a resolver's headers follow in the next paragraph. And the names, as written,
    of the headers that follow it up to the next empty line.
    """
    blocks, rest = _split_headers(text.encode())
    is_empty = rest[:1] in b"\r\n"
    lines = rest.replace(b"\r", b"").lstrip(b"\n").partition(b"\n\n")[0].decode().split("\n")
    if is_empty and not any(map(_RESOLVED.match, lines)):
        return 0, ()
    names = (line.partition(":")[0] for line in lines if _FIELD.match(line))
    return b"".join(blocks).count(b"\n") + 1, tuple(dict.fromkeys(names))


def find_dist_info(owner: Path, names: Iterable[str]) -> str:
    """Return the one `.dist-info` folder among a wheel's files; raises UnsafeArchiveError."""
    firsts = {name.partition("/")[0] for name in names if "/" in name}
    folders = sorted(first for first in firsts if first.endswith(".dist-info"))
    if len(folders) != 1:
        raise UnsafeArchiveError(
            f"{owner.name} is not a wheel",
            why=f"it contains {', '.join(folders) or 'no .dist-info folder'}; a wheel contains "
            "exactly one",
            fix="download it again, or build it again",
        )
    return folders[0]


def dist_info_of(folder: Path) -> Path:
    """Return the `.dist-info` folder of an unpacked wheel; raises UnsafeArchiveError."""
    return folder / find_dist_info(folder, (f"{path.name}/" for path in folder.iterdir()))


def rename(folder: Path, *, version: str, project: str = "") -> None:
    """Give an unpacked wheel another version (in PEP 440's normal form), and perhaps another name.

    METADATA, `.dist-info` and `.data` follow.
    """
    old = dist_info_of(folder)
    stem = old.name.removesuffix(".dist-info")
    normalised = packaging.utils.canonicalize_name(project).replace("-", "_")
    new_stem = f"{normalised or stem.rpartition('-')[0]}-{version}"
    _edit_header(old / "METADATA", "Version", lambda _: [version])
    if project:
        _edit_header(old / "METADATA", "Name", lambda _: [project])
    for suffix in (".dist-info", ".data"):
        if (folder / f"{stem}{suffix}").exists():
            (folder / f"{stem}{suffix}").rename(folder / f"{new_stem}{suffix}")


def require(folder: Path, requirements: Iterable[str]) -> None:
    """Add requirements to an unpacked wheel, in place of those for the same projects.

    Requirements for other projects stay, and so does one for the same project that only an extra
    brings in. A replaced one keeps its place; new ones follow at the end.
    """
    required = {project_of(text): text for text in requirements}

    def merge(old: list[str]) -> list[str]:
        replaced = [
            line if is_optional(line) else required.get(project_of(line), line) for line in old
        ]
        return list(dict.fromkeys([*replaced, *required.values()]))

    _edit_header(dist_info_of(folder) / "METADATA", "Requires-Dist", merge)


def release(folder: Path, projects: Iterable[str]) -> None:
    """Remove an unpacked wheel's requirements for these projects; those of extras stay."""
    names = set(map(packaging.utils.canonicalize_name, projects))

    def keep(old: list[str]) -> list[str]:
        return [line for line in old if is_optional(line) or project_of(line) not in names]

    _edit_header(dist_info_of(folder) / "METADATA", "Requires-Dist", keep)


def offer(folder: Path, extra: str, requirements: Iterable[str]) -> tuple[str, ...]:
    """Give an unpacked wheel an extra, or extend one; return its `Requires-Dist` lines."""
    name = packaging.utils.canonicalize_name(extra)
    lines = [f'{text}; extra == "{name}"' for text in requirements]
    path = dist_info_of(folder) / "METADATA"

    def declare(old: list[str]) -> list[str]:
        is_there = name in map(packaging.utils.canonicalize_name, old)
        return old if is_there else [*old, name]

    _edit_header(path, "Provides-Extra", declare)
    _edit_header(path, "Requires-Dist", lambda old: list(dict.fromkeys([*old, *lines])))
    return tuple(lines)


def set_tags(folder: Path, tags: Iterable[str]) -> None:
    """Write the tags of an unpacked wheel (`cp312-cp312-manylinux_2_28_x86_64`); it isn't pure."""
    path = dist_info_of(folder) / "WHEEL"
    _edit_header(path, "Tag", lambda _: list(tags))
    _edit_header(path, "Root-Is-Purelib", lambda _: ["false"])


def set_build_tag(folder: Path, number: int) -> None:
    """Write the build tag of an unpacked wheel; installers take the highest; 0: no tag."""
    _edit_header(dist_info_of(folder) / "WHEEL", "Build", lambda _: [str(number)] * bool(number))


def file_name(folder: Path) -> str:
    """Return the file name that an unpacked wheel's `.dist-info` and tags require."""
    dist_info = dist_info_of(folder)
    text = read_text(dist_info / "WHEEL")
    tags = [tag.split("-") for tag in header(text, "tag")]
    parts = [".".join(sorted(set(part))) for part in zip(*tags, strict=True)]
    components = (dist_info.name.removesuffix(".dist-info"), *header(text, "build"), *parts)
    return f"{'-'.join(components)}.whl"


@functools.lru_cache(maxsize=1 << 16)  # each of an audit's rules asks for all files
def installed_path(name: str) -> PurePosixPath | None:
    """Return a member's path below site-packages; None when it goes elsewhere (scripts, data)."""
    first, *rest = PurePosixPath(name).parts
    if not first.endswith(".data") or len(rest) < 2:  # noqa: PLR2004 - scheme and file
        return PurePosixPath(name)
    return PurePosixPath(*rest[1:]) if rest[0] in ("purelib", "platlib") else None


def parse_requirement(requirement: str) -> packaging.requirements.Requirement | None:
    """Parse a `Requires-Dist`; None where it is invalid, or nested too deeply.

    So is one whose marker compares incomparable values: installers refuse it.
    """
    try:
        parsed = packaging.requirements.Requirement(requirement)
        if parsed.marker:
            parsed.marker.evaluate({"extra": ""})
    except (*_UNREADABLE, RecursionError):
        return None
    return parsed


def project_of(requirement: str) -> str:
    """Return the normalised project name of a `Requires-Dist`; empty where it is invalid."""
    parsed = parse_requirement(requirement)
    return packaging.utils.canonicalize_name(parsed.name) if parsed else ""


def is_optional(requirement: str) -> bool:
    """Return True if only an extra brings a `Requires-Dist` in."""
    parsed = parse_requirement(requirement)
    return parsed is not None and "extra ==" in str(parsed.marker)


def _edit_header(path: Path, name: str, edit: Callable[[list[str]], list[str]]) -> None:
    """Change the values of one header; every other byte of the file stays."""
    blocks, rest = _split_headers(read_bytes(path))
    end = "\r\n" if blocks and blocks[0].endswith(b"\r\n") else "\n"
    if blocks and not blocks[-1].endswith(b"\n"):
        blocks[-1] += end.encode()
    names = [block.partition(b":")[0].strip().lower() for block in blocks]
    ours = [index for index, other in enumerate(names) if other == name.lower().encode()]
    values = edit([blocks[index].decode().partition(":")[2].strip() for index in ours])
    lines = [f"{name}: {value}{end}".encode() for value in values]
    # The nth value takes the place of the nth line; the rest follows the last of them.
    replacements = dict(zip(ours, lines, strict=False))
    replacements |= dict.fromkeys(ours[len(lines) :], b"")
    blocks = [replacements.get(index, block) for index, block in enumerate(blocks)]
    last = ours[-1] if ours else len(blocks) - 1
    blocks[last + 1 : last + 1] = lines[len(ours) :]
    path.write_bytes(b"".join(blocks) + rest)


def _split_headers(content: bytes) -> tuple[list[bytes], bytes]:
    """Return each header with its continuation lines, and the rest.

    It begins with the first line that is empty or no header, as in e-mail, of which METADATA has
    the form.
    """
    blocks: list[bytes] = []
    stream = io.BytesIO(content)
    while line := stream.readline():
        if not line.strip(b"\r\n") or not _HEADER.match(line):
            return blocks, line + stream.read()
        if line[:1] in b" \t" and blocks:
            blocks[-1] += line
        else:
            blocks.append(line)
    return blocks, b""


@functools.cache
def python_tags(release: str) -> frozenset[tuple[str, str]]:
    """Return the interpreter and ABI tags of wheels that a CPython accepts, `3.14` or `3.14t`."""
    version = tuple(map(int, release.removesuffix("t").split(".")))
    interpreter = f"cp{version[0]}{version[1]}"
    tags = (
        *cpython_tags(version, abis=[f"cp{release.replace('.', '')}"], platforms=["any"]),
        *compatible_tags(version, interpreter=interpreter, platforms=["any"]),
    )
    return frozenset((tag.interpreter, tag.abi) for tag in tags)
