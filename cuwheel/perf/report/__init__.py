"""A run of `perf` as a table, a picture, a page and a history.

Called by the session `perf`. Face: `table.print_run`, `picture.draw_run`, `page.page_of`,
`history.keep` and `history.read_history`.
"""
