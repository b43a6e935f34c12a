"""The platforms that a wheel can be for: this machine's, or one that is compiled for here."""

from __future__ import annotations

import platform as _this
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A kind of machine, with its names in other programs.

    Attributes:
        machine: by `uname -m`, and at the end of wheels' platform tags: `aarch64`.
        triplet: of GCC's cross compilers in Debian, and of extension modules' names (PEP 3149).
        elf: in an ELF header, `EM_AARCH64`.
    """

    machine: str
    triplet: str
    elf: str
    emulator: str

    @property
    def name(self) -> str:
        """The name for `--platform`, `linux_aarch64`."""
        return f"linux_{self.machine}"

    @property
    def is_foreign(self) -> bool:
        """True if this machine can't run its programs."""
        return self.machine != _this.machine()

    @property
    def cross_libraries(self) -> Path:
        """The folder of the C library of Debian's and Ubuntu's cross compiler."""
        return Path("/usr", self.triplet, "lib")

    @property
    def cross_headers(self) -> Path:
        """The folder of that C library's headers."""
        return Path("/usr", self.triplet, "include")

    @property
    def tool_prefix(self) -> str:
        """The prefix of its binutils' and compilers' names; empty for this machine's own."""
        return f"{self.triplet}-" if self.is_foreign else ""


X86_64 = Platform(
    machine="x86_64", triplet="x86_64-linux-gnu", elf="EM_X86_64", emulator="qemu-x86_64"
)
AARCH64 = Platform(
    machine="aarch64", triplet="aarch64-linux-gnu", elf="EM_AARCH64", emulator="qemu-aarch64"
)
PLATFORMS = {platform.name: platform for platform in (X86_64, AARCH64)}


def own_platform() -> Platform:
    """Return this machine's platform; x86-64 where it is an unknown one."""
    return PLATFORMS.get(f"linux_{_this.machine()}", X86_64)
