# ruff: noqa: INP001 - a script, in no package
"""What became of the cells of a GitHub Actions run, by the artifacts that they left.

    python3 ci/github_cells.py left CELLS FOLDER     cells without an artifact, as a matrix
    python3 ci/github_cells.py report CELLS FOLDER   a table; status 1 unless all are built
    python3 ci/github_cells.py seconds FOLDER OUT    the times of compiles that cells left, together

CELLS holds `include` of what `nox -s matrix -- --json` printed; FOLDER has a folder `cell-ID` for
each cell that came to an end, with `result.json` of `nox -s build -- … --json`. It needs Python and
nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def cells_left(cells: dict[str, list[dict[str, str]]], folder: Path) -> dict[str, Any]:
    """The cells that left no artifact: their time was too short."""
    left = [cell for cell in cells["include"] if not (folder / f"cell-{cell['id']}").is_dir()]
    return {"include": left}


def result_of(cell: dict[str, str], folder: Path) -> dict[str, Any]:
    """What a cell's build printed, at last an error; `unfinished` where it left nothing."""
    path = folder / f"cell-{cell['id']}" / "result.json"
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {"state": "unfinished"}
    result: dict[str, Any] = json.loads(lines[-1]) if lines else {"state": "failed"}
    return result


def write_report(cells: dict[str, list[dict[str, str]]], folder: Path) -> bool:
    """Print the table; returns whether every cell is built."""
    results = [(cell["id"], result_of(cell, folder)) for cell in cells["include"]]
    lines = ["| cell | state | |", "| --- | --- | --- |"]
    for name, result in results:
        failure = result.get("failure") or result  # an error's document has the same names
        said = (result.get("wheel") or {}).get("sha256") or failure.get("what", "")
        cause = f" ({failure['cause']})" if failure.get("cause") else ""
        lines.append(f"| {name} | {result.get('state', 'failed')} | {said}{cause} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return all(result.get("state") == "built" for _, result in results)


def join_seconds(folder: Path, out: Path) -> None:
    """Add the times of compiles, which each cell left by recipe, to those that are there."""
    for path in sorted(folder.glob("cell-*/seconds/*/seconds.json")):
        joined = out / path.parent.name / path.name
        known = json.loads(joined.read_text()) if joined.is_file() else {}
        joined.parent.mkdir(parents=True, exist_ok=True)
        for compile_, seconds in json.loads(path.read_text()).items():
            before = known.get(compile_)
            # A number is of an earlier cuwheel, which didn't tell archs apart.
            if isinstance(seconds, dict):
                known[compile_] = {**(before if isinstance(before, dict) else {}), **seconds}
        joined.write_text(json.dumps(known))
    out.mkdir(parents=True, exist_ok=True)


def main(action: str, cells: str, folder: str) -> int:
    """Run one of the three; returns the exit status."""
    if action == "seconds":
        join_seconds(Path(cells), Path(folder))
        return 0
    given = json.loads(cells)
    if action == "left":
        left = cells_left(given, Path(folder))
        sys.stdout.write(json.dumps(left, separators=(",", ":")) + "\n")
        return 0
    return 0 if write_report(given, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
