"""Two wheels compared, and what makes them differ, down to one kernel's instructions.

Called by `verify`. Face: `wheel.compare`, `report.print_comparison`.
"""
