"""The toolchain that the machine has: a toolkit of NVIDIA's or of its distribution."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.errors import ToolchainError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.toolchains.cuda_home import check_version
from cuwheel.build.workspace.records import Toolchain
from cuwheel.check.cuda.toolkits import Toolkit

# Files that decide on compiled code and that no dependency file names: nvcc's programs
# (`nvcc --dryrun`), its settings, and NVIDIA's bitcode. Distributions pack them one by one.
_COMPILING = (
    *("bin/nvcc", "bin/nvcc.profile", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/nvlink"),
    *("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"),
)


def system_toolchain(toolkit: Toolkit, environ: Mapping[str, str]) -> Toolchain:
    """Return the toolkit that the machine has.

    Raises:
        ToolchainError: it has none, or another release.
    """
    home, homes = find_system_home(toolkit.release, environ)
    if home is None:
        raise ToolchainError(
            "no CUDA toolkit was found on this machine",
            why=f"searched for bin/nvcc in {', '.join(map(str, homes))}",
            fix="set CUDA_HOME to the toolkit, or run without `--toolchain system`",
        )
    fix = (
        f"point CUDA_HOME at a complete CUDA {toolkit.release}, or run without `--toolchain system`"
    )
    version = check_version(home, toolkit.release, str(home), fix=fix)
    return Toolchain(
        home=home.resolve(),
        version=version,
        provider="system",
        fingerprint=identify_home(home),
        pinned=False,
    )


def find_system_home(release: str, environ: Mapping[str, str]) -> tuple[Path | None, list[Path]]:
    """Return the toolkit on the machine, and the folders that were searched.

    Args:
        release: `13.0`.
        environ: `CUDA_HOME`, else `CUDA_PATH`, names the folder; nothing else is tried then.
    """
    named = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    paths = [named] if named else [f"/usr/local/cuda-{release}", "/usr/local/cuda"]
    homes = [Path(path) for path in paths]
    return next((home for home in homes if (home / "bin" / "nvcc").exists()), None), homes


def identify_home(home: Path) -> str:
    """Return the SHA-256 of all files but headers that decide on compiled code."""
    files = [home / name for name in _COMPILING]
    digests = [sha256_of_file(file) if file.is_file() else "missing" for file in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
