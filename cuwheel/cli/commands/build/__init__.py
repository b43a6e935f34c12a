"""Sessions that build wheels.

Each module has a `…_parser` and a `run_…` for each of its sessions; `cli/dispatch` finds them.
"""
