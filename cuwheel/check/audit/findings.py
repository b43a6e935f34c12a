"""The rules of the audit, each with its entry in TROUBLESHOOTING.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cuwheel.base.system.output.terminal import one_line

# The wheel can't do what it promises; it does so under conditions that it doesn't state; a fact
# that is good to know.
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class AuditRule:
    """A rule for wheels.

    Attributes:
        name: as in findings, `needed library`.
    """

    name: str
    summary: str
    text: str

    @property
    def anchor(self) -> str:
        """The anchor of its entry in TROUBLESHOOTING.md: `audit-needed-library`."""
        return f"audit-{re.sub('[^a-z0-9]+', '-', self.name.lower())}"


RULES = (
    AuditRule(
        name="archive",
        summary="The archive itself is not a valid wheel.",
        text="A member has an unsafe name, is a link, occurs twice or is installed where another "
        "one is, its `.data` folder has an unknown scheme, RECORD doesn't match the content, or "
        "WHEEL has a version that installers don't support. They refuse such a file or "
        "install something other than what was built. Something changed the wheel after it "
        "was packed: build it again.",
    ),
    AuditRule(
        name="not checked",
        summary="Something of the wheel wasn't checked.",
        text="`audit URL` reads at most 16 MiB of a wheel. That shows what it runs with, as far as "
        "these parts do. No rule was checked: download the wheel, and audit the file. Code for a "
        "newer Python than the audit's can't be read.",
    ),
    AuditRule(
        name="name",
        summary="File name, METADATA and `.dist-info` name different projects or versions.",
        text="Installers trust the file name and then read METADATA; pip refuses a wheel in which "
        "they differ. The project also has to be the recipe's, where there is one.",
    ),
    AuditRule(
        name="version",
        summary="The version is not the recipe's.",
        text="The version says what was built and for which CUDA (`1.6.1+cu130torch2.11`). "
        "Either the wheel is from another build, or the package computes its version: see "
        "the recipe's `env`.",
    ),
    AuditRule(
        name="metadata",
        summary="METADATA breaks the core metadata specification.",
        text="The package index and `twine check --strict` refuse it, also for a long "
        "description that can't be rendered (Markdown without a stated type is read as "
        "reStructuredText); if `Requires-Python` excludes the Python of the tag, "
        "installers refuse it (`<=3.12` excludes 3.12.1), as requirements that exclude each "
        "other. pip refuses `>=2.0.*`, and ignores an extra without `Provides-Extra`. A marker's "
        "values are `Linux` (`platform_system`), `linux` (`sys_platform`), `x86_64` or `aarch64`, "
        "and `python_version` has two parts. The index refuses classifiers that it doesn't list. "
        "Correct it upstream or with a patch (`pyproject.toml`, `setup.py`).",
    ),
    AuditRule(
        name="tag",
        summary="The tags don't match the wheel's content.",
        text="File name and WHEEL have different tags, the Python is not the target's, or an "
        "extension module is for one Python (`ext.cpython-310-….so`) and the tag includes "
        "others, which can't import it. A wheel with libraries whose WHEEL doesn't say "
        "`Root-Is-Purelib: false` is installed into the folder for pure Python code, which "
        "on some systems is not the one for libraries. Both come from renaming or "
        "repacking manually: let the build backend, auditwheel or `wheel tags` write WHEEL.",
    ),
    AuditRule(
        name="platform tag",
        summary="The wheel needs more than its platform tag guarantees.",
        text="A manylinux tag guarantees symbol versions of glibc and libstdc++ (PEP 600). A "
        "library that needs newer ones fails to load on the older of these systems: "
        "``version `GLIBC_2.34' not found``. The tag also includes every x86-64 CPU: a "
        "library marked as x86-64-v3 fails with `Illegal instruction` on an older one. "
        "Build with an older sysroot (a conda toolchain) or use the tag that the finding "
        "names, as `auditwheel show` does. A plain `linux_x86_64` tag guarantees nothing "
        "and is refused by the public index. Libraries of wheels for other systems "
        "(musllinux, Windows, macOS) aren't checked.",
    ),
    AuditRule(
        name="size",
        summary="The wheel is larger than its recipe allows.",
        text="Usually a library was copied in that should not be in the wheel, or it has device "
        "code for more GPUs than the recipe names. Raise `max_wheel_size` if that is "
        "intended.",
    ),
    AuditRule(
        name="library copies",
        summary="The wheel contains a library several times.",
        text="A wheel can't contain links, so the links `libx.so` and `libx.so.1` that a build "
        "installs become full copies of the library; the same happens to files that are "
        "installed into two folders. Keep the name that other libraries need (`readelf "
        "-d`, NEEDED) and leave out the rest: no `VERSION` and `SOVERSION` on the target "
        "(CMake), or the recipe's `leave_out`.",
    ),
    AuditRule(
        name="top level",
        summary="Files are installed directly into site-packages.",
        text="Top-level files of a wheel are installed beside all other packages: folders like "
        "`lib/`, `include/`, `bin/` and `tests/` are shared by every package that has "
        "them, one overwrites files of another, and uninstalling one removes them. Usually "
        "CMake's `install` for C++ users ran with the wheel as prefix: leave the folders "
        "out (the recipe's `leave_out`), or put them below the package's own.",
    ),
    AuditRule(
        name="Python code",
        summary="Importing the package, or starting its script, fails.",
        text="Code that an import always runs has a syntax error, uses what an allowed Python, "
        "NumPy or PyTorch lacks (`tomllib`, `numpy.float_`), imports in a circle, or needs a "
        "module that isn't in the wheel (often `_C`, if the extension wasn't built), an undeclared "
        "project, a missing file, or a library by name alone. `importlib.metadata` takes names of "
        "projects, which for `mypkg-cu12` isn't `mypkg`. An entry point needs an existing "
        "`module:function`.",
    ),
    AuditRule(
        name="program",
        summary="A program can't be started, or runs unexpectedly.",
        text="A file needs the execute bit to start, a script too (pip adds none), a "
        "program the system's loader. Installers write their environment's Python into scripts "
        "that begin with `#!python`, and change no other first line. `sitecustomize.py` and "
        "`import` lines of a `.pth` run whenever Python starts; a path in it is of the build "
        "machine.",
    ),
    AuditRule(
        name="secret",
        summary="The wheel contains a key, a token or settings with passwords.",
        text="Whoever installs the wheel can read it: revoke it, then leave the file out.",
    ),
    AuditRule(
        name="byte code",
        summary="The wheel contains compiled byte code.",
        text="Installers compile Python files themselves, for the Python in use. The "
        "`__pycache__` of a build is for one Python and contains the build's paths and "
        "times, and pip overwrites it. Remove these folders before the wheel is packed; a "
        "recipe names them in `leave_out`.",
    ),
    AuditRule(
        name="build path",
        summary="A file contains a path of the build machine.",
        text="Paths in `__FILE__`, debug information, an rpath or a build's folder reveal the "
        "build machine, and make two builds of one source differ. Map them "
        "(`-ffile-prefix-map`), strip the library, or leave the files out. Code compiled with "
        "`--coverage` writes there.",
    ),
    AuditRule(
        name="library",
        summary="A library can't be read, or there is none.",
        text="If the wheel of a CUDA package has no compiled library, its build system found no "
        "CUDA; a damaged library was truncated or changed after linking. Python ignores "
        "modules whose suffix is for another build, as `-musl.so`; the loader refuses a program "
        "(`-pie`) and `-z nodlopen`; glibc reserves 1,700 bytes for static thread-local storage: "
        "compile without `-ftls-model=initial-exec`.",
    ),
    AuditRule(
        name="executable stack",
        summary="A library requires an executable stack.",
        text="glibc 2.41 and later refuse to load it at run time (`cannot enable executable "
        "stack`). One object without a `.note.GNU-stack` section is enough to cause it, "
        "usually one from assembler: add `-Wl,-z,noexecstack` or `-Wa,--noexecstack`.",
    ),
    AuditRule(
        name="text relocations",
        summary="The loader has to modify a library's code.",
        text="Hardened systems forbid it, and the pages can't be shared. An object was compiled "
        "without `-fPIC`.",
    ),
    AuditRule(
        name="relro",
        summary="A library's relocated data stays writable.",
        text="`-Wl,-z,relro` is the default of most linkers and costs nothing; without it an "
        "overflow can change where calls go. Search for `-z norelro` in the flags.",
    ),
    AuditRule(
        name="page size",
        summary="A library can't be loaded on systems with 64 KiB pages.",
        text="Systems for arm64 have pages of 4, 16 or 64 KiB; NVIDIA recommends 64 KiB for "
        "Grace (GH200, GB200), where the loader refuses a library whose segments have a "
        "smaller alignment: `ELF load command alignment not page-aligned`. Linkers for "
        "arm64 align to 64 KiB unless `-z max-page-size=4096` says otherwise; remove that "
        "option, or link with `-Wl,-z,max-page-size=65536`. A tool that changed the file "
        "later may have reduced the alignment too: patchelf has `--page-size 65536`.",
    ),
    AuditRule(
        name="rpath",
        summary="An rpath entry points outside of site-packages, or to a missing folder.",
        text="An absolute entry is a path of the build machine: it hides that the library fails "
        "elsewhere, or finds another CUDA. In the current folder, and in `/tmp`, anybody may put "
        "libraries. Only entries relative to `$ORIGIN` work after an installation. NVIDIA's wheels "
        "install libraries into `nvidia/<component>/lib` for CUDA 12 and `nvidia/cu13/lib` for "
        "CUDA 13.",
    ),
    AuditRule(
        name="needed library",
        summary="A library needs another library that the loader won't find.",
        text="There are three causes. Nothing supplies it: it is neither in the wheel, nor on "
        "every system that the tag covers, nor in a known wheel. The wheel that supplies "
        "it isn't required: declare its component in `link`, or add it to `Requires-Dist`. "
        "No rpath entry points to its folder, so it is found only if it was loaded before. "
        "A requirement may also allow only releases whose libraries have other names "
        "(`nvidia-cudnn-cu12==8.*` for libcudnn.so.9): correct its version range. For a "
        "third-party wheel it is an error if the wheel can't be loaded at all without the "
        "library, a warning if only a part of it can't, an extra requires it or a framework "
        "isn't required, and a "
        "note for a library that is opened by name. It is also an error if the "
        "library is in the wheel itself, an extension module needs it, and nothing in the "
        "wheel could load it before: an entry with one `..` too few, or a link `libx.so.1` "
        "that is not in the wheel.",
    ),
    AuditRule(
        name="unused requirement",
        summary="The wheel requires NVIDIA libraries that nothing in it needs.",
        text="Every user downloads hundreds of MB for them. Remove the component from `link`; "
        "if the package loads the library by name at run time (`dlopen`), keep it.",
    ),
    AuditRule(
        name="dead exclude",
        summary="An `--exclude` matches no library that the wheel needs.",
        text="auditwheel compares `--exclude` with the needed soname: `libcublas.so` never "
        "matches `libcublas.so.12`, and the library is copied into the wheel. Write "
        "`libcublas.so.*`.",
    ),
    AuditRule(
        name="grafted library",
        summary="A library of CUDA, a framework or the build machine is copied into the wheel.",
        text="A copy makes the wheel larger, and the process loads it in addition to the "
        "framework's own library. If that is intended, the recipe says `mode=Bundled()`. "
        "Repair tools rename what they copy: a library that opens others by name (NVRTC, "
        "cuDNN) then doesn't find them, so exclude it (`--exclude`) and require its wheel. "
        "Other libraries of the build machine that a recipe's wheel may contain "
        "(`libgomp`) are listed in its `bundles`. The driver's own libraries, and the "
        "stubs that are used to link with them, must never be in a wheel: they have to "
        "match the kernel module.",
    ),
    AuditRule(
        name="mixed CUDA majors",
        summary="A library loads two major releases of CUDA into one process, or may do so.",
        text="Each runtime then has its own contexts and streams. Either a library was linked "
        "with the wrong toolkit (two major releases in one file, or another than the "
        "wheel's name says), needs a library of the same wheel that was, or the required "
        "framework has releases for another CUDA: restrict its version.",
    ),
    AuditRule(
        name="framework ABI",
        summary="The wheel allows releases of PyTorch that lack symbols that it needs.",
        text="Only the functions of PyTorch's C interface (`aoti_torch_…`, `torch_…`) are "
        "stable between releases; anything in the namespaces `at`, `c10` and `torch` may "
        "be removed or take other arguments, and the import fails with `undefined symbol`. "
        "The symbols that the releases export were read from their wheels (`nox -s "
        "torch-symbols`). Restrict `torch` in `Requires-Dist` to the releases that the "
        "finding names, and publish a wheel for each. Or compile with "
        "`-DTORCH_STABLE_ONLY` and `-DTORCH_TARGET_VERSION`, which make the compiler "
        "refuse all but the stable interface. A recipe whose framework `serves` several "
        "releases has to do that: otherwise the wheel is for one release. If the finding "
        "says `with the string ABI of PyPI's wheels`, the wheel was compiled with the "
        "other value of `_GLIBCXX_USE_CXX11_ABI` (1 in PyPI's wheels since 2.7): it is for "
        "a PyTorch from elsewhere, or the option is wrong.",
    ),
    AuditRule(
        name="undefined symbol",
        summary="A library needs a symbol that nothing defines.",
        text="Python binds all symbols of a library when it loads it, so the import fails with "
        "`undefined symbol`. The symbol, or its version, is defined neither in the wheel, nor "
        "in the libraries that it needs, glibc, libstdc++, Python or PyTorch. A source file was "
        "not linked (nor device-linked, `-rdc=true`), a helper library is of another release "
        "than its headers, Python removed the function, or a library "
        "is missing in the link command: `-Wl,--no-undefined` makes the linker report it "
        "(`c++filt` shows the readable name). It is a note if Python code of the wheel "
        "loads libraries itself and the wheel requires a project whose libraries aren't "
        "known: one of these may define it.",
    ),
    AuditRule(
        name="stable ABI",
        summary="An extension module for Python's stable ABI uses functions outside of it.",
        text="An `.abi3.so` has to work with the tag's Python and all later ones. A function "
        "outside of the stable ABI may be removed or changed in any of them, and one that "
        "was added later is missing in older ones: the import fails with `undefined "
        "symbol`. Define `Py_LIMITED_API` as the oldest Python (`0x030A0000`) in every "
        "file, or build one wheel for each Python. The names are those of CPython's "
        "`stable_abi.toml`, as `abi3audit` uses them.",
    ),
    AuditRule(
        name="archs",
        summary="The device code doesn't match the GPUs that the recipe names.",
        text="Without machine code for it, a GPU compiles PTX at first use or fails with `no "
        "kernel image is available`; code for more GPUs makes the wheel larger. Check what "
        "the package's build does with `CMAKE_CUDA_ARCHITECTURES` or "
        "`TORCH_CUDA_ARCH_LIST`.",
    ),
    AuditRule(
        name="driver",
        summary="The wheel can't be loaded with the oldest driver of its CUDA release.",
        text="A wheel for CUDA 12 is expected to run on driver 525.60.13, one for CUDA 13 on "
        "580.65.06 (minor version compatibility). A library that links `libcuda.so.1` and "
        "needs a newer function of it doesn't load there, and PTX of a newer release isn't "
        "compiled. Get such functions with "
        "`cudaGetDriverEntryPoint`, or document that a newer driver is needed.",
    ),
)
_BY_NAME = {rule.name: rule for rule in RULES}


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """Something that is wrong with a wheel, or good to know.

    Attributes:
        severity: how bad it is.
        rule: that it breaks, `needed library`.
        file: in the wheel; or the wheel itself.
        fact: what was found.
        anchor: where to read on, `TROUBLESHOOTING.md#audit-needed-library`.
    """

    severity: Severity
    rule: str
    file: str
    fact: str
    anchor: str

    def __str__(self) -> str:
        """Return one line."""
        return one_line(f"{self.file}: {self.rule}: {self.fact}")


def finding(file: str, rule: str, fact: str, severity: Severity = "error") -> AuditFinding:
    """Return a breach of a rule."""
    anchor = f"TROUBLESHOOTING.md#{_BY_NAME[rule].anchor}"
    return AuditFinding(severity=severity, rule=rule, file=file, fact=fact, anchor=anchor)


def worst_severity(findings: Iterable[AuditFinding]) -> Severity | None:
    """Return the severity of the worst finding; None if there are none."""
    return min((item.severity for item in findings), key=SEVERITIES.index, default=None)
