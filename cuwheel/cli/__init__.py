"""The commands behind the nox sessions.

Called by `__main__`. Face: `commands.COMMANDS`. In it: `options/` (argparse) and `reference/`
(the pages that are generated from the code).
"""
