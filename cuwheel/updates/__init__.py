"""What is newer than what recipes pin, and the change that takes it over.

Called by the sessions `outdated` and `bump`. Face: `outdated.find_updates`, `bump.bump_recipe`.
"""
