"""Why a log ends badly: the failure catalogue, and what reads a log by it.

Called by the session `explain`, and by `__main__` when a build fails. Face:
`explanation.Explainer`, `session`. The catalogue is `failures/*.yaml`.
"""
