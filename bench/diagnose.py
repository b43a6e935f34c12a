"""Score `diagnose` on broken environments of real packages, each repaired as the report says.

`nox -s bench -- diagnose FOLDER [PART]` makes the environments in FOLDER, of the set `first`,
`second` or `third` or those with PART in their name, and prints one row each and the sums: whether
the cause is named, and no other one, and how the environment became right.
"""  # noqa: INP001 - run by path, not a package

from __future__ import annotations

import shutil
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.check.broken import FIRST, SECOND, SITUATIONS, THIRD
from tests.support.check.situations import Result, Situation, judge, make

_AT_ONCE = 3  # environments


def run(situation: Situation, folder: Path) -> Result:
    """Return the result of one situation; its environment is removed."""
    # No word of its name may be in paths that a report quotes.
    own = folder / f"place{SITUATIONS.index(situation)}"
    shutil.rmtree(own, ignore_errors=True)
    try:
        return judge(situation, make(situation, own, folder / "uv"))
    except Exception as problem:  # noqa: BLE001 - one row, not the end of all
        return Result(has_cause=False, invented=(), fixed="failed", log=f"ERROR {problem!r}")
    finally:
        shutil.rmtree(own, ignore_errors=True)


def show(situation: Situation, result: Result) -> None:
    """Print a row, and the report where it isn't right."""
    right = "right" if result.is_right else "no cause" if not result.has_cause else "invented"
    sys.stdout.write(f"| {situation.name} | {right} | {result.fixed} |\n")
    if not result.is_right or result.fixed == "failed":
        sys.stdout.write(f"{result.log}\n")
    sys.stdout.flush()


def main(folder: Path, part: str = "") -> None:
    """Print the results."""
    sets = {"first": FIRST, "second": SECOND, "third": THIRD}
    chosen = sets.get(part) or [one for one in SITUATIONS if part in one.name]
    results = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        calls = [pool.submit(run, situation, folder) for situation in chosen]
        for situation, call in zip(chosen, calls, strict=True):
            results.append(call.result())
            show(situation, results[-1])
    count = sum(result.is_right for result in results)
    fixed = Counter(result.fixed for result in results)
    sys.stdout.write(f"{count} of {len(results)} right; {dict(fixed)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), *sys.argv[2:])
