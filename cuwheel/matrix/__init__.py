"""All wheels of the recipes at once: which there can be, which there are, and how to get the rest.

Called by the session `matrix`. Face: `state.read_states`, `building.build_cells`,
`table.print_states`, `page.write_page`, `github.as_github_matrix`.
"""
