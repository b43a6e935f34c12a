"""NVIDIA's redistributable archives: made by hand, or of the files of its CUDA 13.0 wheels."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.packages.cuda_packages import Wheels
from tests.support.toolchains.channel import Copy, Entry, Link, Text

RELEASE = "13.0.2"
OWN, SBSA = "linux-x86_64", "linux-sbsa"

# NVIDIA's names of the components whose files these wheels hold.
_COMPONENTS = {
    "nvidia_cuda_nvcc": "cuda_nvcc",
    "nvidia_cuda_crt": "cuda_crt",
    "nvidia_nvvm": "libnvvm",
    "nvidia_cuda_runtime": "cuda_cudart",
    "nvidia_cuda_cccl": "cuda_cccl",
    "nvidia_cuda_culibos": "cuda_culibos",
    "nvidia_cublas": "libcublas",
}
_PROGRAMS = ("bin/", "nvvm/bin/")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A component, and what its archive holds below the top folder.

    Attributes:
        top: name of that folder; empty for the archive's own.
    """

    name: str
    version: str
    files: Mapping[str, Entry] = field(default_factory=dict)
    top: str = ""


def toy_parts() -> tuple[Part, ...]:
    """A compiler that says which one it is, and a library: as little as makes a CUDA home."""
    program = Text(
        content="#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n",
        executable=True,
    )
    library: dict[str, Entry] = {
        "lib/libcudart.so.13.0.96": Text(content="library"),
        "lib/libcudart.so.13": Link(target="libcudart.so.13.0.96"),
        "lib/libcudart.so": Link(target="libcudart.so.13"),
        "lib/stubs/libcuda.so": Text(content="stub"),
    }
    return (
        Part(
            name="cuda_nvcc",
            version="13.0.88",
            files={
                **{f"bin/{name}": program for name in ("nvcc", "ptxas", "nvlink")},
                "nvvm/bin/cicc": program,
                "include/crt/host_config.h": Text(content=""),
            },
        ),
        Part(
            name="cuda_cudart",
            version="13.0.96",
            files={**library, "include/cuda_runtime.h": Text(content="")},
        ),
    )


def parts_of_wheels(home: Path) -> Iterator[Part]:
    """Yield a component for each of NVIDIA's wheels in a CUDA home, in its archive's layout."""
    wheels = Wheels(home)
    for wheel, name in _COMPONENTS.items():
        if wheels.has(wheel):
            version = wheels.version(wheel)
            files = dict(_files(wheels, wheel, version))
            yield Part(name=name, version=version, files=files)


def _files(wheels: Wheels, wheel: str, version: str) -> Iterator[tuple[str, Entry]]:
    for name, path in wheels.files(wheel, ""):
        if name == "bin/nvlink":  # cuwheel's is a script
            yield name, Copy(source=path.with_name("nvlink-real"), executable=True)
        elif ".so." in name:
            plain, _, soname = name.partition(".so.")
            full = f"{plain}.so.{soname}.{version}"
            yield full, Copy(source=path, executable=True)
            yield name, Link(target=Path(full).name)
            yield f"{plain}.so", Link(target=Path(name).name)
        else:
            yield name, Copy(source=path, executable=name.startswith(_PROGRAMS))


def write_release(
    base: Path, parts: Iterable[Part], platforms: Iterable[str] = (OWN, SBSA)
) -> Path:
    """Add archives to a folder and its manifest, as NVIDIA's server has them; give the manifest.

    Args:
        base: the folder that the server calls `compute`.
        parts: replace components of their names, on these platforms.
    """
    folder = base / "cuda" / "redist"
    path = folder / f"redistrib_{RELEASE}.json"
    manifest: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    manifest.update(release_label=RELEASE, release_product="cuda")
    for part in parts:
        described = {**manifest.get(part.name, {}), "version": part.version}
        for platform in platforms:
            archive = write_archive(folder / part.name / platform, part, platform)
            content = archive.read_bytes()
            described[platform] = {
                "relative_path": archive.relative_to(folder).as_posix(),
                "sha256": hashlib.sha256(content).hexdigest(),
                "size": str(len(content)),
            }
        manifest[part.name] = described
    path.write_text(json.dumps(manifest))
    return path


def write_archive(folder: Path, part: Part, platform: str = OWN) -> Path:
    """Write the archive of a component, with a licence as all have one."""
    stem = f"{part.name}-{platform}-{part.version}-archive"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"LICENSE": Text(content=f"licence of {part.name}"), **part.files}
    path = folder / f"{stem}.tar.xz"
    with tarfile.open(path, "w:xz", preset=0) as tar:
        for name, entry in files.items():
            _add(tar, f"{part.top or stem}/{name}", entry)
    return path


def _add(tar: tarfile.TarFile, name: str, entry: Entry) -> None:
    info = tarfile.TarInfo(name)
    if isinstance(entry, Link):
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(info)
        return
    assert isinstance(entry, Copy | Text)
    content = entry.source.read_bytes() if isinstance(entry, Copy) else entry.content.encode()
    info.size, info.mode = len(content), 0o755 if entry.executable else 0o644
    tar.addfile(info, io.BytesIO(content))


def write_input(project: Path, parts: Iterable[Part], tag: str = "130") -> Path:
    """Write the `redist.in` of a project folder that takes all of these components."""
    source = project / "envs" / f"cuda{tag}" / "redist.in"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(f"cuda[{','.join(part.name for part in parts)}]=={RELEASE}\n")
    return source
