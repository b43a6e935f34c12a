"""The commands behind the nox sessions, and the parts of command lines that they share.

`commands/` has the sessions, `reference/` writes the pages generated from the code.
"""
