"""Debian packages by hash: locks of them, solved by apt, unpacked anywhere without root or dpkg."""

__all__ = ["archives", "install", "lock_file", "solve", "source_file"]
