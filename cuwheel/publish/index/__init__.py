"""Package indexes: a site of wheels for installers and people; `check/` validates any index."""

__all__ = ["check", "pages", "publishing", "site"]
