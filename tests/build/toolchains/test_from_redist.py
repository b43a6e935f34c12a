"""CUDA homes made of redistributable archives, sound ones and those that would do harm."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cuwheel.base.errors import (
    DownloadError,
    HashMismatchError,
    InstallError,
    LockError,
    ToolchainError,
    UsageError,
)
from cuwheel.base.fetch.urls import MIRROR_VARIABLE as DOWNLOADS_MIRROR
from cuwheel.base.paths import ROOT
from cuwheel.build.locks.lock_jobs import LockSpec
from cuwheel.build.locks.resolve import resolve_locks, verify_locks
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.toolchains.redist.lock_file import (
    NOT_FETCHED,
    PLATFORMS,
    RELEASES,
    faults_of_redist_lock,
    read_products,
    read_redist_lock,
)
from cuwheel.build.toolchains.redist.manifest import MIRROR_VARIABLE
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.factories import heard, later, make_workspace, noise
from tests.support.requirements import require
from tests.support.servers.http import Site, serving
from tests.support.toolchains.channel import Copy, Entry, Link, Text
from tests.support.toolchains.redist_archives import (
    OWN,
    RELEASE,
    SBSA,
    Part,
    toy_parts,
    write_archive,
    write_input,
    write_release,
)

TOOLKIT = toolkit_by_release("13.0")
TOP = f"cuda_cudart-{OWN}-13.0.96-archive"
LOCKS = sorted((ROOT / "envs").glob("cuda*/redist.lock"))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A copy of NVIDIA's folder, with the toy components."""
    folder = tmp_path / "compute"
    write_release(folder, toy_parts())
    return folder


@pytest.fixture
def workspace(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace of a user with a project of their own and that copy."""
    monkeypatch.setenv(MIRROR_VARIABLE, base.as_uri())
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return make_workspace(tmp_path)


@pytest.fixture
def job(tmp_path: Path) -> LockSpec:
    """The lock of all the toy components, not written yet."""
    source = write_input(tmp_path / "project", toy_parts())
    return LockSpec(
        name="toolchain:130:redist", source=source, lock=source.with_name("redist.lock")
    )


def install(workspace: Workspace, machine: str = "", *, offline: bool = False) -> Toolchain:
    return provide_toolchain(TOOLKIT, "redist", workspace, machine=machine, offline=offline)


def locked(base: Path, job: LockSpec, workspace: Workspace, *parts: Part) -> None:
    """Lock these components, besides those of the toys that have other names."""
    names = {part.name for part in parts}
    chosen = (*parts, *(part for part in toy_parts() if part.name not in names))
    write_release(base, chosen)
    write_input(job.lock.parents[2], chosen)
    resolve_locks((job,), workspace)


def replace_archive(base: Path, name: str, content: bytes) -> None:
    """Put other content in the place of an archive, with its right hash in the manifest."""
    path = base / "cuda" / "redist" / f"redistrib_{RELEASE}.json"
    manifest = json.loads(path.read_text())
    entry = manifest[name][OWN]
    (path.parent / entry["relative_path"]).write_bytes(content)
    entry.update(sha256=hashlib.sha256(content).hexdigest(), size=str(len(content)))
    path.write_text(json.dumps(manifest))


def left_in(workspace: Workspace) -> list[Path]:
    """Toolchains, whole or not."""
    return [path for path in (workspace.cache / "toolchains").glob("*") if path.is_dir()]


def test_writes_lock_without_server(workspace: Workspace, job: LockSpec) -> None:
    resolve_locks((job,), workspace, note="of a copy")

    lock = read_redist_lock(job.lock)
    archives = {(archive.name, archive.platform) for archive in lock.archives}
    names = {part.name for part in toy_parts()}
    assert archives == {(name, platform) for name in names for platform in (OWN, SBSA)}
    assert (lock.files, "(of a copy)" in lock.manifest) == (NOT_FETCHED, True)
    assert "file:" not in job.lock.read_text()


def test_makes_home_over_http(
    workspace: Workspace, job: LockSpec, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"/{path.relative_to(base)}": path.read_bytes() for path in base.rglob("*.*")}
    with serving(Site(files=files)) as site:
        monkeypatch.setenv(MIRROR_VARIABLE, site.url(""))
        resolve_locks((job,), workspace)
        toolchain = install(workspace)

    home = toolchain.home
    found = {
        path for path in toy_parts()[1].files if (home / path.replace("lib/", "lib64/")).exists()
    }
    assert found == set(toy_parts()[1].files)
    assert (home / "bin" / "nvlink-real").read_text().startswith("#!/bin/sh\necho")
    assert (home / "licenses" / "cuda_nvcc" / "LICENSE").read_text() == "licence of cuda_nvcc"
    assert not (home / "LICENSE").exists()
    assert "hashes are those of NVIDIA's manifest" in heard(workspace)


def test_says_what_it_is_made_of(workspace: Workspace, job: LockSpec) -> None:
    """With NVIDIA's addresses, not those of the copy that the files came from."""
    resolve_locks((job,), workspace)

    toolchain = install(workspace)

    facts = (toolchain.provider, toolchain.version, toolchain.pinned, toolchain.cxx)
    assert facts == ("redist", "13.0.88", True, None)
    assert [package[:2] for package in toolchain.packages] == [
        ("redist cuda_cudart", "13.0.96"),
        ("redist cuda_nvcc", "13.0.88"),
    ]
    starts = [
        address.startswith(f"{RELEASES}/cuda/redist/") for _, _, address, _ in toolchain.packages
    ]
    assert starts == [True, True]


def test_reuses_it_without_network(workspace: Workspace, job: LockSpec, base: Path) -> None:
    resolve_locks((job,), workspace)
    first = install(workspace)
    base.rename(base.with_name("gone"))
    base.mkdir()

    assert install(later(workspace), offline=True) == first


def test_makes_damaged_one_again_from_the_cache(workspace: Workspace, job: LockSpec) -> None:
    resolve_locks((job,), workspace)
    whole = install(workspace)
    (whole.home / "include" / "cuda_runtime.h").write_text("#error")

    repaired = install(later(workspace), offline=True)

    assert "was damaged and is made again" in heard(workspace)
    assert repaired == whole
    assert (whole.home / "include" / "cuda_runtime.h").read_text() == ""


def test_takes_arm64_libraries_and_own_programs(
    workspace: Workspace, job: LockSpec, base: Path
) -> None:
    arm = [dataclasses.replace(part, files=_for_arm(part.files)) for part in toy_parts()]
    write_release(base, arm, (SBSA,))
    resolve_locks((job,), workspace)

    toolchain = install(workspace, "aarch64")

    assert (toolchain.home / "lib64" / "libcudart.so.13").read_text() == "arm64"
    assert "arm64" not in (toolchain.home / "bin" / "nvlink-real").read_text()
    assert toolchain.home != install(workspace).home
    assert {SBSA in address for _, _, address, _ in toolchain.packages} == {True}


def _for_arm(files: Mapping[str, Entry]) -> dict[str, Entry]:
    return {
        name: Text(content="arm64") if isinstance(entry, Text) else entry
        for name, entry in files.items()
    }


def test_takes_sbsa_on_arm64(
    workspace: Workspace, job: LockSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_locks((job,), workspace)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    assert {SBSA in address for _, _, address, _ in install(workspace).packages} == {True}


def test_refuses_machine_without_archives(
    workspace: Workspace, job: LockSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_locks((job,), workspace)
    monkeypatch.setattr("platform.machine", lambda: "riscv64")

    with pytest.raises(ToolchainError, match="is not for this machine") as caught:
        install(workspace)

    assert "riscv64" in caught.value.why


def test_keeps_what_two_components_have_alike(
    workspace: Workspace, job: LockSpec, base: Path
) -> None:
    [same] = [
        entry for name, entry in toy_parts()[1].files.items() if name == "include/cuda_runtime.h"
    ]
    locked(
        base,
        job,
        workspace,
        Part(name="cuda_crt", version="13.0.88", files={"include/cuda_runtime.h": same}),
    )

    assert (install(workspace).home / "include" / "cuda_runtime.h").is_file()


@pytest.mark.parametrize(
    "files",
    [
        {"include/cuda_runtime.h": Text(content="other")},
        {"include/cuda_runtime.h": Text(content="", executable=True)},
        {"lib/libcudart.so": Link(target="libother.so")},
        {"include/cuda_runtime.h/x.h": Text(content="")},
        {"lib/stubs": Text(content="")},
        {"lib/libcudart.so/x": Text(content="")},
        {"lib64/libcudart.so.13.0.96": Text(content="other")},
    ],
    ids=[
        "content",
        "mode",
        "link",
        "folder for file",
        "file for folder",
        "folder for link",
        "lib64",
    ],
)
def test_refuses_contradiction(
    files: Mapping[str, Entry], workspace: Workspace, job: LockSpec, base: Path
) -> None:
    locked(base, job, workspace, Part(name="libother", version="1.0", files=files))

    with pytest.raises(InstallError, match="contradict each other") as caught:
        install(workspace)

    assert "cuda_cudart" in caught.value.why
    assert "libother" in caught.value.why
    assert left_in(workspace) == []


def test_second_library_folder_is_the_first(
    workspace: Workspace, job: LockSpec, base: Path
) -> None:
    files: dict[str, Entry] = {"lib64/libx.so": Text(content="x")}
    locked(base, job, workspace, Part(name="libx", version="1.0", files=files))

    assert (install(workspace).home / "lib" / "libx.so").read_text() == "x"


def member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    info.size = 4 if kind == tarfile.REGTYPE else 0
    return info


def tar_of(*members: tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz") as tar:
        for info in members:
            tar.addfile(info, io.BytesIO(b"text"))
    return stream.getvalue()


BAD: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "leaves by ..": ("leaves the folder", lambda _: tar_of(member(f"{TOP}/../../evil"))),
    "absolute name": ("an absolute name", lambda _: tar_of(member("/tmp/evil"))),
    "link out": (
        "a link to ../../evil",
        lambda _: tar_of(member(f"{TOP}/evil", tarfile.SYMTYPE, "../../evil")),
    ),
    "absolute link": (
        "a link to /etc",
        lambda _: tar_of(member(f"{TOP}/evil", tarfile.SYMTYPE, "/etc")),
    ),
    "through a link": (
        "through a link",
        lambda _: tar_of(member(f"{TOP}/a", tarfile.SYMTYPE, "b"), member(f"{TOP}/a/evil")),
    ),
    "hard link out": (
        "a hard link to ../evil",
        lambda _: tar_of(member(f"{TOP}/evil", tarfile.LNKTYPE, "../evil")),
    ),
    "device": ("a device", lambda _: tar_of(member(f"{TOP}/evil", tarfile.CHRTYPE))),
    "FIFO": ("a device", lambda _: tar_of(member(f"{TOP}/evil", tarfile.FIFOTYPE))),
    "setuid": ("a setuid file", lambda _: tar_of(member(f"{TOP}/evil", mode=0o4755))),
    "setgid": ("a setuid file", lambda _: tar_of(member(f"{TOP}/evil", mode=0o2755))),
    "another folder": ("contains evil, not one", lambda _: tar_of(member("evil/lib/x.so"))),
    "two folders": ("contains cuda_", lambda _: tar_of(member(f"{TOP}/x"), member("evil/x"))),
    "no folder": ("contains evil, not one", lambda _: tar_of(member("evil"))),
    "empty": ("contains nothing", lambda _: tar_of()),
    "truncated": ("truncated", lambda whole: whole[: len(whole) // 2]),
    "without its end": ("truncated", lambda whole: whole[:-8]),
    "changed within": ("truncated, damaged", lambda whole: whole[:99] + b"evil" + whole[103:]),
    "a page": ("not an archive", lambda _: b"<html>evil</html>"),
    "no bytes": ("not an archive", lambda _: b""),
}


@pytest.mark.parametrize(("words", "change"), BAD.values(), ids=BAD)
def test_refuses_bad_archive(  # noqa: PLR0913, PLR0917 - fixtures
    words: str,
    change: Callable[[bytes], bytes],
    workspace: Workspace,
    job: LockSpec,
    base: Path,
    tmp_path: Path,
) -> None:
    """Each is what the lock names: its publisher made it so."""
    whole = write_archive(tmp_path / "whole", toy_parts()[1]).read_bytes()
    replace_archive(base, "cuda_cudart", change(whole))
    resolve_locks((job,), workspace)

    with pytest.raises(InstallError) as caught:
        install(workspace)

    assert "cuda_cudart of the lock cuda130/redist.lock" in caught.value.what
    assert words in caught.value.why
    assert left_in(workspace) == []
    assert list(tmp_path.rglob("evil")) == []
    assert not Path("/tmp/evil").exists()


def test_refuses_wrong_hash(workspace: Workspace, job: LockSpec, base: Path) -> None:
    resolve_locks((job,), workspace)
    [archive] = base.rglob(f"cuda_cudart-{OWN}*")
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))

    with pytest.raises(HashMismatchError, match="is not the file that the lock pins"):
        install(workspace)

    assert left_in(workspace) == []


def test_refuses_compiler_of_another_release(
    workspace: Workspace, job: LockSpec, base: Path
) -> None:
    program = Text(content="#!/bin/sh\necho 'release 12.4, V12.4.131'\n", executable=True)
    files = {**toy_parts()[0].files, "bin/nvcc": program, "bin/ptxas": program}
    locked(base, job, workspace, Part(name="cuda_nvcc", version="12.4.131", files=files))

    with pytest.raises(ToolchainError, match=r"is not CUDA 13\.0"):
        install(workspace)

    assert left_in(workspace) == []


@pytest.mark.parametrize(
    "name", ["nvvm/bin/cicc", "include/crt/host_config.h", "lib/libcudart.so", "bin/ptxas"]
)
def test_refuses_home_without_a_part(
    name: str, workspace: Workspace, job: LockSpec, base: Path
) -> None:
    """CUDA 13 has crt and nvvm in components of their own."""
    parts = (
        dataclasses.replace(part, files={path: part.files[path] for path in {*part.files} - {name}})
        for part in toy_parts()
    )
    locked(base, job, workspace, *parts)

    with pytest.raises(ToolchainError, match="is no whole toolkit") as caught:
        install(workspace)

    assert name in caught.value.why
    assert left_in(workspace) == []


def test_goes_on_after_interruption(
    workspace: Workspace, job: LockSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_locks((job,), workspace)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            install(workspace)
    assert left_in(workspace) == []

    assert (install(workspace).home / "bin" / "nvcc").is_file()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


_CHILD = """
import sys
from pathlib import Path
from cuwheel.base.errors import CuwheelError
from tests.build.toolchains import test_from_redist as module
from tests.support.factories import make_workspace
workspace = make_workspace(Path(sys.argv[1]), cache=Path(sys.argv[2]))
try:
    print(module.install(workspace).home.name)
except CuwheelError as error:
    print(type(error).__name__, error.what)
print("left:", [path.name for path in module.left_in(workspace)])
"""


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(word) for word in words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.e2e
@pytest.mark.parametrize("size", ["3m", "9m"], ids=["downloading", "unpacking"])
def test_names_disk_that_is_full(
    size: str, workspace: Workspace, job: LockSpec, base: Path, tmp_path: Path
) -> None:
    """Noise fills the disk as a download, zeros only once they are unpacked."""
    require("namespaces", "the error of an installation on a full disk")
    (tmp_path / "big").write_bytes(noise(4 << 20) if size == "3m" else bytes(20 << 20))
    files: dict[str, Entry] = {"lib/big": Copy(source=tmp_path / "big")}
    locked(base, job, workspace, Part(name="libbig", version="1.0", files=files))
    small = tmp_path / "small"
    small.mkdir()
    inside = f'mount -t tmpfs -o size={size} none {small} && exec "$@"'
    words = (sys.executable, "-c", _CHILD, tmp_path / "run", small)

    output, _ = start("unshare", "-rm", "sh", "-c", inside, "sh", *words).communicate()

    first, *rest = output.splitlines()
    assert first.startswith("DiskFullError")
    assert str(small) in first
    assert rest == ["left: []"]


@pytest.mark.e2e
def test_two_at_once_make_one_home(workspace: Workspace, job: LockSpec, tmp_path: Path) -> None:
    resolve_locks((job,), workspace)
    children = [
        start(sys.executable, "-c", _CHILD, tmp_path / name, workspace.cache) for name in "ab"
    ]

    first, second = (child.communicate()[0].splitlines() for child in children)

    assert first == second
    [home] = left_in(workspace)
    assert first == [home.name, f"left: ['{home.name}']"]


def test_names_ways_out_where_nothing_answers(
    workspace: Workspace, job: LockSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_locks((job,), workspace)
    monkeypatch.setenv(MIRROR_VARIABLE, "http://me:secret@127.0.0.1:9/compute")

    with pytest.raises(DownloadError) as caught:
        install(workspace)

    assert "127.0.0.1:9/compute" in caught.value.why
    assert "secret" not in str(caught.value)
    assert MIRROR_VARIABLE in caught.value.fix
    assert left_in(workspace) == []


def test_takes_archives_of_a_mirror(
    workspace: Workspace, job: LockSpec, base: Path, tmp_path: Path
) -> None:
    """As `nox -s mirror` writes them: by hash, without NVIDIA's folders."""
    resolve_locks((job,), workspace)
    for archive in read_redist_lock(job.lock).archives:
        place = tmp_path / "mirror" / "downloads" / archive.sha256
        place.mkdir(parents=True)
        (base / archive.path).rename(place / archive.file_name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DOWNLOADS_MIRROR, (tmp_path / "mirror").as_uri())
        home = install(workspace, offline=True).home

    assert (home / "bin" / "nvcc").is_file()


def test_offline_needs_the_files(workspace: Workspace, job: LockSpec, base: Path) -> None:
    resolve_locks((job,), workspace)
    base.rename(base.with_name("gone"))
    base.mkdir()

    with pytest.raises(DownloadError) as caught:
        install(workspace, offline=True)

    assert caught.value.fix.startswith("run without --offline, or set CUWHEEL_REDIST_MIRROR")


def test_refuses_mirror_that_is_no_address(
    workspace: Workspace, job: LockSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "files.example/compute")

    with pytest.raises(UsageError, match=MIRROR_VARIABLE):
        resolve_locks((job,), workspace)


def test_says_how_to_get_a_lock(workspace: Workspace) -> None:
    unknown = dataclasses.replace(TOOLKIT, release="13.9")

    with pytest.raises(LockError) as caught:
        provide_toolchain(unknown, "redist", workspace)

    assert "envs/cuda139/redist.lock" in caught.value.why
    assert "nox -s lock -- toolchain:139:redist" in caught.value.fix


def test_input_without_lock_isnt_passed_over(workspace: Workspace, job: LockSpec) -> None:
    with pytest.raises(LockError, match="is missing") as caught:
        install(workspace)

    assert caught.value.fix == job.command


def test_notices_changed_input(workspace: Workspace, job: LockSpec) -> None:
    resolve_locks((job,), workspace)
    assert isinstance(job.source, Path)
    job.source.write_text(job.source.read_text().replace(",cuda_cudart", ""))

    with pytest.raises(LockError, match="can't be used") as caught:
        install(workspace)

    assert "redist.in has changed" in caught.value.why
    assert faults_of_redist_lock(job.lock, job.source) == [
        "its input has changed since it was written"
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cuda_nvcc 13.0.88", "cuda_nvcc 13.0.89", "edited by hand"),
        ("redist/cuda_nvcc/", "redist/../../", "this line isn't"),
        ("cuda/redist/cuda_nvcc/", "/cuda/redist/cuda_nvcc/", "this line isn't"),
        ("cuda/redist/cuda_nvcc", "https://evil.invalid/cuda_nvcc", "this line isn't"),
        (".tar.xz", ".tar.xz --extra", "this line isn't"),
    ],
)
def test_refuses_changed_lock(
    old: str, new: str, words: str, workspace: Workspace, job: LockSpec
) -> None:
    resolve_locks((job,), workspace)
    text = job.lock.read_text()
    assert old in text
    job.lock.write_text(text.replace(old, new, 1))

    with pytest.raises(LockError, match="can't be used") as caught:
        install(workspace)

    assert words in caught.value.why


@pytest.mark.parametrize("text", ["", "a binary \0\n", "cuda\n"])
def test_refuses_what_is_no_lock(text: str, workspace: Workspace, job: LockSpec) -> None:
    job.lock.write_text(text)

    with pytest.raises(LockError, match="can't be used"):
        install(workspace)


@pytest.mark.parametrize(
    "line",
    [
        "cuda==13.0.2",
        "cuda[cuda_nvcc]",
        "cuda[cuda_nvcc]>=13",
        "cuda[]==13.0.2",
        "cuda[../x]==13.0.2",
        "../cuda[cuda_nvcc]==13.0.2",
        "cuda[cuda_nvcc]==13.0.2 ; python_version > '3'",
    ],
)
def test_refuses_bad_input(line: str, workspace: Workspace, job: LockSpec) -> None:
    assert isinstance(job.source, Path)
    job.source.write_text(f"{line}\n")

    with pytest.raises(LockError, match="can't be read") as caught:
        resolve_locks((job,), workspace)

    assert line in caught.value.why


def test_refuses_input_without_cuda(workspace: Workspace, job: LockSpec) -> None:
    assert isinstance(job.source, Path)
    job.source.write_text("cudnn[cudnn]==9.13.0\n")

    with pytest.raises(LockError, match="names no release of CUDA"):
        resolve_locks((job,), workspace)


def test_names_nearest_component(workspace: Workspace, job: LockSpec) -> None:
    assert isinstance(job.source, Path)
    job.source.write_text("cuda[cuda_nvc]==13.0.2\n")

    with pytest.raises(LockError, match="has no component cuda_nvc ") as caught:
        resolve_locks((job,), workspace)

    assert caught.value.why == 'did you mean "cuda_nvcc"?'


def test_says_that_there_is_no_such_release(workspace: Workspace, job: LockSpec) -> None:
    assert isinstance(job.source, Path)
    job.source.write_text("cuda[cuda_nvcc]==13.0.9\n")

    with pytest.raises(DownloadError, match=r"manifest of cuda 13\.0\.9") as caught:
        resolve_locks((job,), workspace)

    assert "redistrib_13.0.9.json" in caught.value.why


MANIFESTS: dict[str, object] = {
    "another release": {"release_label": "13.0.1"},
    "another product": {"release_product": "cudnn"},
    "component is a text": {"cuda_nvcc": "13.0.88"},
    "no version": {"cuda_nvcc": {OWN: {"relative_path": "a/b.tar.xz", "sha256": "0" * 64}}},
    "no hash": {"cuda_nvcc": {"version": "13.0", OWN: {"relative_path": "a/b.tar.xz"}}},
    "hash is a number": {
        "cuda_nvcc": {"version": "13.0", OWN: {"relative_path": "a/b.tar.xz", "sha256": 5}}
    },
    "short hash": {
        "cuda_nvcc": {"version": "13.0", OWN: {"relative_path": "a/b.tar.xz", "sha256": "0" * 63}}
    },
    "path leads up": {
        "cuda_nvcc": {
            "version": "13.0",
            OWN: {"relative_path": "../b.tar.xz", "sha256": "0" * 64},
        }
    },
    "two lines": {
        "cuda_nvcc": {
            "version": "13.0\nx",
            OWN: {"relative_path": "a/b.tar.xz", "sha256": "0" * 64},
        }
    },
    "platform is a list": {"cuda_nvcc": {"version": "13.0", OWN: ["a/b.tar.xz"]}},
    "negative size": {
        "cuda_nvcc": {
            "version": "13.0",
            OWN: {"relative_path": "a/b.tar.xz", "sha256": "0" * 64, "size": "-1"},
        }
    },
}


@pytest.mark.parametrize("changes", MANIFESTS.values(), ids=MANIFESTS)
def test_refuses_bad_manifest(
    changes: dict[str, object], workspace: Workspace, job: LockSpec, base: Path
) -> None:
    path = write_release(base, toy_parts())
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    with pytest.raises(LockError):
        resolve_locks((job,), workspace)

    assert not job.lock.exists()


@pytest.mark.parametrize("text", ["", "<html>", "[]", "[" * 5000, '"cuda"'])
def test_refuses_what_is_no_manifest(
    text: str, workspace: Workspace, job: LockSpec, base: Path
) -> None:
    write_release(base, toy_parts()).write_text(text)

    with pytest.raises(LockError, match="is not the manifest"):
        resolve_locks((job,), workspace)


def test_reads_manifest_that_names_no_release(
    workspace: Workspace, job: LockSpec, base: Path
) -> None:
    path = write_release(base, toy_parts())
    manifest = json.loads(path.read_text())
    named = {key: value for key, value in manifest.items() if not key.startswith("release_")}
    path.write_text(json.dumps({"release_date": "2022-10-03", **named}))

    resolve_locks((job,), workspace)

    assert install(workspace).version == "13.0.88"


def test_takes_archive_for_this_cuda(workspace: Workspace, job: LockSpec, base: Path) -> None:
    """cuDNN has one for each major release."""
    entries = {
        f"cuda{major}": {
            "relative_path": f"cudnn/{OWN}/cudnn-{OWN}-9.13.0.50_cuda{major}-archive.tar.xz",
            "sha256": str(major)[-1] * 64,
        }
        for major in (12, 13)
    }
    document = {"release_label": "9.13.0", "release_product": "cudnn"}
    folder = base / "cudnn" / "redist"
    folder.mkdir(parents=True)
    cudnn = {"version": "9.13.0.50", "cuda_variant": ["12", "13"], OWN: entries}
    (folder / "redistrib_9.13.0.json").write_text(json.dumps({**document, "cudnn": cudnn}))
    assert isinstance(job.source, Path)
    with job.source.open("a") as stream:
        stream.write("cudnn[cudnn]==9.13.0\n")

    resolve_locks((job,), workspace)

    [archive] = [item for item in read_redist_lock(job.lock).archives if item.name == "cudnn"]
    assert archive.sha256 == "3" * 64
    assert archive.path.startswith("cudnn/redist/cudnn/")


def test_verifies_every_file(workspace: Workspace, job: LockSpec, base: Path) -> None:
    path = write_release(base, toy_parts())
    manifest = json.loads(path.read_text())
    del manifest["cuda_nvcc"][OWN]["size"]
    path.write_text(json.dumps(manifest))
    resolve_locks((job,), workspace)
    [before] = [item for item in read_redist_lock(job.lock).archives if not item.size]

    [files] = verify_locks((job,), workspace)

    lock = read_redist_lock(job.lock)
    assert "every hash and size verified" in lock.files
    assert {file.size for file in files} == {archive.size for archive in lock.archives}
    assert 0 not in {archive.size for archive in lock.archives}
    assert before.sha256 in {archive.sha256 for archive in lock.archives}
    key = install(workspace).home.name
    assert key == install(later(workspace)).home.name


def test_verification_finds_other_file(workspace: Workspace, job: LockSpec, base: Path) -> None:
    resolve_locks((job,), workspace)
    text = job.lock.read_text()
    [archive] = base.rglob(f"cuda_cudart-{SBSA}*")
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))

    with pytest.raises(HashMismatchError):
        verify_locks((job,), workspace)

    assert job.lock.read_text() == text


def test_verification_finds_other_manifest(workspace: Workspace, job: LockSpec, base: Path) -> None:
    resolve_locks((job,), workspace)
    replace_archive(base, "cuda_cudart", b"other")

    with pytest.raises(HashMismatchError, match="is not as NVIDIA's manifest") as caught:
        verify_locks((job,), workspace)

    assert f"cuda_cudart-{OWN}" in caught.value.why


def test_verifies_what_the_cache_has_offline(workspace: Workspace, job: LockSpec) -> None:
    resolve_locks((job,), workspace)
    verify_locks((job,), workspace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MIRROR_VARIABLE, "http://127.0.0.1:9")

        [files] = verify_locks((job,), workspace, offline=True)

    assert len(files) == 2 * len(toy_parts())


@pytest.mark.parametrize("path", LOCKS, ids=[path.parent.name for path in LOCKS])
def test_own_lock_is_of_the_releases_in_the_table(path: Path) -> None:
    """Of both platforms, and of the libraries that wheels are tagged and audited for."""
    lock = read_redist_lock(path)
    toolkit = toolkit_by_release(path.parent.name.removeprefix("cuda"))
    names = {platform: set[str]() for platform in PLATFORMS.values()}
    for archive in lock.archives:
        names[archive.platform].add(archive.name)
    versions = {archive.name.removeprefix("lib"): archive.version for archive in lock.archives}
    minors = {name: ".".join(versions[name].split(".")[:2]) for name, _ in toolkit.libraries}

    assert names[OWN] == names[SBSA]
    assert names[OWN] == {
        name for line in read_products(path.with_name("redist.in")) for name in line.components
    }
    assert minors == dict(toolkit.libraries)
    assert versions["cuda_nvcc"].startswith(f"{toolkit.release}.")
    assert "://" not in path.read_text()
