from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.base.system import process
from cuwheel.check.audit.scan import scan_wheel
from tests.support.check.scans import MIB, begin_fatbin, library_with, scan_file
from tests.support.factories import compile_cuda, compile_device_file, compile_library, write_wheel

_KERNEL = "__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n"
_CHILD = """
import re, sys
from pathlib import Path
from cuwheel.check.audit.scan import scan_wheel
scan = scan_wheel(Path(sys.argv[1]), private_paths=("/private/work",))
# Not `ru_maxrss`, which a process inherits.
print(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
for library in scan.libraries: print(library.name, library.damage, library.elf.machine)
"""


def test_finds_damaged_library(tmp_path: Path) -> None:
    scan = scan_file(tmp_path, library_with(tmp_path, "")[:200], "pkg/text.so")

    assert [library.damage.partition(":")[0] for library in scan.libraries] == [
        "not a valid ELF file"
    ]


@pytest.mark.e2e
def test_memory_is_bounded(tmp_path: Path) -> None:
    large = library_with(tmp_path, "") + bytes(256 * MIB)
    wheel = _deflated(tmp_path, {"pkg/large.so": large})

    lines = process.run(
        [sys.executable, "-c", _CHILD, wheel], env={"PYTHONPATH": str(Path.cwd())}
    ).output.splitlines()

    assert lines[1:] == ["pkg/large.so  EM_X86_64"]
    assert int(lines[0]) < 128 << 10


@pytest.mark.e2e
def test_memory_is_bounded_for_many_members(tmp_path: Path) -> None:
    """Each has a zlib state of 45 kB while it is read."""
    files: dict[str, bytes | Path] = {f"pkg/f{number}.py": b"x = 1\n" for number in range(4000)}
    wheel = _deflated(tmp_path, files)

    done = process.run([sys.executable, "-c", _CHILD, wheel], env={"PYTHONPATH": str(Path.cwd())})

    assert int(done.output) < 96 << 10


@pytest.mark.e2e
def test_leaves_out_input_of_the_device_link(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(_KERNEL)
    flags = ("-rdc=true", "-gencode=arch=compute_90,code=[sm_90,compute_90]")
    library = compile_cuda(tmp_path / "lib.so", cuda_home, source, *flags)

    scan = scan_file(tmp_path, library.read_bytes(), "pkg/lib.so")

    assert [library.device_code for library in scan.libraries] == [DeviceCode(sass=("90",))]
    assert scan.device_files == {}


@pytest.mark.e2e
def test_reads_code_in_files_that_are_no_library(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(_KERNEL)
    files: dict[str, bytes | Path] = {}
    for kind in ("cubin", "fatbin", "ptx"):
        file = compile_device_file(tmp_path / f"twice.{kind}", cuda_home, source, "90")
        files[f"pkg/{file.name}"] = file

    scan = scan_wheel(write_wheel(tmp_path / "wheel", files), private_paths=())

    assert {name: (code.sass, code.ptx) for name, code in scan.device_files.items()} == {
        "pkg/twice.cubin": (("90",), ()),
        "pkg/twice.fatbin": (("90",), ("90",)),
        "pkg/twice.ptx": ((), ("90",)),
    }


def test_finds_damaged_device_code(tmp_path: Path) -> None:
    text = tmp_path / "other.s"
    text.write_text('.section .nv_fatbin, "a"\n.ascii "something else"\n')
    library = compile_library(tmp_path / "lib.so", "gcc", text)

    libraries = scan_file(tmp_path, library.read_bytes(), "pkg/lib.so").libraries

    assert [item.damage for item in libraries] == ["no fat binary at byte 0 of .nv_fatbin"]


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
    """Return the wheel with compressed members."""
    stored = write_wheel(folder / "stored", files)
    path = folder / stored.name
    with (
        zipfile.ZipFile(stored) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return path


def _cubin(names: bytes) -> bytes:
    """Return an ELF header, its only section and that one's text, the names of sections."""
    header = struct.pack("<4s36xQ10xHHH", b"\x7fELF", 64, 64, 1, 0)
    return header + struct.pack("<4xI16xQQ24x", 3, 128, len(names)) + names


@pytest.mark.parametrize(
    ("code", "is_damaged"),
    [
        (b"\x7fELF" + bytes(4), False),
        (bytes(8), True),
        (_cubin(b"\0.text\0\0"), False),
        (_cubin(bytes(8)), True),
    ],
)
def test_machine_code_is_a_cubin(tmp_path: Path, code: bytes, *, is_damaged: bool) -> None:
    content = library_with(tmp_path, "x") + begin_fatbin(80, len(code), flags=0x11) + code

    (library,) = scan_file(tmp_path, content, "pkg/libx.so").libraries

    assert ("ELF header" in library.damage) is is_damaged


@pytest.mark.parametrize(("flags", "is_debug"), [(0x8013, True), (0x8011, False)])
def test_knows_code_for_a_debugger(tmp_path: Path, flags: int, *, is_debug: bool) -> None:
    content = begin_fatbin(80, 8, flags=flags) + bytes(8)

    (code,) = scan_file(tmp_path, content, "pkg/a.fatbin").device_files.values()

    assert code.is_debug is is_debug
