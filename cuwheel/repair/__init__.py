"""A built wheel made portable: names, rpaths, requirements, bundled libraries.

Called by the stage `repair`. Face: `links.find_links`, `metadata.rewrite_metadata`,
`tools.RepairTools`.
"""
