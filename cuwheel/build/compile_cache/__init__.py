"""The compile cache of a build: which program, which storage, what it hit.

Called by `build` and its stage. Face: `choice`, `folders`, `statistics`.
"""
