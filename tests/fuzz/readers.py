"""Every reader of others' bytes, as a function of bytes that raises nothing but a crash.

A reader is given what a real file was changed to. The errors that it declares are its answers, and
are suppressed here; whatever else it raises is a crash.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from cuwheel.base.errors import (
    DownloadError,
    FileAccessError,
    InstallError,
    LockError,
    UnsafeArchiveError,
    UsageError,
)
from cuwheel.base.fetch.indexes.indexes import find_releases
from cuwheel.base.fetch.indexes.offers import Offer, read_offers
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.formats.binaries.device_code import (
    DeviceCodeError,
    code_of_element,
    elements_of,
    find_fatbins,
)
from cuwheel.base.formats.binaries.elf import ElfFormatError, Section, read_elf
from cuwheel.base.formats.binaries.elf_image import ElfImage
from cuwheel.base.formats.binaries.elf_symbols import Symbols
from cuwheel.base.formats.binaries.fatbin import FatbinFormatError, code_of_ptx, hop_fatbins
from cuwheel.base.formats.binaries.kernel_code import read_cubin, read_ptx
from cuwheel.base.formats.wheel.publication import published_sha256
from cuwheel.base.system.files import remove_tree
from cuwheel.build.compile.events import read_events
from cuwheel.build.environments.lock_file import faults_of_lock
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.patches import try_patch
from cuwheel.build.locks.mirror_folder import read_targets
from cuwheel.build.toolchains.conda.lock_file import read_conda_lock
from cuwheel.build.toolchains.debian.deb_file import Unpacking
from cuwheel.build.toolchains.debian.lock_file import read_debian_lock
from cuwheel.build.toolchains.redist.lock_file import read_redist_lock
from cuwheel.build.workspace.failure_record import read_failure
from cuwheel.check.audit.verdict import audit_wheel
from cuwheel.check.explain.explanation import Explainer
from cuwheel.check.pick.fit import RemoteWheelFacts, WheelJudge
from cuwheel.check.pick.machine import parse_machine
from cuwheel.publish.rebuild.compare.wheel import compare
from cuwheel.publish.rebuild.published import read_published

WHEEL = "tiny_cuda-1.2.3-cp311-cp311-linux_x86_64.whl"
INFO = "tiny_cuda-1.2.3.dist-info"
TEXTS = {
    "METADATA": b"Metadata-Version: 2.4\nName: tiny_cuda\nVersion: 1.2.3\n\nA text.\n",
    "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
    "RECORD": b"",
}
_explainer = functools.cache(Explainer)
_MACHINE = parse_machine("python=3.12,torch=2.11,cuda=13.0,arch=90,glibc=2.36,driver=580")
_OFFER = Offer(
    name="toy-1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
    url="",
    index="",
    version=Version("1.0"),
    is_wheel=True,
)
# For the process, which atheris ends at once.
_FOLDER = Path(tempfile.mkdtemp(prefix="cuwheel-fuzz-"))


def _write(name: str, data: bytes) -> Path:
    path = _FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def write_wheel_with(path: Path, files: dict[str, bytes]) -> Path:
    """A wheel with these files in place of, or beside, the texts that every wheel has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {f"{INFO}/{name}": text for name, text in TEXTS.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (texts | files).items():
            archive.writestr(name, content)
    return path


def _audit(path: Path) -> None:
    with contextlib.suppress(UnsafeArchiveError):
        audit_wheel(path, private_paths=("/private/work",))


def _wheel(data: bytes) -> None:
    _audit(_write(WHEEL, data))


def _member(data: bytes) -> None:
    _audit(write_wheel_with(_FOLDER / WHEEL, {"pkg/lib.so": data}))


def _texts(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        _audit(write_wheel_with(_FOLDER / WHEEL, {f"{INFO}/{name}": data, "pkg/a.py": b""}))

    return read


def _elf(data: bytes) -> None:
    with contextlib.suppress(ElfFormatError):
        read_elf(io.BytesIO(data))
    with contextlib.suppress(ElfFormatError):
        _ = ElfImage(io.BytesIO(data)).soname
    with contextlib.suppress(ElfFormatError):
        symbols = Symbols(io.BytesIO(data))
        symbols.has_section(".text")
        symbols.mentions(["cu"])
        symbols.lacking(["cuInit", "main"])
        list(symbols.undefined())


def _cubin(data: bytes) -> None:
    with contextlib.suppress(ElfFormatError):
        read_cubin(data)


def _fatbin(data: bytes) -> None:
    stream = io.BytesIO(data)
    for element in elements_of(stream, find_fatbins(stream)):
        with contextlib.suppress(DeviceCodeError):
            code_of_element(stream, element)
    with contextlib.suppress(FatbinFormatError):
        hop_fatbins(stream, Section(name=".nv_fatbin", offset=0, size=len(data)))


def _ptx(data: bytes) -> None:
    read_ptx(data)
    code_of_ptx(data)


def _lock(data: bytes) -> None:
    faults_of_lock(_write("test.lock", data), "toy\n")


def _conda_lock(data: bytes) -> None:
    with contextlib.suppress(LockError):
        read_conda_lock(_write("cuda122/conda-lock.yml", data))


def _debian_lock(data: bytes) -> None:
    with contextlib.suppress(LockError):
        read_debian_lock(_write("gcc12/debian.lock", data))


def _debian_package(data: bytes) -> None:
    root = _FOLDER / "root"
    root.mkdir(exist_ok=True)
    try:
        with contextlib.suppress(InstallError):
            Unpacking(folder=root, title="toys").add(_write("toy.deb", data))
    finally:
        remove_tree(root)


def _redist_lock(data: bytes) -> None:
    with contextlib.suppress(LockError):
        read_redist_lock(_write("cuda122/redist.lock", data))


def _log(data: bytes) -> None:
    _explainer().explain(io.BytesIO(data))


def _failure(data: bytes) -> None:
    _write("dist/.cuwheel/toy.failed.json", data)
    read_failure(_FOLDER / "dist", "toy")


def _statement(data: bytes) -> None:
    path = _write(f"dist/{WHEEL}.provenance.json", data)
    published_sha256(path.with_name(WHEEL))
    with contextlib.suppress(UsageError):
        read_published(path)


def _mirror(data: bytes) -> None:
    path = _write("mirror/mirror.json", data)
    with contextlib.suppress(FileAccessError):
        read_targets(path.parent)


def _events(data: bytes) -> None:
    read_events(_write("events.jsonl", data))


def _index(data: bytes) -> None:
    path = _write("simple/toy/index.html", data)
    with contextlib.suppress(DownloadError):
        find_releases("toy", indexes=[path.parent.parent.as_uri()])


def _release(data: bytes) -> None:
    read_offers(_write("releases.json", data).as_uri(), "toy", Attempts())


def _offer(data: bytes) -> None:
    """METADATA and the tags of a wheel that somebody else's index offers, held to a machine."""
    facts = RemoteWheelFacts(metadata=data.decode("utf-8", "replace"))
    WheelJudge(_OFFER, _MACHINE, facts, Requirement("toy[a]")).judge()


def _patch(data: bytes) -> None:
    _write("tree/setup.py", b"one\ntwo\nthree\n")
    try_patch(data, _FOLDER / "tree")


def _archive(data: bytes) -> None:
    with contextlib.suppress(UnsafeArchiveError):
        unpack_archive(_write("source.tar", data), _FOLDER / "source")


def _compare(data: bytes) -> None:
    """The change against what it was made from, which lies before a separator in no file."""
    one = write_wheel_with(_FOLDER / "a" / WHEEL, {"pkg/lib.so": data})
    other = write_wheel_with(_FOLDER / "b" / WHEEL, {"pkg/lib.so": data[:64] + data[64:][::-1]})
    with contextlib.suppress(UnsafeArchiveError):
        compare(one, other)


READERS: dict[str, Callable[[bytes], None]] = {
    "wheel": _wheel,
    "member": _member,
    "metadata": _texts("METADATA"),
    "tags": _texts("WHEEL"),
    "record": _texts("RECORD"),
    "elf": _elf,
    "cubin": _cubin,
    "fatbin": _fatbin,
    "ptx": _ptx,
    "lock": _lock,
    "conda-lock": _conda_lock,
    "debian-lock": _debian_lock,
    "debian-package": _debian_package,
    "redist-lock": _redist_lock,
    "log": _log,
    "failure": _failure,
    "statement": _statement,
    "mirror": _mirror,
    "events": _events,
    "index": _index,
    "release": _release,
    "offer": _offer,
    "patch": _patch,
    "archive": _archive,
    "compare": _compare,
}


def _raises(data: bytes) -> None:
    json.loads(data)


def _grows(_: bytes) -> None:
    """Hold what was written to: memory that is only reserved takes none."""
    held = [b"x" * (64 << 20) for _ in range(40)]
    while held:
        pass


def _hangs(_: bytes) -> None:
    while True:
        pass


# What the fuzzing has to find.
PLANTED = {"raises": _raises, "grows": _grows, "hangs": _hangs}
