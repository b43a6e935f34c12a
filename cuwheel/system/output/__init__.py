"""Where text goes: a terminal, a log, GitHub Actions; what moves there while something runs.

Called by `system/console` and by whoever prints a report. Face: `terminal.report_terminal`.
"""
