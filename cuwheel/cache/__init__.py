"""What the cache holds, how much of it, and what of it nobody has used for long.

Called by the session `cache`. Face: `contents.read_cache`, `pruning.prune`.
"""
