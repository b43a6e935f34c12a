"""Files for others that an audit writes: SARIF, and a picture."""

__all__ = ["sarif", "treemap"]
