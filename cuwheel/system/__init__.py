"""This machine: processes, files, terminal, threads, limits.

Called by everyone. It knows nothing of wheels. Face: `process.run`, `files`, `console.Console`,
`parallel.run_all`.
"""
