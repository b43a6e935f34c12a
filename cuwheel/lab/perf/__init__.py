"""Measurement of a package on a GPU: results against a reference, times, and comparison of both.

It needs the packages of `envs/perf.lock`; `runner/` runs in the interpreter of the package.
"""

__all__ = [
    "gpu_state",
    "measured_wheel",
    "measurement",
    "page",
    "probe_process",
    "records",
    "report",
    "sanitizer",
]
