"""The libraries of a wheel as the dynamic loader sees them: which one serves which soname."""

__all__ = ["installed_loader", "loader_graph", "search_path"]
