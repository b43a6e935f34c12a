"""Peaks of memory that compiles took, learned and kept: one small file for each key of a recipe."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from cuwheel.base.free_memory import MIB

_MARGIN = 1.1  # on a peak that this very file took before
_MARGIN_OF_OTHERS = 1.25  # on the largest peak of the recipe's other files
_ENOUGH_OTHERS = 3  # so many replace a guess
_DECAY = 0.1  # of the way down to a smaller peak, each time
_LEAST = 16 * MIB

# Parts of the memory that a recipe declares for one compile, for programs of which nothing is
# known. The recipe's figure is about cicc. Measured with nvcc 13.0 on a kernel file of
# flash-attn 2.8.3: cicc 3753, cudafe++ 905, cc1plus 510, ptxas 403 MB. A host file with PyTorch's
# headers takes more of cc1plus than that, 600 to 1200 MB.
_SHARES = {"cicc": 1.0, "cudafe++": 0.35, "ptxas": 0.25}
_SHARE_OF_OTHERS = 0.5


def known_peaks(folder: Path, recipe: str) -> list[tuple[int, str, str]]:
    """Return the peak in bytes, source and arch of each known program of a recipe.

    The arch is empty for a host compiler. The largest come first.
    """
    peaks = []
    for path in _folder_of(folder, recipe).glob("[!.]*"):
        peak, _, key = path.read_text(encoding="utf-8").partition(" ")
        if peak.isdecimal() and not path.name.endswith("-others"):
            file, arch, *_ = [*key.split(" "), "", ""]
            peaks.append((int(peak), file, arch))
    return sorted(peaks, reverse=True)


def _folder_of(folder: Path, recipe: str) -> Path:
    return folder / "peaks" / recipe.replace("/", "_")


class Peaks:
    """The peaks of one recipe.

    Args:
        per_job: bytes that the recipe declares for one compile.

    Raises:
        OSError: here and in all methods: the folder can't be used.
    """

    def __init__(self, folder: Path, recipe: str, per_job: int) -> None:
        self._folder = _folder_of(folder, recipe)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._per_job = per_job

    def expect(self, tool: str, key: str) -> tuple[int, int]:
        """Return the bytes to reserve for a program, and how many of them it is known to take."""
        learned = self._learned(tool, key)
        if learned:
            return int(learned * _MARGIN) + _LEAST, learned
        count, largest = self._others(tool)
        of_others = int(largest * _MARGIN_OF_OTHERS) + _LEAST
        guessed = int(_SHARES.get(tool, _SHARE_OF_OTHERS) * self._per_job)
        return of_others if count >= _ENOUGH_OTHERS else max(guessed, of_others), 0

    def learn(self, tool: str, key: str, peak: int) -> None:
        """Keep a program's peak, in bytes: a larger one at once, a smaller one little by little."""
        before = self._learned(tool, key)
        if not before:
            count, largest = self._others(tool)
            self._write(f"{tool}-others", f"{count + 1} {max(largest, peak)}")
        slowly = int(before - (before - peak) * _DECAY)
        self._write(_name(tool, key), f"{max(peak, slowly)} {key}")

    def _learned(self, tool: str, key: str) -> int:
        """Return the kept peak of a program; 0 for none."""
        number, _, kept_key = self._read(_name(tool, key)).partition(" ")
        return int(number) if kept_key == key and number.isdigit() else 0

    def _others(self, tool: str) -> tuple[int, int]:
        count, _, largest = self._read(f"{tool}-others").partition(" ")
        return (int(count), int(largest)) if count.isdigit() and largest.isdigit() else (0, 0)

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _write(self, name: str, text: str) -> None:
        """Write to a temporary file and rename it: a killed process leaves the old or the new."""
        temporary = self._folder / f".{name}-{os.getpid()}"
        temporary.write_text(text, encoding="utf-8", errors="replace")
        temporary.replace(self._folder / name)


def _name(tool: str, key: str) -> str:
    """Return a name of bounded length; the text distinguishes two keys that share it."""
    return f"{tool}-{zlib.crc32(key.encode(errors='replace')):08x}"
