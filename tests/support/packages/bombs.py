"""Small files that unpack to large ones, and what it costs to read them."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.system import process

MIB = 1 << 20
IMPORTS = 160 * MIB  # bytes that a child has after its imports, at most
DIST_INFO = "bomb-1.0.dist-info"

# Not `ru_maxrss`, which a process takes over from the one that started it.
_PEAK = """
import re, sys
from pathlib import Path
{code}
print("peak", re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def peak_of(code: str, *words: str | Path) -> tuple[str, int]:
    """What Python code prints in a process of its own, and the most memory that took, bytes."""
    done = process.run(
        [sys.executable, "-c", _PEAK.format(code=code), *words],
        env={"PYTHONPATH": str(Path.cwd()), "NO_PROXY": "127.0.0.1"},
        timeout=120,
    )
    found = re.search(r"^peak (\d+)$", done.output, re.MULTILINE)
    assert found, done.output
    return done.output, int(found[1]) << 10


def write_bomb(folder: Path, texts: Mapping[str, tuple[bytes, int]]) -> Path:
    """A wheel whose METADATA, WHEEL or RECORD go on with so many bytes of one line."""
    begins = {"METADATA": b"Metadata-Version: 2.1\nName: bomb\nVersion: 1.0\n", "WHEEL": b""}
    path = folder / "bomb-1.0-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("METADATA", "WHEEL", "RECORD"):
            line, size = texts.get(name, (b"\n", 0))
            with archive.open(f"{DIST_INFO}/{name}", "w") as stream:
                stream.write(begins.get(name, b""))
                for _ in range(0, size, MIB):
                    stream.write((line * (MIB // len(line) + 1))[:MIB])
    return path
