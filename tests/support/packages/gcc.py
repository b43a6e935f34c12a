"""GCC, binutils and a C library as conda packages: the machine's, in conda-forge's layout.

Names, search paths and the rpath are those of conda-forge's ctng-compilers,
ctng-compiler-activation, binutils and linux-sysroot feedstocks. The parts are real: GCC's driver
is a copy of the machine's. It looks for everything from where it is itself, so that it finds in
`gcc-standin` the compiler proper, its headers and its own libraries, and in the sysroot copies of
the files of the machine's C library.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuwheel.base.system import process
from cuwheel.base.system.compilers import SYSTEM_PATH, HostCompiler
from cuwheel.base.system.process import which
from tests.support.packages.cuda_packages import GLIBC, TRIPLET
from tests.support.toolchains.channel import PREFIX, Copy, Entry, Link, Package, Text

SYSROOT = f"{TRIPLET}/sysroot"
BINUTILS = "2.40"
_ASIDE = "gcc-standin"  # not among the prefix's own: conda's GCC doesn't search those either
_RUNTIME = "15.2.0"  # of libgcc and libstdcxx: conda-forge's newest, whatever the compiler

_BINUTILS = (
    *("addr2line", "ar", "as", "c++filt", "elfedit", "gprof", "ld", "ld.bfd", "ld.gold", "nm"),
    *("objcopy", "objdump", "ranlib", "readelf", "size", "strings", "strip"),
)

# Debian's packages that hold what sysroot_linux-64 and kernel-headers_linux-64 do.
_C_LIBRARY = ("libc6-dev", "linux-libc-dev", "libc6")
_LIBRARY = re.compile(r"(?:/usr)?/lib(?:64)?/(?:[^/]+-linux-gnu/)?([^/]+\.(?:o|a|so)[^/]*)")

# A script around GCC's driver that finds everything from where it is itself.
_DRIVER = """\
#!/bin/sh
prefix=$(dirname "$(dirname "$(readlink -f "$0")")")
exec "$prefix/{driver}" "--sysroot=$prefix/{sysroot}" "-specs=$prefix/{specs}" "$@"
"""


def stand_in(name: str, version: str, files: Mapping[str, Entry], *depends: str) -> Package:
    """A package of what the machine has."""
    return Package(
        name=name,
        version=version,
        build="standin_0",
        depends=depends,
        summary="A stand-in of cuwheel's tests, made of this machine's programs",
        files=files,
    )


def gcc_packages(gcc: HostCompiler) -> Iterator[Package]:
    """GCC as conda-forge's: only names with the triplet, and its own `lib` in each rpath."""
    version, folder = gcc.version, f"lib/gcc/{TRIPLET}/{gcc.version}"
    specs = f"*link:\n+ %{{!static:-rpath {PREFIX}/lib}}\n\n"
    c: dict[str, Entry] = {
        f"{folder}/specs": Text(content=specs),
        f"bin/{TRIPLET}-cc": Link(target=f"{TRIPLET}-gcc"),
        **_driver("gcc", gcc.cc, folder),
        **_driver("cpp", Path(_of_machine("cpp")), folder),
        **{f"bin/{TRIPLET}-{n}": _around(n) for n in ("gcc-ar", "gcc-nm", "gcc-ranlib", "gcov")},
        **_parts(gcc),
    }
    cxx = {
        f"bin/{TRIPLET}-c++": Link(target=f"{TRIPLET}-g++"),
        **_driver("g++", gcc.cxx, folder),
        **_cxx_headers(gcc),
    }
    libs = tuple(f"{name} >={version}" for name in ("libgcc", "libstdcxx"))
    sysroot = "sysroot_linux-64"
    yield stand_in("libgcc", _RUNTIME, _runtime(gcc, "libgcc_s.so.1"), GLIBC)
    libgcc = f"libgcc {_RUNTIME} standin_0"
    yield stand_in("libstdcxx", _RUNTIME, _runtime(gcc, "libstdc++.so.6"), GLIBC, libgcc)
    yield stand_in(sysroot, "2.28", _sysroot(), "__glibc >=2.28")
    yield stand_in(
        "gcc_impl_linux-64", version, c, f"binutils_impl_linux-64 >={BINUTILS}", *libs, sysroot
    )
    exactly = f"gcc_impl_linux-64 {version} standin_0"
    yield stand_in("gxx_impl_linux-64", version, cxx, exactly, sysroot)
    yield _activation("gcc", version, "CC", "cc", "binutils_linux-64", sysroot)
    yield _activation("gxx", version, "CXX", "c++", f"gcc_linux-64 {version} standin_0", sysroot)


def binutils_packages() -> Iterator[Package]:
    """Binutils with the triplet in their names, and without."""
    programs: dict[str, Entry] = {f"bin/{TRIPLET}-{name}": _around(name) for name in _BINUTILS}
    own = {f"{TRIPLET}/bin/{n}": Link(target=f"../../bin/{TRIPLET}-{n}") for n in _BINUTILS}
    plain: dict[str, Entry] = {f"bin/{n}": Link(target=f"{TRIPLET}-{n}") for n in _BINUTILS}
    impl = "binutils_impl_linux-64"
    yield stand_in(impl, BINUTILS, {**programs, **own}, "sysroot_linux-64")
    yield stand_in("binutils_linux-64", BINUTILS, {}, f"{impl} {BINUTILS} standin_0")
    yield stand_in("binutils", BINUTILS, plain, f"{impl} >={BINUTILS},<2.41.0a0")


def c_library_version() -> str:
    """What identifies the files of the sysroot; empty where they are links."""
    query = which("dpkg-query", SYSTEM_PATH)
    return _ask(query, "--show", *_C_LIBRARY) if query else ""


def _sysroot() -> dict[str, Entry]:
    """The files of the C library, in Debian's folders; elsewhere links to the machine's folders.

    conda-forge's sysroot has `usr/lib64` and no folder for each architecture. Here it is a link to
    that, because GCC and the linker scripts of Debian name `lib/x86_64-linux-gnu`.
    """
    config = {f"bin/{TRIPLET}.cfg": Text(content=f"--sysroot={PREFIX}/{SYSROOT}\n")}
    query = which("dpkg-query", SYSTEM_PATH)
    listed = _ask(query, "--listfiles", *_C_LIBRARY).splitlines() if query else []
    copies = {
        f"{SYSROOT}/{place}": Copy(source=Path(name))
        for name in listed
        if (place := _place_in_sysroot(name)) and Path(name).is_file()
    }
    if not copies:
        return {
            **config,
            **{f"{SYSROOT}/{n}": Link(target=f"/{n}") for n in ("usr", "lib", "lib64")},
        }
    return {
        **config,
        **copies,
        f"{SYSROOT}/usr/lib64": Link(target="lib/x86_64-linux-gnu"),
        f"{SYSROOT}/lib64": Link(target="usr/lib64"),
        f"{SYSROOT}/lib": Link(target="usr/lib"),
    }


def _place_in_sysroot(name: str) -> str:
    """Where a file of the C library's packages goes; empty where no build needs it."""
    library = _LIBRARY.fullmatch(name)
    if library:
        return f"usr/lib/x86_64-linux-gnu/{library[1]}"
    return name[1:] if name.startswith("/usr/include/") else ""


def _driver(name: str, program: Path, folder: str) -> dict[str, Entry]:
    """A copy of a driver, and the script around it."""
    driver = f"{_ASIDE}/bin/{name}"
    script = _DRIVER.format(driver=driver, sysroot=SYSROOT, specs=f"{folder}/specs")
    return {
        driver: Copy(source=program.resolve(), executable=True),
        f"bin/{TRIPLET}-{name}": Text(content=script, executable=True),
    }


def _parts(gcc: HostCompiler) -> dict[str, Entry]:
    """Links to what the drivers run and link, and to our own `as`, `ld` and runtime libraries.

    A driver takes `as` and `ld` from the folder named after its target, whatever `PATH` says.
    """
    install = Path(_ask(gcc.cc, "-print-libgcc-file-name")).parent
    top = install.parents[3]  # above lib/gcc/x86_64-linux-gnu/12
    folders = {install, Path(_ask(gcc.cc, "-print-prog-name=cc1")).parent}
    files = [path for folder in sorted(folders) for path in sorted(folder.iterdir())]
    here = f"{_ASIDE}/{install.relative_to(top)}"
    bins = f"{_ASIDE}/{install.parent.name}/bin"
    up = "../" * len(Path(here).parts)
    return {
        **{f"{_ASIDE}/{path.relative_to(top)}": Link(target=str(path)) for path in files},
        f"{here}/libstdc++.so": Link(target=f"{up}lib/libstdc++.so.6"),
        f"{here}/libgcc_s.so.1": Link(target=f"{up}lib/libgcc_s.so.1"),
        **{f"{bins}/{n}": Link(target=f"../../../{TRIPLET}/bin/{n}") for n in ("as", "ld")},
    }


def _cxx_headers(gcc: HostCompiler) -> dict[str, Entry]:
    """Links to the folders of the C++ library's headers, some of which lie in others."""
    top = Path(_ask(gcc.cc, "-print-libgcc-file-name")).parents[4]
    said = _ask(gcc.cxx, "-E", "-v", "-x", "c++", os.devnull).splitlines()
    folders = {Path(os.path.normpath(line.strip())) for line in said if line.startswith(" /")}
    own = {folder for folder in folders if "c++" in folder.parts}
    outer = sorted(folder for folder in own if own.isdisjoint(folder.parents))
    return {f"{_ASIDE}/{path.relative_to(top)}": Link(target=str(path)) for path in outer}


def _runtime(gcc: HostCompiler, soname: str) -> dict[str, Entry]:
    """A library that compiled programs need, in `lib`."""
    path = Path(_ask(gcc.cc, f"-print-file-name={soname}"))
    return {f"lib/{soname}": Copy(source=path.resolve())}


def _activation(name: str, version: str, variable: str, program: str, *depends: str) -> Package:
    script = f"export {variable}={PREFIX}/bin/{TRIPLET}-{program}\n"
    path = f"etc/conda/activate.d/activate-{name}_linux-64.sh"
    needs = (f"{name}_impl_linux-64 {version}.*", *depends)
    return stand_in(f"{name}_linux-64", version, {path: Text(content=script)}, *needs)


def _around(program: str) -> Text:
    """A script that becomes a program of the machine, which no `PATH` can change."""
    return Text(content=f'#!/bin/sh\nexec {_of_machine(program)} "$@"\n', executable=True)


def _of_machine(program: str) -> str:
    found = which(program, SYSTEM_PATH)
    assert found, f"{program} is missing in {SYSTEM_PATH}"
    return found


def _ask(*words: str | Path) -> str:
    """What a program of the machine answers; as much as it says before it fails."""
    env = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
    return process.run(words, env=env, check=False).output.strip()
