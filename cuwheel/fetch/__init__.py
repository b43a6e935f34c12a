"""Bytes from a server into the cache, each file by its hash: web, git, the mirror.

Called by whoever downloads. Face: `store.fetch`, `git.fetch_commit`, `mirror.configured_mirror`.
`private_files` severs what installers have linked into the cache from it. `mirror` is read by
`bootstrap` before any package is there: the standard library alone.
"""
