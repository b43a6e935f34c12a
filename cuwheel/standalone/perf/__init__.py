"""What measures a package in the interpreter that has it: run by path, asked line by line.

`worker.py` is started by `cuwheel/perf/workers`; probes (`recipes/perf/`) import `perf_case`.
"""
