"""The package index: uv, indexes, locks of wheels, which wheel fits.

Called by `locks`, `toolchains` and the stages. Face: `uv`, `indexes`, `lock_file`,
`wheel_selection`.
"""
