"""The toolkit as a build sees it, what the launcher changes, and what ran.

Called by `build`. Face: `toolkit_view.make_view`, `canary`, `events.read_events`. The scripts
themselves are in `standalone/launcher`.
"""
