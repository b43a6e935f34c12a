"""Readers of compiled files: ELF, fat binaries, cubins, PTX, archs."""

__all__ = [
    "archs",
    "cudart",
    "device_code",
    "elf",
    "elf_head",
    "elf_image",
    "elf_symbols",
    "fatbin",
    "instructions",
    "kernel_code",
    "windows",
]
