"""Which locks there are, making and checking them, and a folder of all that they name.

Called by the sessions `lock`, `lock-check`, `lock-verify` and `mirror`. Face:
`resolve.resolve_locks`, `resolve.find_faults`, `resolve.verify_locks`, `mirror.mirror`.
"""
