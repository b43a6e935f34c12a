"""Any package index held to what installers expect of it, and to what it offered before.

Called by the session `index`. Face: `session.check_indexes`; `rules.RULES` lists what is found.
"""
