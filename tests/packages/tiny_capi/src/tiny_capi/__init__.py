"""A CUDA kernel behind Python's C API."""

from tiny_capi._native import add_one, answer, source

__all__ = ["add_one", "answer", "source"]
__version__ = "1.0.0"
