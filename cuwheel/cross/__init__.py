"""Building for another kind of machine: its root folder, its packages, its programs under QEMU.

Called by `build`, `stages`, `smoke` and `cli`. Face: `target_root`, `packages`, `emulation`.
"""
