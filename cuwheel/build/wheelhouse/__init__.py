"""A folder of wheels: the simple index in it, and the machines that its wheels serve."""

__all__ = ["entries", "facts", "folder_index", "index_folders", "narrower", "simple_api", "yanks"]
