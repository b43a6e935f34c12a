"""A wheel tried where nothing else is: the load proof.

Called by the stage `smoke`. Face: `environment`, `probe`, `loaded_libraries`, `hide_cuda`.
"""
