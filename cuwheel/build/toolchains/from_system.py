"""The toolchain that the machine has: a toolkit of NVIDIA's, its distribution's, or conda's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.errors import ToolchainError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.toolchains.cuda_home import check_version
from cuwheel.build.toolchains.linked_home import is_one_folder, link_home, part_in, parts_of
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.installed_toolkits import InstalledToolkit, header_release
from cuwheel.check.cuda.toolkit_search import HOMES, find_toolkits
from cuwheel.check.cuda.toolkits import Toolkit

# Files that decide on compiled code and that no dependency file names: nvcc's programs
# (`nvcc --dryrun`), its settings, and NVIDIA's bitcode. Distributions pack them one by one.
_COMPILING = (
    *("bin/nvcc", "bin/nvcc.profile", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/nvlink"),
    *("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"),
)
_LAYOUT = 1  # raise it when a home of links made by an older cuwheel must not be reused
_WITHOUT = "run without `--toolchain system`"
# What brings a part: of Debian and Ubuntu, and of NVIDIA's packages with their release.
_DEBIAN_PACKAGES = {"nvcc": "nvidia-cuda-toolkit", "ptxas": "nvidia-cuda-toolkit"}
_NVIDIA_PACKAGES = {"nvcc": "cuda-nvcc", "ptxas": "cuda-nvcc"}


def system_toolchain(
    toolkit: Toolkit, workspace: Workspace, environ: Mapping[str, str], root: Path = Path("/")
) -> Toolchain:
    """Return the machine's toolkit of a release; one that isn't in one folder by a home of links.

    Args:
        environ: as for `find_toolkits`; `CUDA_HOME`, otherwise `CUDA_PATH`, chooses.
        root: the machine's root folder.

    Raises:
        ToolchainError: the machine has none of this release, or none that is complete.
    """
    toolkits = find_toolkits(environ, root)
    chosen = choose_toolkit(toolkits, toolkit.release, environ)
    home = chosen.home
    linked = not is_one_folder(chosen)
    if linked:
        home = _make_home(chosen, toolkit, workspace, root)
    others = "; ".join(str(each) for each in toolkits if each is not chosen)
    workspace.console.note(
        f"toolkit: {chosen}, by {', '.join(chosen.found)}"
        + f" (also here: {others})" * bool(others)
    )
    fix = f"point CUDA_HOME at a complete CUDA {toolkit.release}, or {_WITHOUT}"
    version = check_version(home, toolkit.release, str(chosen.home), fix=fix)
    return Toolchain(
        home=home,
        version=version,
        provider="system",
        fingerprint=_fingerprint(chosen, root),
        pinned=False,
        linked=(chosen.home, *_beside(chosen)) if linked else (),
    )


def warn_of_other_headers(
    release: str, workspace: Workspace, include: Path = Path("/usr/include")
) -> None:
    """Warn of a distribution's CUDA headers of another release, which compilers always search."""
    other = header_release(include)
    if other not in {"", release}:
        workspace.console.warn(
            f"{include} has headers of CUDA {other}: one that the toolkit of CUDA {release} lacks "
            "is taken from there. If nothing else needs them: apt-get remove nvidia-cuda-dev"
        )


def identify_system(release: str, environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """Return the folder and fingerprint of the machine's toolkit; empty: it has no fitting one."""
    try:
        chosen = choose_toolkit(find_toolkits(environ, root), release, environ)
        return f"{chosen.home} {_fingerprint(chosen, root)}"
    except ToolchainError:
        return ""


def choose_toolkit(
    toolkits: tuple[InstalledToolkit, ...], release: str, environ: Mapping[str, str]
) -> InstalledToolkit:
    """Return the first complete toolkit of a release that `CUDA_HOME` allows.

    Raises:
        ToolchainError: there is none.
    """
    named = next((name for name in HOMES if environ.get(name)), "")
    fitting = [each for each in toolkits if each.release == release]
    allowed = [each for each in fitting if not named or named in each.found]
    complete = [each for each in allowed if not _fault_of(each)]
    if complete:
        return complete[0]
    if allowed:
        raise ToolchainError(
            f"{allowed[0]} is not complete",
            why=_fault_of(allowed[0]),
            fix=f"{_completion(allowed[0])}, or {_WITHOUT}",
        )
    if named:
        raise _named_error(named, environ[named], release, toolkits)
    raise ToolchainError(
        f"this machine has no CUDA {release}",
        why=f"it has {'; '.join(map(str, toolkits))}"
        if toolkits
        else "no nvcc is on PATH, in /usr/local/cuda*, /opt/cuda, NVIDIA's HPC SDK, the active "
        "conda environment, or a folder that CUDA_HOME or a module names",
        fix=f"set CUDA_HOME to a CUDA {release}, or {_WITHOUT}",
    )


def _named_error(
    name: str, value: str, release: str, toolkits: tuple[InstalledToolkit, ...]
) -> ToolchainError:
    chosen = next((each for each in toolkits if name in each.found), None)
    fault = f" ({chosen.fault})" if chosen and chosen.fault else ""
    why = f"{name}={value} is {chosen}{fault}" if chosen else f"{name}={value} has no bin/nvcc"
    other = next((each for each in toolkits if each.release == release and not each.lacks), None)
    return ToolchainError(
        f"{name} is not CUDA {release}",
        why=why,
        fix=f"set {name}={other.home}, or {_WITHOUT}"
        if other
        else f"set {name} to a CUDA {release}, or {_WITHOUT}",
    )


def _fault_of(toolkit: InstalledToolkit) -> str:
    if toolkit.lacks:
        return f"it lacks {', '.join(toolkit.lacks)}"
    if toolkit.header_release not in {"", toolkit.release}:
        return f"its headers in {toolkit.headers} are those of CUDA {toolkit.header_release}"
    return ""


def _completion(toolkit: InstalledToolkit) -> str:
    lacks = toolkit.lacks or ("headers",)
    if toolkit.kind == "debian":
        names = {_DEBIAN_PACKAGES.get(part, "nvidia-cuda-dev") for part in lacks}
        return f"apt-get install {' '.join(sorted(names))}"
    if toolkit.kind == "conda":
        return f"conda install -c conda-forge cuda-toolkit={toolkit.release}"
    release = toolkit.release.replace(".", "-")
    names = {f"{_NVIDIA_PACKAGES.get(part, 'cuda-cudart-dev')}-{release}" for part in lacks}
    return f"install NVIDIA's {' and '.join(sorted(names))}"


def _make_home(
    chosen: InstalledToolkit, toolkit: Toolkit, workspace: Workspace, root: Path
) -> Path:
    parts = parts_of(chosen, root)
    lines = (f"{name} {path}" for name, path in parts.items())
    key = hashlib.sha256("\n".join((str(_LAYOUT), *lines)).encode()).hexdigest()[:16]
    folder = workspace.cache / "toolchains" / f"cuda{toolkit.tag}-system-{key}"

    def make(aside: Path) -> dict[str, str]:
        link_home(aside, parts)
        return {}

    return obtain(folder, make, workspace).folder


def _beside(toolkit: InstalledToolkit) -> tuple[Path, ...]:
    """Return the folders of the HPC SDK that its home of links leads to."""
    if toolkit.kind != "hpc":
        return ()
    sdk = toolkit.home.parents[1]
    return tuple(path for path in (sdk / "math_libs", sdk / "comm_libs") if path.is_dir())


def _fingerprint(toolkit: InstalledToolkit, root: Path) -> str:
    """Return the SHA-256 of all files but headers that decide on compiled code."""
    if is_one_folder(toolkit):
        files = [toolkit.home / name for name in _COMPILING]
    else:
        parts = parts_of(toolkit, root)
        files = [part_in(parts, name) or Path(name) for name in _COMPILING]
    digests = [sha256_of_file(file) if file.is_file() else "missing" for file in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
