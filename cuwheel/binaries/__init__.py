"""What a compiled file holds: ELF, fat binaries, cubins, PTX, archs.

Called by `audit`, `verify`, `diagnose`, `smoke` and `repair`. Knows bytes alone, no wheel and no
recipe. Face: `elf.read_elf`, `fatbin.find_fatbins`, `device_code`, `archs`.
"""
