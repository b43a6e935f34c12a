"""Scripts that measure a package in its own interpreter: `worker.py` is run by path."""
