"""Golden files: the whole text that a command prints, rewritten by `--update-golden`.

A test compares one text as a whole; unit tests hold typed results. What differs from run to run
(temporary folders, durations, digests) is replaced by a word first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "golden"


class Golden:
    """Compares texts with the files below `tests/golden/`."""

    def __init__(self, *, updates: bool) -> None:
        self._updates = updates

    def check(self, name: str, text: str, replaced: Mapping[Any, str] | None = None) -> None:
        """Compare a text with the file `name`; write it instead with `--update-golden`.

        Args:
            name: below `tests/golden/`, `diagnose/no-driver.txt`.
            text: what was printed.
            replaced: texts and paths that differ from run to run, and what stands for each.
        """
        for found, word in sorted((replaced or {}).items(), key=lambda item: -len(str(item[0]))):
            text = text.replace(str(found), word)
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        path = FOLDER / name
        if self._updates:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text == expected, f"{path.name}: `pytest --update-golden` writes it again"
