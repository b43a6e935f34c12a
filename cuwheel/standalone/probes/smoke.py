"""Import modules in a clean interpreter and say which shared libraries got loaded, from where.

Run by path with the interpreter of the environment to look at: `python -I smoke_probe.py QUESTION
ANSWER`. QUESTION is JSON with `imports`, `call`, `script` (a file to run), `libraries`,
and `stub`, a library to load before all others; ANSWER is the file that gets the JSON answer, as
the package may print what it likes.
Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import importlib.machinery
import json
import os
import runpy
import sys
import sysconfig
import traceback


def answer_to(question: dict[str, object]) -> dict[str, object]:
    """What happened: imported modules, the call's value, the failure, every loaded library."""
    imported: list[str] = []
    value = failure = ""
    try:
        if question["stub"]:
            # What asks for `libcuda.so.1` from now on gets it: a soname is looked up among what is
            # loaded before any folder is searched.
            ctypes.CDLL(str(question["stub"]))
        namespace: dict[str, object] = {}
        # Looking for garbage all the time takes a fifth of PyTorch's import: once is enough.
        gc.disable()
        for name in list(question["imports"]):  # type: ignore[call-overload]
            importlib.import_module(name)
            top = name.partition(".")[0]
            namespace[top] = sys.modules[top]
            imported.append(name)
        gc.enable()
        gc.collect()
        if question["call"]:
            value = repr(eval(str(question["call"]), namespace))  # noqa: S307 - the recipe's own
        if question["script"]:
            runpy.run_path(str(question["script"]), run_name="__main__")
        for name in list(question["libraries"]):  # type: ignore[call-overload]
            # All symbols now: a missing one would show only when the code is used, on a GPU.
            ctypes.CDLL(os.path.join(_site(), name), mode=os.RTLD_NOW)  # noqa: PTH118
    except BaseException:  # noqa: BLE001 - whatever the package does, the caller is told
        failure = traceback.format_exc()
    return {
        "imported": imported,
        "value": value,
        "failure": failure,
        "suffixes": importlib.machinery.EXTENSION_SUFFIXES,
        "sources": sorted(filter(None, (_source(module) for module in [*sys.modules.values()]))),
        "libraries": loaded_libraries(),
    }


def _source(module: object) -> str:
    """The file of a module that is written in Python."""
    path = getattr(module, "__file__", None)
    return path if isinstance(path, str) and path.endswith(".py") else ""


def _site() -> str:
    return os.path.realpath(sysconfig.get_paths()["platlib"])


def loaded_libraries() -> list[str]:
    """Paths of the shared libraries that are mapped into this process: proc_pid_maps(5)."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        fields = [line.rstrip("\n").split(None, 5) for line in maps]
    paths = {parts[5] for parts in fields if len(parts) > 5}  # noqa: PLR2004 - has a path
    return sorted(path for path in paths if ".so" in os.path.basename(path))  # noqa: PTH119


if __name__ == "__main__":
    # The loader has read these, and bwrap(1) sets the last; no package should know them.
    for name in ("LD_DEBUG", "LD_DEBUG_OUTPUT", "PWD"):
        os.environ.pop(name, None)
    faulthandler.enable()  # a crash names the line that it came from
    written = json.dumps(answer_to(json.loads(sys.argv[1])))
    with open(sys.argv[2], "w", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(written)
    # All has been said; a framework takes half a second to take itself apart.
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(0)
