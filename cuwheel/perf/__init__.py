"""A package measured on a GPU: right first, then how fast, then whether slower than before.

Called by the session `perf`. Face: `session.measure`, `records.PerfRun`, and what is in `report/`.
In it: `worker` (a probe in another interpreter), `gpu_state` (clocks, health), `own_kernels`,
`gate` (the judgement), `rounds` (who runs when). It needs the packages of `envs/perf.lock`.
"""
