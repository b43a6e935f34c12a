"""Sessions that keep recipes, locks, caches and pages as they should be.

Each module has a `…_parser` and a `run_…` for each of its sessions; `cli/dispatch` finds them.
"""
