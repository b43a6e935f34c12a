"""Where a secret is seen that programs were trusted with."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

_PAUSE = 0.002  # seconds between two looks at all programs


@contextlib.contextmanager
def arguments_with(secret: str) -> Iterator[set[str]]:
    """The command lines of the machine's programs that hold a secret while the block runs."""
    found: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_PAUSE):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    line = path.read_bytes()
                    if secret.encode() in line:
                        found.add(line.replace(b"\0", b" ").decode("utf-8", "replace"))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield found
    finally:
        ended.set()
        watching.join()


def files_with(secret: str, folder: Path) -> list[str]:
    """Files below a folder that hold a secret."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
