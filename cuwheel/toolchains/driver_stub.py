"""What stands in for NVIDIA's driver where a linker, or a loader without a GPU, asks for it.

NVIDIA's wheels hold no stub of the driver, and those of its other packages stay out of this: ours
is made from the names in `cuwheel.cuda.driver_functions`. Each of its functions gives
`CUDA_ERROR_STUB_LIBRARY`, 34 (CUDA driver API, `CUresult`).
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cuda.driver_functions import functions_of
from cuwheel.cuda.suppliers import DRIVER_SONAME
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_bytes
from cuwheel.workspace.records import Toolchain

if TYPE_CHECKING:
    from cuwheel.workspace.job import Job


_SOURCE = "int stub(void) { return 34; }\n"
# It needs nothing, not even the C library; nothing in it tells when or where it was made.
_OPTIONS = ("-shared", "-fPIC", "-nostdlib", "-s", f"-Wl,-soname,{DRIVER_SONAME},--build-id=none")


@functools.cache  # a build and its smoke test each want it
def compile_driver_stub(release: str, cc: Path) -> bytes:
    """Compile a `libcuda.so` with all functions of the driver of a CUDA release, and no code.

    Args:
        release: `13.0`.
        cc: a GCC's C compiler.

    Raises:
        CommandFailedError: it doesn't compile.
    """
    alias = '__attribute__((alias("stub")))'
    names = (f"int {name}(void) {alias};\n" for name in functions_of(release))
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "stub.c"), Path(folder, "libcuda.so")
        source.write_text(_SOURCE + "".join(names))
        run([cc, *_OPTIONS, "-o", library, source], env={"PATH": SYSTEM_PATH, "LC_ALL": "C"})
        return read_bytes(library)


def driver_stub_of(job: Job) -> bytes | None:
    """The stub of a target's CUDA release; None where the machine has nothing to compile it with.

    Any GCC will do: the toolchain's, else the machine's first.
    """
    workspace = job.workspace
    own = workspace.load("toolchain", Toolchain).cc if workspace.has("toolchain") else None
    found = [*([own] if own else []), *(compiler.cc for compiler in job.machine.compilers)]
    return compile_driver_stub(job.target.toolkit.release, found[0]) if found else None
