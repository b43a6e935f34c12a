"""One module for each session: what it understands behind `--`, and what it does.

Called by `dispatch`, which imports the one that is asked for, and by the reference pages. Face: of
the session `lock-check`, `lock_check_parser()` and `run_lock_check(given, console)`. The
folders are the tags of the sessions, as `nox -t` has them.
"""
