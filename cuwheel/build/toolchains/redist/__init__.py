"""NVIDIA's redistributable archives: manifests, locks, downloads, and one home of many parts."""

__all__ = ["install", "lock_file", "manifest"]
