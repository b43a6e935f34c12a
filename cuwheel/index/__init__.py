"""The package index: what a folder of wheels offers, for installers and for people.

`write_index` keeps `simple/` beside the wheels of a folder; `write_site` writes all that a server
needs. Called by the stage and the session `index`.
"""
