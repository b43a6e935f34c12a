"""A kernel, and the C++ standard that its binding was compiled with."""

import torch  # noqa: F401 - its libraries

from tiny_torch._native import add, standard

__all__ = ["add", "standard"]
