"""Loads `libbitsandbytes_cuda<version>.so` where a GPU is, as bitsandbytes does."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

__version__ = "0.49.0.dev0"

_FOLDER = Path(__file__).parent


def available() -> list[str]:
    """The CUDA versions that there is a library for: `["130"]`."""
    prefix, suffix = "libbitsandbytes_cuda", ".so"
    names = [path.name for path in _FOLDER.glob(f"{prefix}*{suffix}")]
    return sorted(name.removeprefix(prefix).removesuffix(suffix) for name in names)


def load() -> ctypes.CDLL:
    """The library that `BNB_CUDA_VERSION` names, or the only one."""
    version = os.environ.get("BNB_CUDA_VERSION") or available()[0]
    path = _FOLDER / f"libbitsandbytes_cuda{version}.so"
    if not path.exists():
        raise RuntimeError(f"{path.name} isn't there; available: {', '.join(available())}")
    return ctypes.CDLL(str(path))


library = load() if Path("/dev/nvidia0").exists() else None
