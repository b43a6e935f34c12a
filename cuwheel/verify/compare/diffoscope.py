"""diffoscope's report of two wheels, kept beside ours where the program is there.

diffoscope is GPL and needs programs of the machine, so it is no part of cuwheel: docs/adr/0018.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.system import process

if TYPE_CHECKING:
    from pathlib import Path


_PROGRAM = "diffoscope"
_HOW_TO_GET = (
    "diffoscope isn't on PATH, so its report is missing: `uv tool install diffoscope`,"
    " or `apt-get install diffoscope`"
)
_LARGEST = 50 << 20  # bytes of a report; where it would be longer, diffoscope leaves parts out
_TIMEOUT = 900.0  # seconds
_SAME, _DIFFERENT = 0, 1  # its exit statuses (diffoscope(1))


@dataclass(frozen=True, kw_only=True)
class DiffoscopeReport:
    """What became of diffoscope's report.

    Attributes:
        files: the reports; none where it couldn't be made.
        note: one line: where they are, or what is missing.
    """

    files: tuple[Path, ...]
    note: str


def keep_diffoscope(
    a: Path, b: Path, folder: Path, *, search_path: str | None = None
) -> DiffoscopeReport:
    """Have diffoscope compare two wheels and keep its report, as text and as HTML.

    It runs from PATH, with the user's PATH, since it calls `readelf`, `objdump` and others. That it
    is missing, or fails, is reported and is no error: the comparison doesn't need it.

    Args:
        a: the first wheel.
        b: the second wheel.
        folder: where the reports go; made where it is missing.
        search_path: where programs are searched for; PATH by default.
    """
    path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    program = process.which(_PROGRAM, path)
    if not program:
        return DiffoscopeReport(files=(), note=_HOW_TO_GET)
    folder.mkdir(parents=True, exist_ok=True)
    text, page = folder / "diffoscope.txt", folder / "diffoscope.html"
    for old in (text, page):
        old.unlink(missing_ok=True)
    limits = (f"--max-report-size={_LARGEST}", f"--max-text-report-size={_LARGEST}")
    outputs = (f"--text={text}", f"--html={page}", "--no-progress")
    env = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    try:
        done = process.run(
            (program, *limits, *outputs, a, b), env=env, check=False, timeout=_TIMEOUT
        )
    except CommandFailedError as problem:
        return DiffoscopeReport(files=(), note=f"diffoscope can't be run: {problem.why}")
    files = tuple(path for path in (text, page) if path.is_file())
    if done.status not in (_SAME, _DIFFERENT):
        last = (done.output.strip().splitlines() or ["it said nothing"])[-1]
        note = f"diffoscope failed with status {done.status}: {last}"
        return DiffoscopeReport(files=files, note=note)
    kept = " and ".join(map(str, files)) or "it found nothing to report"
    return DiffoscopeReport(files=files, note=f"diffoscope's report: {kept}")
