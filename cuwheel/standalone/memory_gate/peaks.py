"""What compiles took at their peak, learned and kept: one small file for each key of a target.

Part of the memory gate, docs/adr/0017, so written for a short start. Standard library only, Python
3.9 or newer.
"""

from __future__ import annotations

import binascii
import os

if __package__:
    from cuwheel.standalone.memory_gate import free_memory
else:  # in a build these scripts lie side by side
    import free_memory  # type: ignore[import-not-found,no-redef]

_MARGIN = 1.1  # on a peak that this very file took before
_MARGIN_OF_OTHERS = 1.25  # on the largest peak of the target's other files
_ENOUGH_OTHERS = 3  # so many say more of a target than a guess does
_DECAY = 0.1  # of the way down to a smaller peak, each time
_SUSPECTED = "?"  # behind a peak that nobody measured to its end
_LEAST = 16 * free_memory.MIB

# Parts of the memory that a recipe declares for one compile: what a process takes of which nothing
# is known. cicc is what a recipe's figure is about. Measured with nvcc 13.0 on a kernel file of
# flash-attn 2.8.3: cicc 3753, cudafe++ 905, cc1plus 510, ptxas 403 MB. A host file with PyTorch's
# headers takes more of cc1plus than that, 600 to 1200 MB.
_SHARES = {"cicc": 1.0, "cudafe++": 0.35, "ptxas": 0.25}
_SHARE_OF_OTHERS = 0.5
_MEMORY_PER_JOB = 2048 * free_memory.MIB


def guess(tool: str, per_job: int = _MEMORY_PER_JOB) -> int:
    """Bytes that a tool may take, where nothing was learned.

    Args:
        tool: its name.
        per_job: bytes that the recipe gives for one compile.
    """
    return int(_SHARES.get(tool, _SHARE_OF_OTHERS) * per_job)


def known_peaks(folder: str, target: str) -> list[tuple[int, str, str]]:
    """Bytes that each known process of a target took at its peak, its source and arch.

    The arch is empty for a host compiler. The largest come first.

    Args:
        folder: shared by all builds.
        target: as `Peaks` has it.
    """
    own = f"{folder}/peaks/{target.replace('/', '_') or 'any'}"
    found = []
    for name in os.listdir(own) if os.path.isdir(own) else []:  # noqa: PTH112, PTH208 - as above
        if name.startswith(".") or name.endswith("-others"):
            continue
        with open(f"{own}/{name}", encoding="utf-8") as stream:  # noqa: PTH123
            peak, _, key = stream.read().partition(" ")
        if peak.isdecimal():  # else nobody measured it to its end
            file, arch, *_ = [*key.split(" "), "", ""]
            found.append((int(peak), file, arch))
    return sorted(found, reverse=True)


class Peaks:
    """The peaks of one target.

    Args:
        folder: shared by all builds.
        target: whose sources they are; builds that give the same name share what they learn.

    Raises:
        OSError: here and in all methods: the folder can't be used.
    """

    def __init__(self, folder: str, target: str) -> None:
        self._folder = f"{folder}/peaks/{target.replace('/', '_') or 'any'}"
        os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103 - pathlib takes long to import

    def expect(self, tool: str, key: str, guessed: int) -> tuple[int, int]:
        """Bytes to hold for a process, and how many of them it is known to take.

        Args:
            tool: its name.
            key: what makes two processes alike: source, arch, options.
            guessed: where nothing better is known.
        """
        learned, is_measured = self._learned(tool, key)
        if learned:
            return int(learned * _MARGIN) + _LEAST, learned if is_measured else 0
        count, largest = self._others(tool)
        of_others = int(largest * _MARGIN_OF_OTHERS) + _LEAST
        return of_others if count >= _ENOUGH_OTHERS else max(guessed, of_others), 0

    def learn(self, tool: str, key: str, peak: int) -> None:
        """Keep what a process took, in bytes: more at once, less little by little."""
        before, is_measured = self._learned(tool, key)
        if not is_measured:
            count, largest = self._others(tool)
            self._write(f"{tool}-others", f"{count + 1} {max(largest, peak)}")
        slowly = int(before - (before - peak) * _DECAY) if is_measured else 0
        self._write(_file(tool, key), f"{max(peak, slowly)} {key}")

    def suspect(self, tool: str, key: str, peak: int) -> None:
        """Keep what a process may take, in bytes, of which only a part was seen."""
        before, _ = self._learned(tool, key)
        if peak > before:
            self._write(_file(tool, key), f"{peak}{_SUSPECTED} {key}")

    def _learned(self, tool: str, key: str) -> tuple[int, bool]:
        """What is kept for a process, and whether that was measured to its end."""
        number, _, whose = self._read(_file(tool, key)).partition(" ")
        plain = number.rstrip(_SUSPECTED)
        if whose != key or not plain.isdigit():
            return 0, False
        return int(plain), plain == number

    def _others(self, tool: str) -> tuple[int, int]:
        words = self._read(f"{tool}-others").split()
        if len(words) == 2 and all(word.isdigit() for word in words):  # noqa: PLR2004 - count, bytes
            return int(words[0]), int(words[1])
        return 0, 0

    def _read(self, name: str) -> str:
        try:
            with open(f"{self._folder}/{name}", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
                return stream.read()
        except FileNotFoundError:
            return ""

    def _write(self, name: str, text: str) -> None:
        """Write aside and rename: who is killed leaves the old or the new."""
        aside = f"{self._folder}/.{name}-{os.getpid()}"
        with open(aside, "w", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            stream.write(text)
        os.replace(aside, f"{self._folder}/{name}")  # noqa: PTH105


def _file(tool: str, key: str) -> str:
    """A name of bounded length; should two keys share it, the text tells them apart."""
    return f"{tool}-{binascii.crc32(key.encode(errors='replace')):08x}"
