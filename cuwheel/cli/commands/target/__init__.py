"""Sessions that try, compare or measure the wheel of one target.

Each module has a `…_parser` and a `run_…` for each of its sessions; `cli/dispatch` finds them.
"""
