from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.audit.scan import DevicePart, scan_wheel
from cuwheel.binaries.archs import DeviceCode
from cuwheel.errors import UnsafeArchiveError
from cuwheel.system import process
from tests.support.factories import compile_cuda, compile_device_file, compile_library, write_wheel
from tests.support.scanned import MIB, library_with, scan_file

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


def test_tells_damaged_library(tmp_path: Path) -> None:
    scan = scan_file(tmp_path, library_with(tmp_path, "")[:200], "pkg/text.so")

    assert [library.damage.partition(":")[0] for library in scan.libraries] == [
        "not a valid ELF file"
    ]


@pytest.mark.e2e
def test_takes_bounded_memory(tmp_path: Path) -> None:
    large = library_with(tmp_path, "") + bytes(256 * MIB)
    wheel = _deflated(tmp_path, {"pkg/large.so": large})

    done = process.run(
        [sys.executable, "-c", _CHILD, wheel], env={"PYTHONPATH": str(Path.cwd())}
    ).output.splitlines()

    assert done[1:] == ["pkg/large.so  EM_X86_64"]
    assert int(done[0]) < 128 << 10


def test_takes_bounded_memory_for_many_members(tmp_path: Path) -> None:
    """Each of them has a state of zlib's of 45 kB while it is read."""
    files: dict[str, bytes | Path] = {f"pkg/f{number}.py": b"x = 1\n" for number in range(4000)}
    wheel = _deflated(tmp_path, files)

    done = process.run([sys.executable, "-c", _CHILD, wheel], env={"PYTHONPATH": str(Path.cwd())})

    assert int(done.output) < 96 << 10


def test_tells_code_of_each_section(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(_KERNEL)
    flags = ("-rdc=true", "-gencode=arch=compute_90,code=[sm_90,compute_90]")
    made = compile_cuda(tmp_path / "lib.so", cuda_home, source, *flags)

    scan = scan_file(tmp_path, made.read_bytes(), "pkg/lib.so")

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

    libraries = scan_file(tmp_path, made.read_bytes(), "pkg/lib.so").libraries

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
