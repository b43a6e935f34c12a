"""File formats of wheels and of CUDA's machine code."""

__all__ = ["binaries", "wheel"]
