"""Measurements and runs over many targets: perf, matrix, nightly, profile."""
