"""Whether GPU packages work on this machine, and if not, why.

Called by the session `diagnose`. `facts/` asks the machine, `rules/` make verdicts of that. Face:
`session.diagnose_session`, `verdict`.
"""
