"""Report of a comparison: text for people, data for machines, and diffoscope's report beside it.

diffoscope is GPL and needs programs of the machine, so it is no part of cuwheel: docs/adr/0018.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import rich.console
import rich.filesize

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system import process
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.quantities import plural
from cuwheel.publish.rebuild.compare.differences import WheelComparison

_SHOWN = 8  # differences of one member with the same causes
_DIFFOSCOPE = "diffoscope"
_DIFFOSCOPE_MISSING = (
    "diffoscope isn't on PATH, so its report is missing: `uv tool install diffoscope`,"
    " or `apt-get install diffoscope`"
)
_LARGEST = 50 << 20  # bytes of a report; where it would be longer, diffoscope leaves parts out
_TIMEOUT = 900.0  # seconds
_SAME, _DIFFERENT = 0, 1  # its exit statuses (diffoscope(1))


def print_comparison(comparison: WheelComparison, terminal: rich.console.Console) -> None:
    """Print whether two wheels are the same bytes, the differences, and their causes.

    What only follows from other differences is only counted.
    """
    lines = [
        f"{name}  {side.file_name}  {rich.filesize.decimal(side.size)}  sha256 {side.sha256}"
        for name, side in (("first ", comparison.a), ("second", comparison.b))
    ]
    own = [item for item in comparison.differences if not item.is_consequence]
    counts: Counter[tuple[object, ...]] = Counter()
    for item, line in zip(own, difference_lines(comparison), strict=True):
        counts[item.member, item.causes] += 1
        if counts[item.member, item.causes] > _SHOWN:
            continue
        lines += ["", line]
        if item.a or item.b:
            lines += [f"  first   {item.a or '(nothing)'}", f"  second  {item.b or '(nothing)'}"]
        lines.append(f"  cause   {', '.join(item.causes) or 'unknown'}")
    if hidden := sum(max(0, count - _SHOWN) for count in counts.values()):
        lines += ["", f"and {hidden} more like these"]
    lines.append("")
    for key, cause in comparison.causes.items():
        lines.append(f"{key} ({cause.count}): {cause.text}")
        lines += [f"  to fix  {cause.remedy}"] if cause.remedy else []
    for line in (*lines, verdict(comparison)):
        terminal.print(line, markup=False, highlight=False, soft_wrap=True)


def verdict(comparison: WheelComparison) -> str:
    """Return one line: the same bytes, or the number of differences and of unknown causes."""
    if comparison.is_same:
        return f"the same bytes: sha256 {comparison.a.sha256}"
    count = plural(len(comparison.differences), "difference")
    return f"not the same bytes: {count}, {comparison.unexplained or 'none'} of unknown cause"


def difference_lines(comparison: WheelComparison) -> tuple[str, ...]:
    """Return a line for each difference but consequences: its place and the fact."""
    differences = [item for item in comparison.differences if not item.is_consequence]
    names = demangle(item.kernel for item in differences)
    lines = []
    for item in differences:
        fatbin = f"fat binary {item.fatbin}" if item.fatbin else ""
        kernel = names.get(item.kernel, item.kernel)
        places = (item.member, item.section, fatbin, item.code, kernel, item.part)
        lines.append(f"{', '.join(filter(None, places)) or 'the archive itself'}: {item.fact}")
    return tuple(lines)


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Return kernels' names as in the source, by their mangled names.

    Names stay mangled without binutils' `c++filt`.
    """
    mangled = sorted({name for name in names if name})
    known = {name: name for name in mangled}
    program = process.which("c++filt", os.defpath)
    if not program:
        return known
    with temporary_folder() as folder:
        response = folder / "names"  # Linux takes no argument of more than 128 KiB (execve(2))
        response.write_text("\n".join(mangled))
        done = process.run([program, f"@{response}"], env={"LC_ALL": "C"}, check=False)
    lines = done.output.splitlines()
    if done.status == 0 and len(lines) == len(mangled):
        known = dict(zip(mangled, lines, strict=True))
    return known


def keep_diffoscope(a: Path, b: Path, folder: Path, *, search_path: str | None = None) -> str:
    """Run diffoscope on two wheels and keep its report, as text and as HTML; return a note on it.

    It gets the user's PATH, since it calls `readelf`, `objdump` and others. A missing or failing
    diffoscope is reported and is no error: the comparison doesn't need it.

    Args:
        folder: of the reports; made if it is missing.
        search_path: for programs; PATH by default.
    """
    path = process.inherited()["PATH"] if search_path is None else search_path
    program = process.which(_DIFFOSCOPE, path)
    if not program:
        return _DIFFOSCOPE_MISSING
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
        return f"diffoscope can't be run: {problem.why}"
    if done.status not in (_SAME, _DIFFERENT):
        last = (done.output.strip().splitlines() or ["it printed nothing"])[-1]
        return f"diffoscope failed with status {done.status}: {last}"
    reports = " and ".join(str(path) for path in (text, page) if path.is_file())
    return f"diffoscope's report: {reports or 'it found nothing to report'}"
