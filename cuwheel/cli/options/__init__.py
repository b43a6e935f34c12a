"""What each session understands behind `--`.

Called by the commands and by the reference pages. Face: one `parse_…` and one `…_parser` a session.
"""
