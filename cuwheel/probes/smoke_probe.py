"""Import modules in a clean interpreter and say which shared libraries got loaded, from where.

Run by path with the interpreter of the environment to look at: `python -I smoke_probe.py QUESTION`,
where QUESTION is JSON with `imports`, `call` and `expect`. Prints one line of JSON. Standard
library only, Python 3.9 or newer.
"""

from __future__ import annotations

import importlib
import json
import sys
import sysconfig
import traceback


def main(question: dict[str, object]) -> dict[str, object]:
    """What happened: imported modules, the call's value, the error if one came, the libraries."""
    answer: dict[str, object] = {"imported": [], "value": "", "error": ""}
    site = sysconfig.get_paths()["platlib"]
    try:
        names = list(question["imports"])  # type: ignore[call-overload]
        modules = {name: importlib.import_module(name) for name in names}
        answer["imported"] = names
        if question["call"]:
            # The recipe's own expression, in the namespace of what it imported.
            answer["value"] = repr(eval(str(question["call"]), modules))  # noqa: S307
    except BaseException:  # noqa: BLE001 - whatever the package does, the parent is told
        answer["error"] = traceback.format_exc()
    answer["site"] = site
    answer["libraries"] = _loaded_libraries()
    return answer


def _loaded_libraries() -> list[str]:
    """Paths of the shared libraries mapped into this process, as the kernel states them."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        paths = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
    return sorted(path for path in paths if ".so" in path)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
