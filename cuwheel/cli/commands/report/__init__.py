"""Sessions that read wheels, machines or logs, and say what is wrong.

Each module has a `…_parser` and a `run_…` for each of its sessions; `cli/dispatch` finds them.
"""
