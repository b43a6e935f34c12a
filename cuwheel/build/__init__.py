"""What one build needs: environment variables, paths, flags, checks, the rebuild key.

Called by the stages and the pipeline. In it: `launcher/` (the toolkit as a build sees it) and
`compile_cache/` (ccache, sccache). Face: `machine.read_machine`,
`early_check.check_early`, `environment.variables`, `rebuild_key.key_of`.
"""
