"""File formats of wheels and of CUDA's machine code, and keys that sign."""

__all__ = ["binaries", "signing_keys", "wheel"]
