"""Client of package indexes: their configuration, pages, links and metadata."""

__all__ = ["cuda_lines", "indexes", "offers", "pages", "uv_settings"]
