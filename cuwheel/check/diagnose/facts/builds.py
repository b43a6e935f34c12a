"""What installed wheels were built for: which Python, machine, and release of NumPy."""

from __future__ import annotations

import mmap
import platform
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag, parse_tag

from cuwheel.base.formats.binaries.elf import Elf, ElfFormatError, machine_name, read_elf
from cuwheel.base.formats.binaries.elf_image import MAGIC
from cuwheel.base.system.regular_files import open_file, read_text
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment

_CPYTHON = re.compile(r"cp(\d)(\d+)$")
_THREADED = re.compile(r"cpython-\d+t-")  # in the suffix of an extension
_NAMED_FOR_CUDA = re.compile(r"-cu(da)?\d\dx?$")
# The module that NumPy's headers import, of release 1 and of 2 (`numpy/__multiarray_api.h`).
_NUMPY_1 = b"numpy.core._multiarray_umath"
_NUMPY_2 = b"numpy._core._multiarray_umath"
# Of Cython, where a type is smaller than in the headers, and a name of its `numpy/__init__.pxd`.
_SIZE_TEXT, _TYPE = b"size changed, may indicate binary incompatibility", b"flatiter"
# The header of ELF: byte order, and the machine's number.
_ORDER, _BIG = 5, 2
_MACHINE, _HEAD = 18, 20
# Names of `uname -m` by those of the ELF registry.
_MACHINES = {
    "EM_386": ("i386", "i486", "i586", "i686"),
    "EM_PPC64": ("ppc64", "ppc64le"),
    "EM_S390": ("s390x",),
    "EM_ARM": ("arm", "armv6l", "armv7l"),
    "EM_X86_64": ("x86_64", "amd64"),
    "EM_AARCH64": ("aarch64", "arm64"),
    "EM_RISCV": ("riscv64",),
}
_LINE = 256  # bytes at the beginning of a program: binfmt_script
_INTERPRETER = re.compile(rb"#![ \t]*(\S+)")
_KNOWN = frozenset(name for names in _MACHINES.values() for name in names)


@dataclass(frozen=True, kw_only=True)
class OtherBuild:
    """An installed wheel that this interpreter can't use.

    Attributes:
        tag: of the wheel, `cp312-cp312-manylinux_2_17_x86_64`.
        machine: that it is for, if that is another one; else it is for another Python.
    """

    tag: str
    machine: str = ""


def find_other_build(
    distribution: Distribution, environment: PythonEnvironment
) -> OtherBuild | None:
    """Return what a distribution was built for if nothing of it fits the interpreter."""
    tags = list(_tags_of(distribution))
    if not tags or any(_fits(tag, environment) for tag in tags):
        return None
    tag = tags[0]
    is_other_machine = not any(_fits_machine(other, environment) for other in tags)
    machine = re.sub(r"^\w*?linux(_\d+_\d+|\d+)?_|^macosx_\d+_\d+_|^win_", "", tag.platform)
    if tag.platform.startswith("musllinux"):
        machine = "musl"
    return OtherBuild(tag=str(tag), machine=machine if is_other_machine else "")


def was_built_here(distribution: Distribution) -> bool:
    """Return True if a wheel is tagged for the machine that has built it, as no index takes it.

    One whose name has its CUDA is of an index: CuPy's are tagged so inside.
    """
    if _NAMED_FOR_CUDA.search(distribution.name):
        return False
    return any(re.match(r"linux_\w+$", tag.platform) for tag in _tags_of(distribution))


def _tags_of(distribution: Distribution) -> Iterator[Tag]:
    """Yield the tags that the installer has kept; conda's and a system's packages have none."""
    with suppress(OSError, UnicodeDecodeError, ValueError):
        for line in read_text(distribution.metadata / "WHEEL").splitlines():
            if line.startswith("Tag:"):
                yield from parse_tag(line.partition(":")[2].strip())


def _fits(tag: Tag, environment: PythonEnvironment) -> bool:
    return _fits_machine(tag, environment) and _fits_python(tag, environment)


def _fits_machine(tag: Tag, environment: PythonEnvironment) -> bool:
    machine = environment.markers["platform_machine"]
    if tag.platform == "any":
        return True
    # A library for musl needs its loader, which a system with glibc doesn't have.
    is_other_libc = tag.platform.startswith("musllinux") and not environment.is_musl
    return "linux" in tag.platform and tag.platform.endswith(machine) and not is_other_libc


def _fits_python(tag: Tag, environment: PythonEnvironment) -> bool:
    """Return False only for another CPython; of other interpreters nothing is known here."""
    match = _CPYTHON.match(tag.interpreter)
    if not match or environment.markers.get("implementation_name", "cpython") != "cpython":
        return True
    release = tuple(map(int, environment.version.split(".")[:2]))
    wanted = (int(match[1]), int(match[2]))
    if tag.abi in {"none", "abi3"}:
        return wanted <= release
    is_threaded = any(map(_THREADED.search, environment.suffixes))
    return wanted == release and tag.abi.endswith("t") == is_threaded


def elf_at(path: Path) -> Elf | None:
    """Return what a program or library declares; None: it is none, or can't be read."""
    try:
        with open_file(path) as stream:
            return read_elf(stream)
    except (OSError, ElfFormatError, struct.error):
        return None


def _start_of(path: Path, count: int) -> bytes | None:
    """Return the first bytes of a file; None: it can't be read."""
    try:
        with open_file(path) as stream:
            return stream.read(count)
    except OSError:
        return None


def other_machine(path: Path) -> str:
    """Return that a program or library is for another machine; empty: for this, or not known."""
    head = _start_of(path, _HEAD) or b""
    if not head.startswith(MAGIC) or len(head) < _HEAD:
        return ""
    number = int.from_bytes(head[_MACHINE:_HEAD], "big" if head[_ORDER] == _BIG else "little")
    known, own = _MACHINES.get(machine_name(number)), platform.machine()
    if known is None or own not in _KNOWN or own in known:
        return ""
    return f"is built for {known[0]}, and this machine is {own}"


def why_unstartable(program: Path) -> str:
    """Return why the kernel starts no program from a file; empty: not known."""
    start = _start_of(program, _LINE)
    if start is None:
        return ""
    if not start.strip(b"\0"):
        return "the file is empty" if not start else "it starts with zero bytes"
    if script := _INTERPRETER.match(start):
        loader = script[1].decode(errors="replace")
        return "" if Path(loader).exists() else f"its first line names {loader}, which isn't there"
    if not start.startswith(MAGIC):
        return "it is neither a program of Linux nor a script"
    elf = elf_at(program)
    if elf is None:
        return "it is damaged"
    is_lost = elf.interpreter and not Path(elf.interpreter).exists()
    return f"its loader {elf.interpreter} isn't there" if is_lost else ""


def file_for_numpy_1(distribution: Distribution) -> str:
    """Return the extension of a distribution that needs NumPy 1; empty: none does.

    What is compiled with the headers of NumPy 2 works with both.
    """
    for path in distribution.libraries:
        if path.name.endswith(".so") and _holds(path, _NUMPY_1, other=_NUMPY_2):
            return path.name
    return ""


def modules_of_cython(distribution: Distribution) -> Iterator[tuple[str, str]]:
    """Yield extensions that may be for NumPy 1, which only their import shows: module and file.

    Those of Cython with NumPy's types and none of its functions.
    """
    for path in distribution.libraries:
        is_module = path.name.endswith(".so") and path.is_relative_to(distribution.site)
        if is_module and _holds(path, _SIZE_TEXT, _TYPE, other=_NUMPY_2):
            folders = path.relative_to(distribution.site).parent.parts
            yield ".".join((*folders, path.name.partition(".")[0])), path.name


def _holds(path: Path, *texts: bytes, other: bytes) -> bool:
    """Return True if a file has all of some texts, and not another one."""
    with (
        suppress(OSError, ValueError),
        open_file(path) as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return all(content.find(text) >= 0 for text in texts) and content.find(other) < 0
    return False
