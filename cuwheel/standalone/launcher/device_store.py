"""Where PTX and cubins are kept for builds for other platforms.

Part of the compiler launcher (`device_code`), so written for a short start. Standard library only,
Python 3.9 or newer.
"""

from __future__ import annotations

import os

if __package__:
    from cuwheel.standalone.launcher import kept_files
else:  # in a build these scripts lie side by side
    import kept_files  # type: ignore[import-not-found,no-redef]

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_FORMAT = "1"  # raise it when entries of an older cuwheel must not be used
_LENGTH = 8  # bytes of a text's length


class Result:
    """What cicc or ptxas has made.

    Args:
        said: what it wrote to its standard output and standard error.
        output: the content of its output file.
        bitcode: what cicc's front end handed on.
        path: the file in which it is kept; empty where it isn't.
    """

    def __init__(self, said: bytes, output: bytes, bitcode: bytes = b"", path: str = "") -> None:
        self.said = said
        self.output = output
        self.bitcode = bitcode
        self.path = path

    @classmethod
    def read(cls, content: bytes, path: str) -> Result:
        """One that `packed` has written down.

        Raises:
            ValueError: it wasn't.
        """
        parts = []
        while content:
            end = _LENGTH + int.from_bytes(content[:_LENGTH], "big")
            parts.append(content[_LENGTH:end])
            content = content[end:]
        said, output, bitcode = parts
        return cls(said, output, bitcode, path)

    def packed(self) -> bytes:
        """All of it in one text, each part behind its length."""
        parts = (self.said, self.output, self.bitcode)
        return b"".join(len(part).to_bytes(_LENGTH, "big") + part for part in parts)


class Store:
    """The folder with the device code of one recipe.

    Args:
        folder: its path.
        tools: stands for the programs.
        platform: of this build.
    """

    def __init__(self, folder: str, tools: str, platform: str) -> None:
        self._folder = folder
        self._tools = tools
        self._platform = platform

    def folder_of(self, kind: str, parts: Iterable[str]) -> str:
        """Where results of one command are kept, whatever it reads."""
        text = "\0".join((_FORMAT, self._tools, kind, *parts))
        key = kept_files.digest(text.encode("utf-8", "surrogateescape")).hex()
        return f"{self._folder}/{key[:2]}/{key[2:]}"

    def has_others(self, folder: str) -> bool:
        """Whether there is a result of a build for another platform."""
        try:
            return any(not name.endswith(f".{self._platform}") for name in os.listdir(folder))  # noqa: PTH208
        except OSError:
            return False

    def find(self, folder: str, content: bytes) -> Result | None:
        """What a command made of an input; None where that isn't kept."""
        start = kept_files.digest(content).hex()
        return next(self._read(folder, lambda name: name.startswith(f"{start}.")), None)

    def others(self, folder: str) -> Iterator[Result]:
        """What builds for other platforms made with a command."""
        return self._read(folder, lambda name: not name.endswith(f".{self._platform}"))

    def _read(self, folder: str, is_wanted: Callable[[str], bool]) -> Iterator[Result]:
        try:
            names = os.listdir(folder)  # noqa: PTH208
        except OSError:
            return
        for name in filter(is_wanted, names):
            path = f"{folder}/{name}"
            try:
                yield Result.read(kept_files.unpack(kept_files.read_kept(path)), path)
            except (OSError, ValueError):
                continue

    def keep(self, folder: str, content: bytes, result: Result) -> None:
        """Keep what a command has made of an input."""
        start = kept_files.digest(content).hex()
        kept_files.keep(f"{folder}/{start}.{self._platform}", kept_files.pack(result.packed()))
