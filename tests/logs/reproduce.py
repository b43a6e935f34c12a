"""Reproduces real failures of CUDA package builds by the real tools and keeps their whole logs.

    python -m tests.logs.reproduce [--list] [--parts FOLDER] [NAME ...]

A NAME is a slug or a slug with its variant. Logs go to `tests/logs/raw`.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.logs import (
    cmake,
    compiling,
    flooding,
    importing,
    installing,
    linking,
    packaging,
    torching,
    well,
)
from tests.logs.box import Box, empty
from tests.logs.cases import CASES, Case
from tests.logs.parts import MissingPartError, Parts

RAW = Path(__file__).parent / "raw"
_PARTS = Path("~/.cache/cuwheel/logs").expanduser()
_MODULES = (cmake, compiling, flooding, importing, installing, linking, packaging, torching, well)
# A page or a file of any package index but those that the cases make up.
_INDEX = re.compile(r"https?://(?!\w+\.example\b)[^\s/]+/(simple\b|packages/[0-9a-f]{2}/)")


class UnfitLogError(Exception):
    """A log does not show the failure, or tells of the machine that it was made on."""


def main(arguments: list[str]) -> int:
    """Make the logs that were asked for; say how each went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--parts", type=Path, default=_PARTS, help="where downloads are kept")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args(arguments)
    chosen = [case for case in CASES.values() if not asked.names or _is_asked(case, asked.names)]
    if not chosen:
        parser.error(f"there is no {', '.join(asked.names)}; --list shows all")
    told = [_describe(case) if asked.list else _attempt(case, asked.parts) for case in chosen]
    return 1 if any(line.startswith("FAILED") for line in told) else 0


def _is_asked(case: Case, names: list[str]) -> bool:
    return case.name in names or case.slug in names


def _describe(case: Case) -> str:
    return _say(f"{case.name}: {case.reproduce.__doc__}")


def _attempt(case: Case, parts: Path) -> str:
    try:
        number, line = _make(case, Parts(folder=parts.resolve()))
    except MissingPartError as missing:
        return _say(f"skipped {case.name}: {missing}")
    except (UnfitLogError, subprocess.CalledProcessError) as unfit:
        return _say(f"FAILED {case.name}: {unfit}")
    return _say(f"made {case.name}: line {number}: {line[:150]}")


def _say(line: str) -> str:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    return line


def _make(case: Case, parts: Parts) -> tuple[int, str]:
    """Run a case; its log replaces the former one only if it is fit."""
    folder = Path(tempfile.mkdtemp(prefix="log"))
    made = folder / "raw.log"
    try:
        case.reproduce(Box(parts=parts, folder=folder, log=made))
        text = made.read_text(errors="replace")
        check_private(text, (str(folder), str(parts.folder)))
        found = find_decisive(case, text)
        RAW.mkdir(exist_ok=True)
        (RAW / f"{case.name}.log").write_bytes(made.read_bytes())
    except UnfitLogError:
        kept = Path(tempfile.gettempdir(), f"{case.name}.log")
        kept.write_bytes(made.read_bytes())
        raise
    else:
        return found
    finally:
        empty(folder)


def find_decisive(case: Case, text: str) -> tuple[int, str]:
    """The number, from 1, and the text of the line that names the cause."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(case.decisive, line):
            return number, line.strip()
    raise UnfitLogError(f"no line has {case.decisive!r}; the log is kept in the temporary folder")


def check_private(text: str, folders: tuple[str, ...]) -> None:
    """Refuse a log that names this machine, its user, its folders or a package index.

    Raises:
        UnfitLogError: it does.
    """
    own = (str(Path.home()), str(Path.cwd()), *folders)
    told = [word for word in own if word in text]
    told += [found[0] for found in _INDEX.finditer(text)]
    if re.search(rf"\b{re.escape(socket.gethostname())}\b", text):
        told.append("the host name")
    if told:
        raise UnfitLogError(f"the log tells of this machine: {', '.join(told)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
