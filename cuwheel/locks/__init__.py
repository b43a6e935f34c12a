"""Which locks there are, making and checking them, and a folder of all that they name.

Called by the sessions `lock`, `lock-check`, `lock-verify` and `mirror`. Face: `resolve.lock`,
`jobs.check_locks`, `mirror.mirror`.
"""
