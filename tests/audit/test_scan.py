from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.audit.scan import DevicePart, Leak, WheelScan, scan_wheel
from cuwheel.binaries.archs import DeviceCode
from cuwheel.errors import UnsafeArchiveError
from cuwheel.system import process
from tests.support.factories import compile_cuda, compile_device_file, compile_library, write_wheel

_PRIVATE = "/private/work"
_MIB = 1 << 20
_KERNEL = "__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n"
_CHILD = """
import re, sys
from pathlib import Path
from cuwheel.audit.scan import scan_wheel
scan = scan_wheel(Path(sys.argv[1]), private_paths=("/private/work",))
# Not `ru_maxrss`, which a process takes over from the one that started it.
print(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
for library in scan.libraries: print(library.name, library.damage, library.elf.machine)
"""


def _scan(tmp_path: Path, content: bytes, name: str = "pkg/data.bin") -> WheelScan:
    wheel = write_wheel(tmp_path / "wheel", {name: content})
    return scan_wheel(wheel, private_paths=(_PRIVATE, f"{_PRIVATE}/src", "/"))


def _library(folder: Path, text: str) -> bytes:
    source = folder / "text.c"
    source.write_text(f'const char *text(void) {{ return "{text}"; }}\n')
    return compile_library(folder / "text.so", "gcc", "-fPIC", source).read_bytes()


def test_finds_private_path_in_any_file(tmp_path: Path) -> None:
    content = b"\0\1/private/work/src/a.cpp\0 and /private/work\0"

    leaks = _scan(tmp_path, content).leaks

    path = "/private/work/src/a.cpp"
    assert leaks == (Leak(name="pkg/data.bin", text=path, count=2, kind="private"),)


@pytest.mark.parametrize("before", [_MIB - 20, _MIB - 1, _MIB, 2 * _MIB - 4096, 2 * _MIB - 5])
def test_finds_path_wherever_pieces_meet(tmp_path: Path, before: int) -> None:
    content = b"." * before + b"/private/work/a.cpp" + b"." * (3 * _MIB - before)

    leaks = _scan(tmp_path, content).leaks

    assert [leak.count for leak in leaks] == [1]


def test_lets_longer_name_pass(tmp_path: Path) -> None:
    assert _scan(tmp_path, b"/private/workshop/a.cpp").leaks == ()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/someone/src/kernel.cu", "home"),
        ("/root/a/b.cpp", "home"),
        ("/tmp/build-x1/include/c.h", "home"),
        ("/home/jenkins/agent/workspace/a.cpp", "workspace"),
        ("/__w/project/project/csrc/a.cu", "workspace"),
        ("/project/include/a.h", "workspace"),
    ],
)
def test_finds_source_of_build_machine_in_library(tmp_path: Path, path: str, kind: str) -> None:
    leaks = _scan(tmp_path, _library(tmp_path, path), "pkg/text.so").leaks

    assert [(leak.name, leak.text, leak.count, leak.kind) for leak in leaks] == [
        ("pkg/text.so", path, 1, kind)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "/root/.cache/pkg",
        "/tmp/pkg.lock",
        "/tmp/jit_XXXXXX.cpp",  # a program's own file
        "/tmp/%s/kernel.cu",
        "/src/home/me/a.cpp",
        "../home/me/a.cpp",
        "https://host/home/me/a.c",
        "/usr/include/c++/12/bits/stl_vector.h",
    ],
)
def test_lets_other_path_in_library_pass(tmp_path: Path, text: str) -> None:
    assert _scan(tmp_path, _library(tmp_path, text), "pkg/text.so").leaks == ()


def test_lets_path_of_some_home_in_text_pass(tmp_path: Path) -> None:
    assert _scan(tmp_path, b"edit /home/user/project/main.cpp", "pkg/README.md").leaks == ()


def test_tells_damaged_library(tmp_path: Path) -> None:
    scan = _scan(tmp_path, _library(tmp_path, "")[:200], "pkg/text.so")

    assert [library.damage.partition(":")[0] for library in scan.libraries] == [
        "not a sound ELF file"
    ]


def test_takes_path_that_is_no_text(tmp_path: Path) -> None:
    odd = os.fsdecode(b"/private/\xff/work")
    wheel = write_wheel(tmp_path / "wheel", {"pkg/data.bin": b"\0/private/\xff/work/a.cpp\0"})

    leaks = scan_wheel(wheel, private_paths=(odd,)).leaks

    assert [leak.count for leak in leaks] == [1]


def test_takes_bounded_memory(tmp_path: Path) -> None:
    large = _library(tmp_path, "") + bytes(256 * _MIB)
    wheel = _deflated(tmp_path, {"pkg/large.so": large})

    done = process.run(
        [sys.executable, "-c", _CHILD, wheel], env={"PYTHONPATH": str(Path.cwd())}
    ).output.splitlines()

    assert done[1:] == ["pkg/large.so  EM_X86_64"]
    assert int(done[0]) < 128 << 10


def test_tells_code_of_each_section(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(_KERNEL)
    flags = ("-rdc=true", "-gencode=arch=compute_90,code=[sm_90,compute_90]")
    made = compile_cuda(tmp_path / "lib.so", cuda_home, source, *flags)

    scan = _scan(tmp_path, made.read_bytes(), "pkg/lib.so")

    sass, both = DeviceCode(sass=("90",)), DeviceCode(sass=("90",), ptx=("90",))
    assert [library.device_code for library in scan.libraries] == [sass]
    assert set(scan.device_parts) == {
        DevicePart(name="pkg/lib.so", section=".nv_fatbin", code=sass),
        DevicePart(name="pkg/lib.so", section="__nv_relfatbin", code=both),
    }
    assert scan.device_files == {}


def test_tells_code_in_files_that_are_no_library(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(_KERNEL)
    files: dict[str, bytes | Path] = {}
    for kind in ("cubin", "fatbin", "ptx"):
        made = compile_device_file(tmp_path / f"twice.{kind}", cuda_home, source, "90")
        files[f"pkg/{made.name}"] = made

    scan = scan_wheel(write_wheel(tmp_path / "wheel", files), private_paths=())

    assert {name: (code.sass, code.ptx) for name, code in scan.device_files.items()} == {
        "pkg/twice.cubin": (("90",), ()),
        "pkg/twice.fatbin": (("90",), ("90",)),
        "pkg/twice.ptx": ((), ("90",)),
    }


def test_tells_damaged_device_code(tmp_path: Path) -> None:
    text = tmp_path / "other.s"
    text.write_text('.section .nv_fatbin, "a"\n.ascii "something else"\n')
    made = compile_library(tmp_path / "lib.so", "gcc", text)

    libraries = _scan(tmp_path, made.read_bytes(), "pkg/lib.so").libraries

    assert [library.damage for library in libraries] == ["no fat binary at byte 0 of .nv_fatbin"]


def test_finds_fault_of_record(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "wheel", {"pkg/a.py": b"x"})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("pkg/b.py", b"")

    faults = scan_wheel(wheel, private_paths=()).archive_faults

    assert faults == (("pkg/b.py", "RECORD doesn't list it"),)


def test_refuses_damaged_member(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "wheel", {"pkg/a.py": b"x = 1"})
    wheel.write_bytes(wheel.read_bytes().replace(b"x = 1", b"x = 2"))

    with pytest.raises(UnsafeArchiveError, match="is damaged"):
        scan_wheel(wheel, private_paths=())


def _deflated(folder: Path, files: dict[str, bytes | Path]) -> Path:
    """The same wheel, packed."""
    stored = write_wheel(folder / "stored", files)
    path = folder / stored.name
    with (
        zipfile.ZipFile(stored) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return path
