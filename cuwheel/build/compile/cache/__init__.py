"""The compile cache of a build: which program, which storage, what it hit."""

__all__ = ["compile_cache", "direct_settings", "remote", "room", "statistics"]
