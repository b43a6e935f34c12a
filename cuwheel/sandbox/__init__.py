"""Programs that see only what they were given.

Called by whoever runs a package's own code. Face: `backends.choose_sandbox`, `path_map` (builds),
`confinement` (all else), `unix_server` (what a program inside may ask for).
"""
