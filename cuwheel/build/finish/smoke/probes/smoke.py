"""Import modules in a clean interpreter and report which shared libraries got loaded, from where.

Run by path with the interpreter of the environment: `python -I smoke.py REQUEST ANSWER`. REQUEST is
JSON with `ahead`, a folder that precedes all others on the path, or nothing; `imports`, `call`,
`script` (a file to run), `libraries`, and `stub`, a library to load before all others. ANSWER gets
the JSON answer, as the package may print anything.
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


def answer_to(request: dict[str, object]) -> dict[str, object]:
    """Return imported modules, the call's value, the failure, every loaded library."""
    imported: list[str] = []
    value = failure = turned_gil_on = ""
    if request["ahead"]:
        sys.path.insert(0, str(request["ahead"]))
    try:
        if request["stub"]:
            # Every later load of `libcuda.so.1` gets it: a soname is looked up among the loaded
            # libraries before any folder is searched.
            ctypes.CDLL(str(request["stub"]))
        namespace: dict[str, object] = {}
        # Collecting garbage all the time takes a fifth of PyTorch's import: once is enough.
        gc.disable()
        for name in list(request["imports"]):  # type: ignore[call-overload]
            is_without = not has_gil()
            importlib.import_module(name)
            if is_without and has_gil():
                turned_gil_on = name
            top = name.partition(".")[0]
            namespace[top] = sys.modules[top]
            imported.append(name)
        gc.enable()
        gc.collect()
        if request["call"]:
            value = repr(eval(str(request["call"]), namespace))  # noqa: S307 - the recipe's own
        if request["script"]:
            runpy.run_path(str(request["script"]), run_name="__main__")
        for name in list(request["libraries"]):  # type: ignore[call-overload]
            # All symbols now: a missing one would show only when the code is used, on a GPU.
            site = os.path.realpath(sysconfig.get_paths()["platlib"])
            ctypes.CDLL(os.path.join(site, name), mode=os.RTLD_NOW)  # noqa: PTH118
    except BaseException:  # noqa: BLE001 - reported to the caller
        failure = traceback.format_exc()
    return {
        "imported": imported,
        "value": value,
        "failure": failure,
        "turned_gil_on": turned_gil_on,
        "suffixes": importlib.machinery.EXTENSION_SUFFIXES,
        "sources": sorted(filter(None, (_source(module) for module in [*sys.modules.values()]))),
        "libraries": loaded_libraries(),
    }


def has_gil() -> bool:
    """Return False where threads run Python code at once: a free-threaded release, 3.13 or newer.

    An extension module that doesn't declare `Py_MOD_GIL_NOT_USED` turns the lock on:
    https://docs.python.org/3/howto/free-threading-extensions.html
    """
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _source(module: object) -> str:
    """Return the file of a module that is written in Python."""
    path = getattr(module, "__file__", None)
    return path if isinstance(path, str) and path.endswith(".py") else ""


def loaded_libraries() -> list[str]:
    """Return the paths of the shared libraries in this process's memory: proc_pid_maps(5)."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        fields = [line.rstrip("\n").split(None, 5) for line in maps]
    paths = {parts[5] for parts in fields if len(parts) > 5}  # noqa: PLR2004 - has a path
    return sorted(path for path in paths if ".so" in os.path.basename(path))  # noqa: PTH119


if __name__ == "__main__":
    # The loader has read these, and bwrap(1) sets the last; no package should see them.
    for name in ("LD_DEBUG", "LD_DEBUG_OUTPUT", "PWD"):
        os.environ.pop(name, None)
    faulthandler.enable()  # a crash names the line that it came from
    written = json.dumps(answer_to(json.loads(sys.argv[1])))
    with open(sys.argv[2], "w", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(written)
    # Without the end of the interpreter, which takes half a second with a framework.
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(0)
