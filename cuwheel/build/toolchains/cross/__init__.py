"""Builds for another kind of machine: its root folder, its packages, its programs under QEMU."""

__all__ = ["emulation", "packages", "root_libraries", "target_root"]
