"""The nightly cycle: update, diagnose, build what is due, smoke, perf, and a report of it all.

Called by the session `nightly`. Face: `session.nightly_session`, `session.NightlyOptions`.
"""
