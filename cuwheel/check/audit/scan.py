"""Facts about a wheel, from one reading of it in bounded memory.

One thread unpacks, one searches and hashes what was unpacked, a third hashes the wheel itself: zlib
and hashlib release Python's lock. Nothing is written: an ELF file's tables are read by unpacking
anew the few MiB around them. Memory does not grow with the wheel's size, except for 6 MB for each
GiB of a member: docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO

from cuwheel.base import limits
from cuwheel.base.formats.binaries.archs import DeviceCode, sort_archs
from cuwheel.base.formats.binaries.cudart import CUDART_TEXT, linked_cudart
from cuwheel.base.formats.binaries.elf import Elf, ElfFormatError, read_elf
from cuwheel.base.formats.binaries.elf_image import MAGIC
from cuwheel.base.formats.binaries.elf_symbols import Exports, Symbols
from cuwheel.base.formats.binaries.fatbin import (
    RELOCATABLE_SECTION,
    SASS,
    ElementKind,
    FatbinFinder,
    FatbinFormatError,
    code_of,
    code_of_cubin,
    code_of_ptx,
    fatbins_of,
)
from cuwheel.base.formats.binaries.instructions import needs_avx512
from cuwheel.base.formats.binaries.windows import Window, Windows
from cuwheel.base.formats.wheel.archive import member_faults, open_wheel
from cuwheel.base.formats.wheel.metadata import is_library
from cuwheel.base.formats.wheel.record import Content, ContentHash, record_faults
from cuwheel.base.formats.wheel.zip_reader import SeekableMember
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.regular_files import open_file, parse_module
from cuwheel.check.audit.leaked_paths import Leak, LeakFinder
from cuwheel.check.audit.python_code import NEWER
from cuwheel.check.cuda.suppliers import cuda_major_of, stem_of
from cuwheel.check.cuda.toolkits import GONE_HEADERS

_BATCH = 1 << 20  # bytes that go from one thread to the other at once; less costs switches
_BATCH_LENGTH = 128  # pieces likewise: files can be empty, and each has zlib's state of 45 kB
_PREFETCH = 4  # batches that wait at most, each of up to `_BATCH` and a piece
_ELF_KIND, _CORE = slice(16, 18), 4  # `e_type`, ET_CORE (System V ABI, "ELF Header")
_ARCHIVE = b"!<arch>\n"  # a static library
# Other than ELF: static, of macOS (mach-o/loader.h, mach-o/fat.h), of Windows.
_OTHER_LIBRARIES = (
    _ARCHIVE,
    *(b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xbe\xba\xfe\xca"),
    b"MZ",
)
# Of ctypes, cffi and PyTorch.
_LOADS = re.compile(rb"\b(CDLL|PyDLL|LoadLibrary|load_library|dlopen|RTLD_\w+)\b")
# The loader reads it when a program is started: another one, or Python again.
_SEARCHED = b"LD_LIBRARY_PATH"
_STARTS = re.compile(rb"\b(exec[lv]\w*|spawn[lv]\w*|posix_spawnp?|subprocess|Popen|os\.system)\b")
# Before NumPy 2 its headers have only the first name.
_CFFI = b"\0_cffi_backend\0"  # which a module of cffi imports
_NUMPY_API, _NUMPY = b"._multiarray_umath", re.compile(rb"numpy\.(_?core)\._multiarray_umath\0")
# In the error of `import_array`, since NumPy 2.0: the oldest release that it accepts.
_NUMPY_TARGET = re.compile(rb"against NumPy C-API version 0x%x \(NumPy (\d+\.\d+)\+?\)")
_NUMPY_CHECK = b"NumPy C-API version"
# A text with the name of a library, which `dlopen` gets.
_NAMED = b".so"
# Data files in which code may look up which libraries it loads, and the names in them.
_LIST = re.compile(r"\.(json|toml|ya?ml|cfg|ini|txt)$")
_LISTED = re.compile(rb"(?<![\w.-])(lib[\w+-]{1,60}\.so(?:\.\d+)*)(?![\w.-])")
_OPENED = re.compile(rb"\0(lib[\w+-]{1,60}\.so(?:\.\d+)*)\0")
_OPENED_BY_PATH = re.compile(rb"\0(/[\w./+-]{1,200}/lib[\w+-]{1,60}\.so(?:\.\d+)*)\0")
# OpenSSH's form begins with a line that is the same in all keys, full of zeros.
_PRIVATE_KEY = rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+(?:b3Blbn[\w+/]+\s+)?([\w+/=\s]{100})"
# Sources that a package may compile when it runs, and the files that they include.
_COMPILED = (".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp", ".inl")
_TEXTURE = (
    rb"(?:static[ \t]+)?texture[ \t]*<[ \t]*(?:unsigned[ \t]+)?(?:float|u?int|u?char|u?short)"
    rb"[1-4]?\b[ \t\w,]*>[ \t]*\w+[ \t]*[;=,]"
)
_DIRECTIVE = re.compile(
    rb'^[ \t]*(?:#[ \t]*(?:(if\w*)|(endif)|include[ \t]*(?:"([^"\n]{1,200})"|<([^>\n]{1,200})>))'
    rb"|(%b))" % _TEXTURE,
    re.MULTILINE,
)
TEXTURE = re.compile(rb"^[ \t]*" + _TEXTURE, re.MULTILINE)
TEXTURES = "texture references"
"""The entry in `includes` for a source that has them: what CUDA 12 removed, as some headers."""
# Of PTX: instructions of one kind of GPU, for which the target's name has a letter more.
_OF_ONE_KIND = re.compile(rb"^[ \t]*(?:@!?%\w+[ \t]+)?(wgmma|tcgen05)\.", re.MULTILINE)
_TARGET = re.compile(rb"^\.target[ \t]+sm_(\d+)[ \t]*($|[,/\r\n])", re.MULTILINE)
# A key of its owner, or a token of a service, in the forms that GitHub's secret scanning lists.
_SECRETS = (
    (b"PRIVATE KEY-----", "a private key", _PRIVATE_KEY),
    (b"gh", "a token of GitHub", rb"\bgh[oprsu]_[A-Za-z0-9]{36}\b|\bgithub_pat_\w{60,}"),
    (b"glpat-", "a token of GitLab", rb"\bglpat-[\w-]{20}"),
    (b"pypi-AgE", "a token of a package index", rb"\bpypi-AgE[\w-]{60,}"),
    (b"hf_", "a token of Hugging Face", rb"\bhf_[A-Za-z]{34}\b"),
    (b"AKIA", "an access key of AWS", rb"\bAKIA[A-Z2-7]{16}\b"),
    (b"nvapi-", "a key of NVIDIA's NGC", rb"\bnvapi-[\w-]{60,70}(?![\w-])"),
    (b"sk-", "a key of a language model's service", rb"\bsk-(?:proj-|ant-api\d\d-)[\w-]{40,200}"),
    (b"xox", "a token of Slack", rb"\bxox[abps]-\d{9,15}-[\w-]{20,}"),
    (b"AIza", "a key of Google", rb"\bAIza[\w-]{35}(?![\w-])"),
    (b"dckr_pat_", "a token of Docker", rb"\bdckr_pat_[\w-]{27}"),
    (b"npm_", "a token of npm", rb"\bnpm_[A-Za-z0-9]{36}\b"),
    (b"sk_live_", "a key of Stripe", rb"\bsk_live_[A-Za-z0-9]{24,}"),
    (b"WANDB_API_KEY", "a key of W&B", rb"WANDB_API_KEY\W{1,6}([0-9a-f]{40})\b"),
    (b'"auth"', "a login of Docker", rb'"auth"\s*:\s*"([\w+/]{16,}={0,2})"'),
    (
        b"://",
        "a password in an address",
        rb"https?://[\w.-]+:([^\s@/:\"'<>{}$%()\[\],]{6,})@[\w.-]+\.\w",
    ),
)
# Of documentation: `hf_xxxx…`, `AKIAIOSFODNN7EXAMPLE`, `ghp_abcdef…`.
_PLACEHOLDER = re.compile(rb"(?i)(.)\1{7}|example|your|token|passw|secret|abcdefgh|12345678")
_TOO_MANY_FATBINS = "it has implausibly many fat binaries or kinds of code"
_DEFAULT_ARCHS = (("52",), ("75",))  # of nvcc 11 and 12, of nvcc 13
_KERNEL = 1500  # bytes; a file with one variable has 1,712
_LFS_POINTER = b"version https://git-lfs"
# Of CMake, pkg-config and libtool, and what they name: folders of people and builds, libraries.
_CONFIGS = (".cmake", ".pc", ".la", ".prl")
_BUILT_IN = re.compile(rb"(?<![\w.})])/(?:home|Users|root|tmp|builds|__w|project)/[\w.+@/-]{3,200}")
_IMPORTED = re.compile(rb"IMPORTED_LOCATION\w*\s+\"\$\{_IMPORT_PREFIX\}/([^\"\n]+)\"")
_LINKER_SCRIPT = (b"GNU ld script", b"INPUT", b"GROUP")  # a text in place of a library
_Batch = list[tuple["SeekableMember", bytes]]


@dataclass(frozen=True, kw_only=True)
class ScannedLibrary:
    """An ELF file in a wheel.

    Attributes:
        elf: None where it is damaged.
        device_code: archs of the code that a GPU can run, in all sections; None if there is none.
        damage: why it, or its device code, can't be read; empty for an intact one.
        cudart: the release of CUDA's runtime that is linked into it, `13.0`; empty: none.
        numpy: the major release of NumPy whose headers it was compiled with; 0: none's.
        numpy_target: the oldest release of NumPy that it accepts, `2.3`; empty: it isn't known.
        uses_cffi: it imports cffi's module.
        opened: libraries that its code names, where it calls `dlopen`.
        code_sizes: bytes of its device code of each kind, of all sections.
        needs_avx512: its code has instructions of AVX-512, and doesn't ask for them.
        is_core: it is the memory of a process that crashed.
        undefined: required symbols without a library and a version; weak ones are left out.
        exports: None where they can't be read, as of 32 bits.
    """

    name: str
    elf: Elf | None
    device_code: DeviceCode | None
    damage: str = ""
    needs_avx512: bool = False
    is_core: bool = False
    cudart: str = ""
    numpy: int = 0
    numpy_target: str = ""
    uses_cffi: bool = False
    opened: tuple[str, ...] = ()
    code_sizes: Mapping[ElementKind, int] = field(default_factory=dict, compare=False, repr=False)
    undefined: tuple[str, ...] = field(default=(), compare=False, repr=False)
    exports: Exports | None = field(default=None, compare=False, repr=False)

    @property
    def runtime_major(self) -> int | None:
        """13 where the runtime of CUDA 13.0 is linked into it."""
        return int(self.cudart.partition(".")[0]) if self.cudart else None

    @property
    def is_program(self) -> bool:
        """True if it is started, not loaded."""
        return self.elf is not None and self.elf.is_program

    @property
    def has_empty_code(self) -> bool:
        """True if its machine code is that of a device link without kernels.

        nvcc makes it for its default arch, and it has 624 bytes, with -rdc=true twice.
        """
        size = sum(size for kind, size in self.code_sizes.items() if kind.kind == SASS)
        code = self.device_code
        return code is not None and code.sass in _DEFAULT_ARCHS and 0 < size < _KERNEL

    @property
    def opened_major(self) -> int | None:
        """The only CUDA major of `opened`; None: there is none, or several."""
        majors = {major for name in self.opened if (major := cuda_major_of(name))}
        return int(majors.pop()) if len(majors) == 1 else None


@dataclass(frozen=True, kw_only=True)
class WheelScan:
    """A wheel that was read from end to end.

    Attributes:
        size: of the wheel, bytes.
        dist_info: name of its `.dist-info` folder; empty where the wheel can't be read.
        device_files: members with device code that are no library, by name: cubins, fat binaries,
            PTX.
        loaders: modules that load libraries by name.
        listed: libraries that data files name.
        sources: small modules and scripts, by name, as far as `limits.SOURCES` allows.
        secrets: members with keys and tokens, and of what kind.
        executables: members that a user may start.
        byte_code: the magic numbers of compiled modules, by name.
        pointers: members that are pointers of Git LFS.
        configs: files for builds against the package, stubs, and what is wrong with each.
        odd_modes: members that a system wouldn't let everybody read, and no one else write.
        includes: files that small sources of C++ and CUDA include in quotes, by name.
    """

    file_name: str
    sha256: str = ""
    size: int = 0
    dist_info: str = ""
    names: tuple[str, ...] = ()
    contents: Mapping[str, Content] = field(default_factory=dict)
    metadata: str = ""
    tags_text: str = ""
    libraries: tuple[ScannedLibrary, ...] = ()
    leaks: tuple[Leak, ...] = ()
    archive_faults: tuple[tuple[str, str], ...] = ()
    device_files: Mapping[str, DeviceCode] = field(default_factory=dict)
    loaders: tuple[str, ...] = ()
    listed: frozenset[str] = frozenset()
    sources: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    secrets: tuple[tuple[str, str], ...] = ()
    executables: frozenset[str] = frozenset()
    entry_points: str = ""
    byte_code: Mapping[str, int] = field(default_factory=dict)
    pointers: frozenset[str] = frozenset()
    configs: Mapping[str, str] = field(default_factory=dict)
    odd_modes: tuple[str, ...] = ()
    includes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


def scan_wheel(path: Path, *, private_paths: tuple[str, ...]) -> WheelScan:
    """Read a wheel once: hashes, libraries, device code, leaked paths.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
    """
    finder = LeakFinder(private_paths)
    with ThreadPoolExecutor(1) as pool, open_wheel(path) as wheel, open_file(path) as archive:
        digest = pool.submit(sha256_of_file, path)
        contents: dict[str, Content] = {}
        device_files: dict[str, DeviceCode] = {}
        libraries: list[ScannedLibrary] = []
        loaders: list[str] = []
        listed: set[str] = set()
        byte_code: dict[str, int] = {}
        sources: dict[str, bytes] = {}
        includes: dict[str, tuple[str, ...]] = {}
        secrets: list[tuple[str, str]] = []
        pointers: set[str] = set()
        configs: dict[str, str] = {}
        space = limits.SOURCES
        for member in read_members(wheel.members(archive.fileno()), finder):
            contents[member.name] = member.content
            libraries += [member.library] if member.library else []
            device_files |= {member.name: member.code} if member.code else {}
            loaders += [member.name] if member.is_loader else []
            listed |= member.listed
            includes |= {member.name: member.includes} if member.includes else {}
            byte_code |= {member.name: member.magic} if member.name.endswith(".pyc") else {}
            secrets += [(member.name, kind) for kind in member.secrets]
            pointers |= {member.name} if member.is_pointer else set()
            if fault := _config_fault(member, wheel.names):
                configs[member.name] = fault
            is_source = member.name.endswith((".py", ".pth")) or ".data/scripts/" in member.name
            if is_source and member.is_small and (space := space - len(member.text)) > 0:
                sources[member.name] = bytes(member.text)
        return WheelScan(
            file_name=path.name,
            sha256=digest.result(),
            size=path.stat().st_size,
            dist_info=wheel.dist_info,
            names=wheel.names,
            contents=contents,
            metadata=wheel.read_text("METADATA"),
            tags_text=wheel.read_text("WHEEL"),
            libraries=tuple(libraries),
            device_files=device_files,
            leaks=finder.leaks,
            loaders=tuple(loaders),
            listed=frozenset(listed),
            sources=sources,
            byte_code=byte_code,
            includes=includes,
            secrets=tuple(secrets),
            pointers=frozenset(pointers),
            configs=configs,
            odd_modes=wheel.odd_modes,
            executables=wheel.executables,
            entry_points=wheel.read_text("entry_points.txt"),
            archive_faults=(
                *_shortened(member_faults(wheel)),
                *_shortened(
                    record_faults(
                        wheel.read_text("RECORD"), wheel.dist_info, contents, wheel.digest
                    )
                ),
            ),
        )


def _config_fault(member: MemberReading, names: Iterable[str]) -> str:
    """Return what a build against the package doesn't find, or why no checker reads a stub."""
    if member.is_small and member.name.endswith(".pyi"):
        return _stub_fault(bytes(member.text))
    if not (member.is_small and member.name.endswith(_CONFIGS)):
        return ""
    if path := _BUILT_IN.search(member.text):
        text = path[0].decode(errors="replace")
        return f"it names {text}, a path of the build machine: builds against it don't find that"
    files = {PurePosixPath(name).name for name in names}
    for found in _IMPORTED.findall(member.text):
        file = PurePosixPath(found.decode(errors="replace")).name
        if file not in files and "$" not in file:
            return f"it names {file}, which isn't in the wheel: builds against it fail"
    return ""


def _stub_fault(text: bytes) -> str:
    """Return why type checkers refuse a stub; empty: they don't, or it is for a newer Python."""
    try:
        parse_module(text)
    except SyntaxError as problem:
        if not NEWER.search(text):
            return f"line {problem.lineno}: {problem.msg}: type checkers refuse the stub"
    except ValueError:
        pass
    return ""


def _shortened(faults: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the first of the faults, and how many more there are."""
    more = len(faults) - limits.FAULTS
    if more <= 0:
        return faults
    last = (faults[-1][0], f"and {more:,} more errors, of which this is the last")
    return *faults[: limits.FAULTS], last


def read_members(members: Iterable[SeekableMember], finder: LeakFinder) -> Iterator[MemberReading]:
    """Yield the facts of members, each read from end to end."""
    reading = None
    with contextlib.closing(_prefetched(_batches(members))) as batches:
        for member, piece in chain.from_iterable(batches):
            reading = reading or MemberReading(member, finder)
            if piece:
                reading.feed(piece)
            else:
                reading.finish()
                yield reading
                reading = None


def _batches(members: Iterable[SeekableMember]) -> Iterator[_Batch]:
    """Yield the pieces of all members, and an empty one after each member's last."""
    batch: _Batch = []
    size = 0
    for member in members:
        for piece in chain(member.pieces(), (b"",)):
            batch.append((member, piece))
            size += len(piece)
            if size >= _BATCH or len(batch) >= _BATCH_LENGTH:
                yield batch
                batch, size = [], 0
    yield batch


def _prefetched(batches: Iterator[_Batch]) -> Generator[_Batch, None, None]:
    """Yield the batches, which a thread prepares a little ahead."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(_PREFETCH))
        try:
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, batches, None))
                yield batch
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class MemberReading:
    """The search of one member, piece by piece.

    Attributes:
        code: of a file with device code alone.
        is_loader: it is a module that loads libraries by name.
        listed: libraries that a data file names.
        includes: files that a source of C++ or CUDA includes in quotes.
        text: the content, if `is_small`.
        secrets: the kinds of keys and tokens in it.
    """

    def __init__(self, member: SeekableMember, finder: LeakFinder) -> None:
        self.name = member.name
        self.library: ScannedLibrary | None = None
        self.code: DeviceCode | None = None
        self.is_loader = False
        self.listed: frozenset[str] = frozenset()
        self.includes: tuple[str, ...] = ()
        self._member = member
        self._leaks = finder
        self._hash = ContentHash()
        self._windows = Windows()
        self._fatbins = FatbinFinder(member.size)
        self._has_cudart = False
        self._numpy: set[bytes] = set()  # modules that have its C API
        self._numpy_target = ""
        self._uses_cffi = False
        self._is_named_as_module = not PurePosixPath(member.name).name.startswith("lib")
        self._names: set[bytes] = set()  # texts in it, of CUDA's libraries
        self.text = bytearray()
        self.secrets: tuple[str, ...] = ()
        self.is_small = member.size <= limits.SOURCE
        self._start = b""

    def feed(self, piece: bytes) -> None:
        """Read the next piece."""
        self._hash.update(piece)
        if self.is_small:
            self.text += piece
        for window in self._windows.feed(piece):
            self._search(window)

    @property
    def content(self) -> Content:
        """Hash and size of what was read."""
        return self._hash.content()

    @property
    def is_pointer(self) -> bool:
        """True for a pointer of Git LFS."""
        return self._start.startswith(_LFS_POINTER)

    @property
    def magic(self) -> int:
        """The first two bytes, a number of Python's release in byte code."""
        return int.from_bytes(self._start[:2], "little")

    def finish(self) -> None:
        """Collect the member's facts, after the last piece."""
        self._search(self._windows.finish())
        if self._start.startswith(MAGIC):
            kind = self._start[_ELF_KIND]
            self.library = replace(self._read_library(), is_core=_CORE in kind)
            if self.library.elf and self.library.elf.is_cubin:
                self.code = self.library.device_code
            return
        self.secrets = tuple(
            kind
            for word, kind, pattern in _SECRETS
            if word in self.text
            and any(
                not _PLACEHOLDER.search(match[match.lastindex or 0])
                for match in re.finditer(pattern, self.text)
            )
        )
        if self.is_small and ".dist-info/" not in self.name and _LIST.search(self.name):
            names = _LISTED.findall(self.text)[: limits.FAULTS]
            self.listed = frozenset(name.decode() for name in names)
        if self.is_small and self.name.endswith(_COMPILED):
            self.includes = _includes_of(self.text)
        if self._fatbins.found:
            self.code = code_of(self._fatbins.found)
        elif self.name.endswith(".ptx"):
            self.code = code_of_ptx(self._start)
        if damage := self._damage():
            self.library = ScannedLibrary(name=self.name, elf=None, device_code=None, damage=damage)

    def _search(self, window: Window) -> None:
        if not self._start:
            self._start = window.data[1:]
        is_library = self._start.startswith((MAGIC, _ARCHIVE))
        self._leaks.search(self.name, window, is_library=is_library)
        self._fatbins.search(window)
        self._has_cudart = self._has_cudart or CUDART_TEXT in window.data
        if is_library and _NUMPY_API in window.data:
            self._numpy.update(_NUMPY.findall(window.data))
        if (
            is_library
            and _NUMPY_CHECK in window.data
            and (target := _NUMPY_TARGET.search(window.data))
        ):
            self._numpy_target = target[1].decode()
        if is_library and self._is_named_as_module and not self._uses_cffi:
            self._uses_cffi = _CFFI in window.data
        if is_library and _NAMED in window.data and len(self._names) < limits.FAULTS:
            found = (_OPENED.findall(window.data), _OPENED_BY_PATH.findall(window.data))
            self._names.update(*found)
        if self.name.endswith(".py") and not self.is_loader:
            self.is_loader = _LOADS.search(window.data) is not None or (
                _SEARCHED in window.data and _STARTS.search(window.data) is not None
            )

    def _damage(self) -> str:
        """Return why a file isn't the library that its name promises; empty: nothing is wrong."""
        if self._fatbins.has_too_many:
            return _TOO_MANY_FATBINS
        if self.name.endswith(".ptx") and _TARGET.search(self.text):
            return _target_fault(self.text)
        is_called_so = is_library(self.name)
        if not is_called_so or self._start.startswith(_OTHER_LIBRARIES):
            return ""
        if not self._start:
            return "it has the name of a library, but is empty"
        if self._start.startswith(_LFS_POINTER):
            return (
                "it is a Git LFS pointer instead of a library: run `git lfs pull` before the build"
            )
        is_script = any(word in self._start for word in _LINKER_SCRIPT)
        return "" if is_script else "it has the name of a library, but is not an ELF file"

    def _read_library(self) -> ScannedLibrary:
        elf = None
        try:
            with self._member.open() as stream:
                elf = read_elf(stream)
                cudart = self._read_cudart(stream, elf)
                undefined, exports = _read_symbols(stream, elf)
                text = elf.section(".text") if elf.machine == "EM_X86_64" else None
                is_wide = text is not None and needs_avx512(stream, text)
            code = self._code_of_library(elf)
        except (ElfFormatError, FatbinFormatError) as problem:
            return ScannedLibrary(name=self.name, elf=elf, device_code=None, damage=str(problem))
        return ScannedLibrary(
            name=self.name,
            elf=elf,
            device_code=code,
            cudart=cudart,
            needs_avx512=is_wide,
            numpy=(2 if b"_core" in self._numpy else 1) if self._numpy else 0,
            numpy_target=self._numpy_target,
            uses_cffi=self._uses_cffi,
            code_sizes=self._fatbins.sizes,
            opened=self._opened(elf),
            undefined=undefined,
            exports=exports,
        )

    def _read_cudart(self, stream: IO[bytes], elf: Elf) -> str:
        """Return the release of the runtime in a library other than `libcudart.so` itself."""
        code = elf.section(".text")
        if not self._has_cudart or code is None or stem_of(elf.soname) == "libcudart":
            return ""
        return linked_cudart(stream, code, elf.machine)

    def _opened(self, elf: Elf) -> tuple[str, ...]:
        """Return the libraries that it opens by name."""
        return tuple(sorted(name.decode() for name in self._names)) if elf.uses_dlopen else ()

    def _code_of_library(self, elf: Elf) -> DeviceCode | None:
        """Return the code of all sections but the input of the device link; None without any.

        Raises:
            FatbinFormatError: a section isn't what its name promises, or there is too much.
        """
        if self._fatbins.has_too_many:
            raise FatbinFormatError(_TOO_MANY_FATBINS)
        if self._fatbins.has_damage and self._fatbins.found:
            raise FatbinFormatError("machine code in a fat binary has no valid ELF header or names")
        fatbins = self._fatbins.found
        loaded = set(fatbins)
        looked_at = 0
        for section in elf.sections:
            fatbins_here = fatbins_of(section, fatbins)
            looked_at += len(fatbins_here)
            if looked_at > 2 * len(fatbins):  # each would be looked at a hundred thousand times
                raise FatbinFormatError("its sections overlap")
            if section.name == RELOCATABLE_SECTION:
                loaded.difference_update(fatbins_here)
        codes = [code_of(loaded)] if any(fatbin.elements for fatbin in loaded) else []
        if elf.is_cubin:
            codes.append(code_of_cubin(elf.abi, elf.flags))
        return join_codes(codes) if codes else None


def _read_symbols(stream: IO[bytes], elf: Elf) -> tuple[tuple[str, ...], Exports | None]:
    """Return the symbols that a host library needs of an unnamed library, and its exports."""
    if not (elf.is_host_code and elf.is_dynamic):
        return (), None
    try:
        symbols = Symbols(stream)
        return symbols.unversioned(), symbols.exports()
    except ElfFormatError:
        return (), None  # of 32 bits, big-endian, or with a table that is cut off


def _includes_of(text: bytearray) -> tuple[str, ...]:
    """Return what a source includes in quotes, outside of conditions but a guard of the whole.

    In angle brackets only headers count that CUDA has no more; texture references do too.
    """
    names: list[str] = []
    depth = 0
    for number, (start, end, quoted, angled, texture) in enumerate(_DIRECTIVE.findall(text)):
        is_guard = number == 0 and start == b"ifndef"
        depth += bool(start) - bool(end and depth) - is_guard
        name = (quoted or angled).decode(errors="replace")
        is_counted = bool(name) and depth == 0 and (bool(quoted) or name in GONE_HEADERS)
        names += [name] if is_counted else []
        names += [TEXTURES] if texture and depth == 0 and TEXTURES not in names else []
    return tuple(names[: limits.FAULTS])


def _target_fault(text: bytearray) -> str:
    """Return why drivers refuse PTX for a plain target; empty: they don't."""
    target, used = _TARGET.search(text), _OF_ONE_KIND.search(text)
    if not (target and used):
        return ""
    kind = "sm_90a" if used[1] == b"wgmma" else "one as sm_100a or sm_100f"
    fact = f"it has {used[1].decode()} instructions, which need the .target {kind}: drivers refuse"
    return f"{fact} it for its sm_{target[1].decode()}"


def join_codes(codes: Iterable[DeviceCode]) -> DeviceCode:
    """Return the archs of several pieces of device code together."""
    codes = tuple(codes)
    return DeviceCode(
        sass=sort_archs(arch for code in codes for arch in code.sass),
        ptx=sort_archs(arch for code in codes for arch in code.ptx),
        lto=sort_archs(arch for code in codes for arch in code.lto),
        tile=sort_archs(arch for code in codes for arch in code.tile),
        ptx_version=max((code.ptx_version for code in codes), default=(0, 0)),
        is_zstd=any(code.is_zstd for code in codes),
        is_debug=any(code.is_debug for code in codes),
    )
