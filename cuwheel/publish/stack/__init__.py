"""Several packages at once: the wheels that go together, locked, installed and tried.

`check/pick/stack` knows which wheels fit a machine; uv decides here which of them go together.
"""

__all__ = ["get", "lock", "stack"]
