"""The package's source: pinned, fetched, unpacked, copied, patched.

Called by the stages `source` and `patch`, and by `mirror`. Face: `pinned.fetch_pinned`,
`archives.unpack`, `tree.copy_source`, `patches.try_patch`.
"""
