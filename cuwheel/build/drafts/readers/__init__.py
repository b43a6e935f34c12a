"""Readers of a source's files (metadata, Python, CMake) that run none of them."""

__all__ = ["facts", "survey"]
