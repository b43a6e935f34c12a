"""Bytes from a server into the cache, each file by its hash: web, git, mirrors.

Called by whoever downloads. Face: `store.fetch`, `git.fetch_commit`, `mirrors.Mirrors`. `mirrors`
is read by `bootstrap` before any package is there: the standard library alone.
"""
