"""What the audit can find in a wheel: the rules, each with its entry in TROUBLESHOOTING.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cuwheel.system.output.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

# From bad to good: the wheel can't do what it promises; it does so under conditions that it
# doesn't state; something that is good to know.
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that a wheel has to keep.

    Attributes:
        name: as findings show it, `needed library`.
        summary: what is wrong where it is broken, one sentence.
        text: why that matters and what to do, one paragraph.
    """

    name: str
    summary: str
    text: str

    @property
    def anchor(self) -> str:
        """Of its entry in TROUBLESHOOTING.md: `audit-needed-library`."""
        return f"audit-{re.sub('[^a-z0-9]+', '-', self.name.lower())}"


RULES = (
    Rule(
        name="archive",
        summary="The archive itself is not a valid wheel.",
        text="A member has an unsafe name, is a link or stands there twice, its `.data` folder has "
        "a scheme that no installer knows, RECORD doesn't say what the archive holds, or WHEEL is "
        "of a version that installers don't take. They refuse such a file or install something "
        "else than was built. Something changed the wheel after it was packed: build it again.",
    ),
    Rule(
        name="name",
        summary="File name, METADATA and `.dist-info` name different projects or versions.",
        text="Installers trust the file name and then read METADATA; pip refuses a wheel in which "
        "they differ. The project also has to be the recipe's, where there is one.",
    ),
    Rule(
        name="version",
        summary="The version is not the one that the recipe gives.",
        text="The version says what was built and for which CUDA (`1.6.1+cu130torch2.11`). Either "
        "the wheel is of another build, or the package computes its version: see the recipe's "
        "`env`.",
    ),
    Rule(
        name="metadata",
        summary="METADATA breaks the core metadata specification.",
        text="The package index and `twine check --strict` refuse it, a long description that "
        "can't be rendered too (Markdown whose type isn't stated is taken for reStructuredText); "
        "where `Requires-Python` leaves out the Python of the tag, installers do. Correct it "
        "upstream or with a patch (`pyproject.toml`, `setup.py`).",
    ),
    Rule(
        name="tag",
        summary="The tags are not those of the wheel's content.",
        text="File name and WHEEL say different tags, the Python is not the target's, or an "
        "extension module is for one Python (`ext.cpython-310-….so`) and the tag promises others: "
        "which can't import it. A wheel with libraries whose WHEEL doesn't say `Root-Is-Purelib: "
        "false` goes to the folder for pure code, which is another one than that for libraries on "
        "some systems. Both come from renaming or repacking by hand: let the build backend, "
        "auditwheel or `wheel tags` write WHEEL.",
    ),
    Rule(
        name="platform tag",
        summary="The wheel needs more than the systems have that its platform tag promises.",
        text="A manylinux tag promises symbol versions of glibc and libstdc++ (PEP 600). A library "
        "that needs newer ones fails to load on the older of these systems: ``version `GLIBC_2.34' "
        "not found``. It promises any x86-64 CPU too: a library whose notes say x86-64-v3 ends in "
        "`Illegal instruction` on an older one. Build with an older sysroot (a conda toolchain) or "
        "take the tag that the finding names, as `auditwheel show` does. A plain `linux_x86_64` "
        "tag promises nothing and is refused by the public index. Of wheels for other systems "
        "(musllinux, Windows, macOS) the libraries aren't judged.",
    ),
    Rule(
        name="size",
        summary="The wheel is larger than its recipe allows.",
        text="Most often a library was copied in that should have stayed outside, or device code "
        "for more GPUs than the recipe names. Raise `max_wheel_size` if that is intended.",
    ),
    Rule(
        name="library copies",
        summary="The wheel holds a library several times.",
        text="A wheel can't hold links, so the links `libx.so` and `libx.so.1` that a build "
        "installs become copies of the library, each as large as the first; so does what is "
        "installed into two folders. Keep the name that others need (`readelf -d`, NEEDED) and "
        "leave the rest out: no `VERSION` and `SOVERSION` on the target (CMake), or the recipe's "
        "`leave_out`.",
    ),
    Rule(
        name="top level",
        summary="Files land in site-packages itself.",
        text="What lies at the top of a wheel is installed beside all other packages: folders "
        "like `lib/`, `include/`, `bin/` and `tests/` are those of every package that has them, "
        "one overwrites files of another, and uninstalling one removes them. Most often CMake's "
        "`install` for C++ users ran with the wheel as prefix: leave the folders out (the recipe's "
        "`leave_out`), or put them below the package's own.",
    ),
    Rule(
        name="byte code",
        summary="The wheel holds byte code beside the Python files that it was made of.",
        text="Installers compile Python files themselves, for the Python that is there. What a "
        "`__pycache__` of the build holds is for one Python, has the build's paths and times in "
        "it, and pip overwrites it. Remove the folders before the wheel is packed; a recipe names "
        "them in `leave_out`.",
    ),
    Rule(
        name="build path",
        summary="A file holds a path of the machine that built it.",
        text="Paths in `__FILE__`, debug information or an rpath reveal the build machine, and "
        "make two builds of one source differ. Map them (`-ffile-prefix-map`), strip, or patch "
        "what writes them.",
    ),
    Rule(
        name="library",
        summary="A library can't be read, or there is none.",
        text="A wheel of a CUDA package without a compiled library was built where its build "
        "system found no CUDA; a damaged one was cut off or changed after linking.",
    ),
    Rule(
        name="executable stack",
        summary="A library requires an executable stack.",
        text="glibc 2.41 and later refuse to load it at run time (`cannot enable executable "
        "stack`). One object without a `.note.GNU-stack` section is enough, most often from "
        "assembler: add `-Wl,-z,noexecstack` or `-Wa,--noexecstack`.",
    ),
    Rule(
        name="text relocations",
        summary="The loader has to write into a library's code.",
        text="Hardened systems forbid it, and the pages can't be shared. Some object was compiled "
        "without `-fPIC`.",
    ),
    Rule(
        name="relro",
        summary="A library's relocated data stays writable.",
        text="`-Wl,-z,relro` is the default of most linkers and costs nothing; without it an "
        "overflow can change where calls go. Search for `-z norelro` in the flags.",
    ),
    Rule(
        name="page size",
        summary="A library can't be loaded where the system has pages of 64 KiB.",
        text="Systems for arm64 have pages of 4, 16 or 64 KiB; NVIDIA recommends 64 KiB for Grace "
        "(GH200, GB200), where the loader refuses a library with parts that are aligned to less: "
        "`ELF load command alignment not page-aligned`. Linkers for arm64 align to 64 KiB unless "
        "`-z max-page-size=4096` says otherwise; take that out, or link with "
        "`-Wl,-z,max-page-size=65536`. A tool that changed the file afterwards may have spoilt it "
        "too: patchelf has `--page-size 65536`.",
    ),
    Rule(
        name="rpath",
        summary="An rpath entry leads out of site-packages, or to nothing.",
        text="An absolute entry finds a library of the build machine's layout: it works there and "
        "hides that it fails elsewhere, or takes another CUDA than the wheel requires. Only "
        "entries relative to `$ORIGIN` survive an installation; one that leads to nothing does no "
        "harm by itself. NVIDIA's wheels put libraries into `nvidia/<component>/lib` for CUDA 12 "
        "and `nvidia/cu13/lib` for CUDA 13.",
    ),
    Rule(
        name="needed library",
        summary="A library needs another that it won't find.",
        text="Three causes. Nobody supplies it: it is neither in the wheel, nor on every system "
        "that the tag promises, nor in a known wheel. The wheel that supplies it isn't required: "
        "declare its component in `link`, or add it to `Requires-Dist`. Nothing leads to it: no "
        "rpath entry leads to its folder, so it is found only if something loaded it before. A "
        "requirement may also allow only releases whose libraries have other names "
        "(`nvidia-cudnn-cu12==8.*` for libcudnn.so.9): correct its bounds. Where "
        "a wheel of others can't be loaded at all without the library that is an error, where a "
        "part of it can't a warning. It is an error too where the library is in the wheel itself, "
        "an extension module needs it, and nothing that the wheel holds could load it before: an "
        "entry with one `..` too few, or a link `libx.so.1` that the wheel lost.",
    ),
    Rule(
        name="unused requirement",
        summary="The wheel requires NVIDIA's libraries that nothing in it needs.",
        text="They cost every user hundreds of MB. Take the component out of `link`; if the "
        "package loads the library by name while it runs (`dlopen`), keep it.",
    ),
    Rule(
        name="dead exclude",
        summary="An exclude matches no library that the wheel needs.",
        text="auditwheel compares `--exclude` with the soname as it is needed: `libcublas.so` "
        "never matches `libcublas.so.12`, and the library gets copied in. Write `libcublas.so.*`.",
    ),
    Rule(
        name="grafted library",
        summary="A library of CUDA, a framework or the build machine is copied into the wheel.",
        text="A copy makes the wheel larger by its size, and puts a second one into the process "
        "beside the framework's own. If that is intended, the recipe says `mode=Bundled()`. Repair "
        "tools rename what they copy: a library that opens others by name (NVRTC, cuDNN) doesn't "
        "find them then, so leave it out (`--exclude`) and require its wheel. What else a recipe's "
        "wheel may hold of the build machine (`libgomp`) its `bundles` name. The driver's own "
        "libraries must never be in a wheel, nor a stub that linkers get for one: they have to fit "
        "the kernel module.",
    ),
    Rule(
        name="mixed CUDA majors",
        summary="One library brings two major releases of CUDA into the process, or may.",
        text="Both runtimes then hold their own idea of contexts and streams. Either a library was "
        "linked against the wrong toolkit (two majors in one file, or another than the wheel's "
        "name says), needs a library of its own wheel that was, or the framework that is required "
        "comes in releases for another CUDA: bound its version.",
    ),
    Rule(
        name="framework ABI",
        summary="The wheel allows releases of PyTorch that lack symbols which it needs.",
        text="Between two releases of PyTorch only the functions of its C interface "
        "(`aoti_torch_…`, `torch_…`) keep their meaning; anything in the namespaces `at`, `c10` "
        "and `torch` may be gone or take other arguments, and the import ends in `undefined "
        "symbol`. What the releases export was read from their wheels (`nox -s torch-symbols`). "
        "Bound `torch` in `Requires-Dist` to the releases that the finding names, and publish a "
        "wheel for each. Or compile with `-DTORCH_STABLE_ONLY` and `-DTORCH_TARGET_VERSION`, which "
        "make the compiler refuse all but the stable interface. A recipe whose framework `serves` "
        "several releases has to: without it the wheel is for one release. Where the finding says "
        "`with the index's string ABI`, the wheel was compiled with the other value of "
        "`_GLIBCXX_USE_CXX11_ABI` (1 in the index's wheels since 2.7): it is for a PyTorch from "
        "elsewhere, or the flag is wrong.",
    ),
    Rule(
        name="undefined symbol",
        summary="A library needs a symbol that nothing defines.",
        text="Python loads libraries with all of their symbols bound at once, so the import ends "
        "in `undefined symbol`. No library of the wheel defines it, nor do those that it needs, "
        "glibc, libstdc++, Python or PyTorch. A source file was left out of the link, the helper "
        "library is of another release than the headers, or a library is missing on the linker's "
        "line: `-Wl,--no-undefined` makes the linker say so (`c++filt` shows the whole name). It "
        "is a note where Python code of the wheel loads libraries itself and the wheel requires a "
        "project whose libraries aren't known: one of these may define it.",
    ),
    Rule(
        name="stable ABI",
        summary="An extension module for Python's stable ABI needs more than that.",
        text="`.abi3.so` promises every Python from the tag's on. A function outside of the stable "
        "ABI may be gone or changed in any of them, and one that came later may lack in the "
        "older ones: the import ends in `undefined symbol`. Define `Py_LIMITED_API` to the oldest "
        "Python (`0x030A0000`) in every file, or build one wheel for each Python. The names are "
        "those of CPython's `stable_abi.toml`, as `abi3audit` uses them.",
    ),
    Rule(
        name="archs",
        summary="The device code isn't for the GPUs that the recipe names.",
        text="Missing machine code means that the GPU compiles PTX at first use or fails with `no "
        "kernel image is available`; more of it makes the wheel larger. Check what the "
        "package's build does with `CMAKE_CUDA_ARCHITECTURES` or `TORCH_CUDA_ARCH_LIST`.",
    ),
    Rule(
        name="driver",
        summary="The wheel can't be loaded with the oldest driver of its CUDA release.",
        text="A wheel for CUDA 12 is taken to run on driver 525.60.13, one for CUDA 13 on "
        "580.65.06 (minor version compatibility). A library that links `libcuda.so.1` and needs "
        "a newer function of it doesn't load there. Get such functions with "
        "`cudaGetDriverEntryPoint`, or say that a newer driver is needed.",
    ),
)
_BY_NAME = {rule.name: rule for rule in RULES}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Where a wheel breaks a rule.

    Attributes:
        file: in the wheel, or the wheel's own name.
        rule: its name.
        fact: what is the case.
        severity: how bad it is.
    """

    file: str
    rule: str
    fact: str
    severity: Severity = "error"

    def __str__(self) -> str:
        """One line."""
        return one_line(f"{self.file}: {self.rule}: {self.fact}")

    @property
    def anchor(self) -> str:
        """Of its rule's entry in TROUBLESHOOTING.md."""
        return _BY_NAME[self.rule].anchor


def worst_severity(findings: Iterable[Finding]) -> Severity | None:
    """The severity of the worst of them; None where there are none."""
    found = {finding.severity for finding in findings}
    return next((severity for severity in SEVERITIES if severity in found), None)
