"""Where a build's time and memory went, read from its event log.

Called by the session `profile`. Face: `report.write_profile`, `report.print_profile`.
"""
