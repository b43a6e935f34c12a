"""Loads its solvers where a GPU is, as jaxmg does; states no version."""

from __future__ import annotations

import ctypes
from pathlib import Path

_BIN = Path(__file__).parent / "bin"

has_gpu = Path("/dev/nvidia0").exists()
solvers = {path.stem: ctypes.CDLL(str(path)) for path in _BIN.glob("*.so")} if has_gpu else {}
