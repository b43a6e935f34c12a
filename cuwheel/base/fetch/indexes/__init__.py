"""Client of package indexes: their configuration, pages, links and metadata."""

__all__ = ["indexes", "offers", "pages", "uv_settings"]
