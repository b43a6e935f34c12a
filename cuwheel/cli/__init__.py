"""The commands behind the nox sessions.

Called by `__main__`. Face: `dispatch.run_command`. In it: `commands/` (the sessions' options, and
what they do) and `reference/` (the pages that are generated from the code).
"""
