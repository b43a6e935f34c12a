"""Check an installed wheel of the bitsandbytes stand-in on a GPU; prints one JSON object.

Run by hand on a machine with a GPU: `python tests/gpu/check_bitsandbytes_standin.py`. It needs the
wheel and NVIDIA's libraries for it, nothing else. Results are recorded in docs/results.md.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

COUNT = 1 << 16  # numbers
SCALE = 0.5  # a power of two: the products are exact


def dequantize(library: ctypes.CDLL) -> int:
    """How many of the numbers come back wrong; -1 where CUDA reports an error."""
    values = (ctypes.c_int8 * COUNT)(*(i % 256 - 128 for i in range(COUNT)))
    made = (ctypes.c_float * COUNT)()
    library.dequantize_on_device.argtypes = [
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int)
    ]
    if library.dequantize_on_device(values, made, SCALE, COUNT):
        return -1
    return sum(is_ != SCALE * value for is_, value in zip(made, values, strict=True))


def loaded_from() -> dict[str, str]:
    """Where each of NVIDIA's libraries in this process came from."""
    maps = Path("/proc/self/maps").read_text().split()
    return {Path(path).name: path for path in maps if "/nvidia/" in path or "libcuda.so" in path}


def gpu() -> str:
    """Name of the GPU and version of its driver, in the driver's own words."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Print what was found; 1 where something is wrong."""
    os.environ["BNB_CUDA_VERSION"] = sys.argv[1] if len(sys.argv) > 1 else "130"
    import bitsandbytes  # noqa: PLC0415 - it loads its library now

    wrong = dequantize(bitsandbytes.library)
    found = {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "gpu": gpu(),
        "wheel": bitsandbytes.__version__,
        "libraries answer": bool(bitsandbytes.library.libraries_answer()),
        "wrong numbers": wrong,
        "of": COUNT,
        "libraries": loaded_from(),
    }
    print(json.dumps(found, indent=2))  # noqa: T201 - its answer
    return int(wrong != 0 or not found["libraries answer"])


if __name__ == "__main__":
    sys.exit(main())
