"""A CUDA home of links, for toolkits of the machine whose parts aren't in one folder.

nvcc takes its home from the path that it is called by, and reads `nvcc.profile` next to that, so a
link to it in a folder with another profile has the home that the profile names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuwheel.base.errors import ToolchainError
from cuwheel.base.system.regular_files import read_json, read_text
from cuwheel.build.toolchains.cuda_home import wrap_nvlink
from cuwheel.check.cuda.installed_toolkits import InstalledToolkit

_PROGRAMS = (
    *("nvcc", "cudafe++", "ptxas", "fatbinary", "nvlink", "bin2c", "crt", "cuobjdump", "nvdisasm"),
    *("nvprune", "cu++filt", "__nvcc_device_query"),
)
# Debian builds the toolkit's packages from one source, and CCCL's from three others.
_DEBIAN_SOURCE = "nvidia-cuda-toolkit"
_DEBIAN_PACKAGES = ("libcu++-dev", "libcub-dev", "libthrust-dev")
# NVIDIA's packages in conda channels: cuda-cudart-dev, libcublas-dev, cudnn.
_CONDA_PACKAGES = re.compile(
    r"(?:cuda|cudnn|nccl|cutensor|cusparselt|libnpp|libnv|libcu(?:blas|dnn|fft|rand|solver|sparse))"
)
_PROFILE = """\
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
{system}LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
"""
_SYSTEM_INCLUDES = 'SYSTEM_INCLUDES += "-isystem" "$(TOP)/include/cccl" $(_SPACE_)\n'


def is_one_folder(toolkit: InstalledToolkit) -> bool:
    """Return True if builds find all in the toolkit's folder under the usual names."""
    home = toolkit.home
    parts = (toolkit.headers, toolkit.libraries, toolkit.nvcc)
    return (
        toolkit.kind not in {"hpc", "conda"}
        and parts == (home / "include", home / "lib64", home / "bin" / "nvcc")
        and (home / "nvvm").is_dir()
    )


def parts_of(toolkit: InstalledToolkit, root: Path = Path("/")) -> dict[str, Path]:
    """Return what a home of links has to contain: names in it, and what they lead to.

    Args:
        root: the machine's root folder.

    Raises:
        ToolchainError: the distribution's package manager doesn't know the toolkit's headers.
    """
    home = toolkit.home
    parts = {f"bin/{name}": home / "bin" / name for name in _PROGRAMS}
    if toolkit.nvcc:
        parts["bin/nvcc"] = toolkit.nvcc
    if (home / "bin" / "nvlink-real").exists():  # already wrapped: `wrap_nvlink`
        parts["bin/nvlink"] = home / "bin" / "nvlink-real"
    if toolkit.kind == "debian":
        parts.update(_debian_parts(toolkit, root))
    else:
        parts.update(_folders(toolkit))
    return {name: path for name, path in sorted(parts.items()) if path.exists()}


def _folders(toolkit: InstalledToolkit) -> dict[str, Path]:
    """Return headers, libraries and nvvm, and what the HPC SDK and conda have apart from them."""
    home = toolkit.home
    nvvm = (home / "nvvm", *sorted((home / "targets").glob("*/nvvm")))
    parts = {"nvvm": next((folder for folder in nvvm if folder.is_dir()), home / "nvvm")}
    if toolkit.kind == "hpc":
        sdk, release = home.parents[1], home.name
        for folder in (sdk / "math_libs" / release, sdk / "comm_libs" / release / "nccl"):
            parts.update(_entries("include", [folder / "include"]))
            parts.update(_entries("lib64", [folder / "lib", folder / "lib64"]))
    if toolkit.kind == "conda":
        parts.update(_conda_parts(home))
    own = {folder for folder in (toolkit.headers, toolkit.libraries) if folder}
    if toolkit.kind == "conda":
        own -= {home / "include", home / "lib"}  # those of all packages
    parts.update(_entries("include", own & {toolkit.headers}))
    parts.update(_entries("lib64", own & {toolkit.libraries}))
    return parts


def _conda_parts(prefix: Path) -> dict[str, Path]:
    """Return what packages of CUDA have outside of `targets`, by their lists in `conda-meta`."""
    parts = {}
    for listed in sorted((prefix / "conda-meta").glob("*.json")):
        record = read_json(listed) or {}
        if not _CONDA_PACKAGES.match(str(record.get("name", ""))):
            continue
        for name in map(str, record.get("files", ())):
            top, _, rest = name.partition("/")
            first = rest.partition("/")[0]
            if top == "include":
                parts[f"include/{first}"] = prefix / "include" / first
            elif top == "lib" and first == rest and rest.startswith("lib"):
                parts[f"lib64/{rest}"] = prefix / "lib" / rest
    return parts


def link_home(folder: Path, parts: Mapping[str, Path]) -> None:
    """Fill an empty folder with `bin`, `include`, `lib64` and `nvvm`, and nvcc's settings."""
    for name, path in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(path)
    system = _SYSTEM_INCLUDES if "include/cccl" in parts else ""
    (folder / "bin" / "nvcc.profile").write_text(_PROFILE.format(system=system))
    wrap_nvlink(folder)


def part_in(parts: Mapping[str, Path], name: str) -> Path | None:
    """Return what a name in the home of links leads to, `nvvm/bin/cicc`; None: nothing."""
    for top in (Path(name), *Path(name).parents):
        if str(top) in parts:
            return parts[str(top)] / Path(name).relative_to(top)
    return None


def _entries(name: str, folders: Iterable[Path]) -> dict[str, Path]:
    """Return the entries of folders; those of folder `stubs` one by one."""
    parts = {}
    for folder in folders:
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if entry.name == "stubs" and entry.is_dir():
                parts.update(_entries(f"{name}/stubs", [entry]))
            else:
                parts[f"{name}/{entry.name}"] = entry
    return parts


def _debian_parts(toolkit: InstalledToolkit, root: Path) -> dict[str, Path]:
    """Return the files of the distribution's packages of CUDA in `/usr`, by their lists."""
    compilers = root / "usr" / "lib" / "nvidia-cuda-toolkit"
    parts = {
        "bin/crt": compilers / "bin" / "crt",
        "nvvm/bin/cicc": compilers / "bin" / "cicc",
        "nvvm/libdevice": compilers / "libdevice",
    }
    include, libraries = root / "usr" / "include", toolkit.libraries or root
    for path in (root / line.lstrip("/") for line in _debian_files(root)):
        if path.is_relative_to(include) and path != include:
            top = path.relative_to(include).parts[0]  # a header, or a whole folder
            parts[f"include/{top}"] = include / top
        elif path.parent in {libraries, libraries / "stubs"} and not path.is_dir():
            parts[f"lib64/{path.relative_to(libraries)}"] = path
    if not any(name.startswith("include/") for name in parts):
        raise ToolchainError(
            f"the headers of {toolkit} can't be told from others in {include}",
            why=f"no package of {_DEBIAN_SOURCE} is in {root / 'var/lib/dpkg/status'}",
            fix="run without `--toolchain system`, or set CUDA_HOME to a toolkit in a folder of "
            "its own",
        )
    return parts


def _debian_files(root: Path) -> Iterator[str]:
    """Yield the paths of all files of packages of CUDA, `/usr/include/cuda.h`."""
    database = root / "var" / "lib" / "dpkg"
    try:
        stanzas = read_text(database / "status", errors="replace").split("\n\n")
    except OSError:
        return
    for stanza in stanzas:
        lines = (line.partition(": ") for line in stanza.splitlines() if line[:1].strip())
        fields = {name: value for name, _, value in lines}
        name = fields.get("Package", "")
        source = fields.get("Source", name).partition(" ")[0]
        if source == _DEBIAN_SOURCE or name in _DEBIAN_PACKAGES:
            for suffix in ("", f":{fields.get('Architecture', '')}"):
                try:
                    listed = read_text(database / "info" / f"{name}{suffix}.list")
                except OSError:
                    continue
                yield from listed.splitlines()
