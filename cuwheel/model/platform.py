"""The machines that a wheel can be for: this one, or another that it is compiled for here."""

from __future__ import annotations

import platform as _this
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A kind of machine, with the names that others have for it.

    Attributes:
        machine: as `uname -m` says it, and the end of wheels' platform tags: `aarch64`.
        triplet: of GCC's cross compilers in Debian, and of extension modules' names (PEP 3149).
        elf: its name in an ELF header, `EM_AARCH64`.
        emulator: QEMU's program that runs one of its programs here.
    """

    machine: str
    triplet: str
    elf: str
    emulator: str

    @property
    def name(self) -> str:
        """`linux_aarch64`: what `--platform` calls it."""
        return f"linux_{self.machine}"

    @property
    def is_foreign(self) -> bool:
        """Whether this machine can't run its programs."""
        return self.machine != _this.machine()

    @property
    def cross_libraries(self) -> Path:
        """Where Debian and Ubuntu have the C library that their cross compiler for it links."""
        return Path("/usr", self.triplet, "lib")

    @property
    def cross_headers(self) -> Path:
        """Where they have that C library's headers."""
        return Path("/usr", self.triplet, "include")

    @property
    def tool_prefix(self) -> str:
        """What stands before the names of the programs for it: of this machine's own, nothing."""
        return f"{self.triplet}-" if self.is_foreign else ""


X86_64 = Platform(
    machine="x86_64",
    triplet="x86_64-linux-gnu",
    elf="EM_X86_64",
    emulator="qemu-x86_64",
)
AARCH64 = Platform(
    machine="aarch64",
    triplet="aarch64-linux-gnu",
    elf="EM_AARCH64",
    emulator="qemu-aarch64",
)
PLATFORMS = {one.name: one for one in (X86_64, AARCH64)}


def own_platform() -> Platform:
    """This machine's; that of x86-64 where it is one that nothing is known of."""
    return PLATFORMS.get(f"linux_{_this.machine()}", X86_64)
