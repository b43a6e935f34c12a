"""One reader, fed by atheris: `python -m tests.fuzz.worker READER FOLDER [OPTION of libFuzzer]`."""

from __future__ import annotations

import sys

import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

with atheris.instrument_imports(include=["cuwheel"]):
    from tests.fuzz.readers import PLANTED, READERS


def main() -> None:
    """Read one changed file after another, until the time is over or one crashes the reader."""
    program, name, *options = sys.argv
    atheris.Setup([program, *options], {**READERS, **PLANTED}[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
