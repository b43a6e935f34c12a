"""How Sphinx makes the site: docs/adr/0041. `nox -s site` copies this beside the pages."""

project = "cuwheel"
html_title = "cuwheel"
extensions = ["myst_parser"]
root_doc = "index"
nitpicky = True
smartquotes = False  # they would change commands that stand outside of code

# Headings have the anchors that GitHub gives them, so that a link works in both places.
myst_heading_anchors = 6
# Names in code of `console` and `text` blocks are no program's.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_theme_options = {"top_of_page_buttons": []}
html_favicon = "site/static/favicon.svg"  # else browsers ask the server for one
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_js_files = ["search.js", "page.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_last_updated_fmt = None
