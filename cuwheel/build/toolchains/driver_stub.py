"""A stub of NVIDIA's driver, for linkers, and for loaders on machines without a GPU.

NVIDIA's wheels hold no stub of the driver, and those of its other packages are avoided: ours is
made from the names in `cuwheel.check.cuda.driver_functions`. Each of its functions returns
`CUDA_ERROR_STUB_LIBRARY`, 34 (CUDA driver API, `CUresult`).
"""

from __future__ import annotations

import functools
from pathlib import Path

from cuwheel.base.system.compilers import SYSTEM_PATH, find_host_compilers
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Toolchain
from cuwheel.check.cuda.driver_functions import functions_of
from cuwheel.check.cuda.suppliers import DRIVER_SONAME

_SOURCE = "int stub(void) { return 34; }\n"
# It needs nothing, not even the C library, and holds no time or path of the compilation.
_OPTIONS = ("-shared", "-fPIC", "-nostdlib", "-s", f"-Wl,-soname,{DRIVER_SONAME},--build-id=none")


@functools.cache  # a build and its smoke test both need it
def compile_driver_stub(release: str, cc: Path) -> bytes:
    """Compile a `libcuda.so` with all functions of a CUDA release's driver, and no code.

    Raises:
        CommandFailedError: it doesn't compile.
    """
    alias = '__attribute__((alias("stub")))'
    names = (f"int {name}(void) {alias};\n" for name in functions_of(release))
    with temporary_folder() as folder:
        source, library = folder / "stub.c", folder / "libcuda.so"
        source.write_text(_SOURCE + "".join(names))
        run([cc, *_OPTIONS, "-o", library, source], env={"PATH": SYSTEM_PATH, "LC_ALL": "C"})
        return read_bytes(library)


def driver_stub_of(job: Job) -> bytes | None:
    """Return the stub of a target's CUDA release, by any GCC; None without one."""
    workspace = job.workspace
    cc = workspace.load("toolchain", Toolchain).cc if workspace.has("toolchain") else None
    if cc is None:  # a published wheel; with a compiler of a lock, the machine's weren't read
        platform = job.target.platform
        triplet = platform.triplet if platform.is_foreign else ""
        compilers = job.machine.compilers or find_host_compilers({}, triplet)
        cc = compilers[0].cc if compilers else None
    return compile_driver_stub(job.target.toolkit.release, cc) if cc else None
