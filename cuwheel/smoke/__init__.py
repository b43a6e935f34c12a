"""A wheel tried where nothing else is: the load proof.

Called by the stage `smoke`. Face: `environment`, `packages`, `probe`, `loaded_libraries`,
`hide_cuda`.
"""
