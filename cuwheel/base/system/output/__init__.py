"""Output to a terminal, a log or GitHub Actions, and live progress in it."""

__all__ = ["documents", "github", "html", "terminal"]
