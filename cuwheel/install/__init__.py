"""A wheel brought into an environment: chosen, checked, installed, tried, or taken back.

Called by: the session `install`. Face: `session.install`, `statement.check_statement`.
"""
