"""The package index: what a folder of wheels offers, for installers and for people.

`simple/` beside the wheels is for this machine; a site is all that a server needs.

Called by: the stage `index` and the session of that name. Face: `folder_index.write_index`,
`site.write_site`, `yanks.yank`; `check/` holds any index to its rules.
"""
