"""Debian packages by hash: locks of them, solved by apt, unpacked anywhere without root or dpkg."""

__all__ = ["lock_file", "mirrors", "solve", "source_file"]
