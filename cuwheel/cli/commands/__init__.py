"""One module for each session or a few that belong together, each with its parser and its run.

`dispatch` imports them; a session `lock-check` has `lock_check_parser()` and `run_lock_check(args,
console)`.
"""
