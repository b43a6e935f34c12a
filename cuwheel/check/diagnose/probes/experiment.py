"""Changes of one run of the probe, and a record of what it reads: they show why an import fails.

`environment.py` loads it where its request has `changes`:

- `path`: the folders that are searched for modules;
- `startup`: files that Python runs at its start, which it hasn't as it was started with `-S`;
- `hidden`: files and folders that imports, and searches for metadata, pass over.

Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.metadata
import os
import pkgutil
import sys

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Any

_EVENTS = frozenset({"open", "os.listdir", "os.mkdir", "os.scandir"})
_CODE = (".py", ".pyc", ".so")
_MOST = 2000  # files
_OPENED: dict[str, None] = {}


def prepare(changes: Mapping[str, Any]) -> None:
    """Make the changes, and record which files are opened from now on."""
    if "path" in changes:
        sys.path[:] = changes["path"]
    for file in changes.get("startup", ()):
        _run(file)
    if changes.get("hidden"):
        _hide(tuple(changes["hidden"]))
    sys.addaudithook(_record)


def record_of(errors: list[BaseException]) -> dict[str, object]:
    """Return what was read: files of data, and those of modules.

    Args:
        errors: of the failure, the first one that led to it last.
    """
    frames = dict.fromkeys(path for error in reversed(errors) for path in _files_of(error))
    tops = {name: module for name, module in list(sys.modules.items()) if "." not in name}
    origins = {name: getattr(module, "__file__", None) for name, module in tops.items()}
    return {
        "frames": list(frames),
        "opened": list(_OPENED),
        "origins": {name: str(file) for name, file in origins.items() if file},
    }


def _record(event: str, arguments: tuple[object, ...]) -> None:
    if event in _EVENTS and len(_OPENED) < _MOST and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if not path.endswith(_CODE) and not path.startswith(("/proc/", "/sys/", "/dev/")):
            _OPENED[os.path.abspath(path)] = None  # noqa: PTH100


def _files_of(error: BaseException) -> Iterator[str]:
    """Yield the files of an exception, the deepest first: one that isn't a module, then frames."""
    for name in ("path", "filename"):  # of an ImportError, and of a SyntaxError
        if isinstance(getattr(error, name, None), str):
            yield getattr(error, name)
    calls: list[str] = []
    trace: TracebackType | None = error.__traceback__
    while trace:
        calls.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    yield from reversed(calls)


def _run(file: str) -> None:
    """Do what Python's start does with a `.pth`, or a module such as `sitecustomize`."""
    with open(file, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
        text = stream.read()
    lines = text.splitlines() if file.endswith(".pth") else [text]
    for line in lines:
        if not file.endswith(".pth") or line.startswith(("import ", "import\t")):
            with contextlib.suppress(Exception):  # Python goes on without it too
                exec(compile(line, file, "exec"), {"__name__": "site", "__file__": file})  # noqa: S102


def _hide(hidden: tuple[str, ...]) -> None:
    find = importlib.metadata.MetadataPathFinder.find_distributions

    def is_hidden(path: object) -> bool:
        name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        return any(name == one or str(name).startswith(one + os.sep) for one in hidden)

    class Finder:
        """The first finder, which passes over what is hidden."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            """Return what comes after a hidden module.

            Raises:
                ModuleNotFoundError: nothing does.
            """
            entries = list(sys.path if path is None else path)
            spec = importlib.machinery.PathFinder.find_spec(name, entries, target)
            found = spec
            while found and is_hidden(found.origin or next(iter(_places(found)), "")):
                place = found.origin or next(iter(_places(found)))
                rest = [entry for entry in entries if not place.startswith(str(entry) + os.sep)]
                if len(rest) == len(entries):
                    rest = []
                entries = rest
                found = importlib.machinery.PathFinder.find_spec(name, entries, target)
            if spec and not found:
                raise ModuleNotFoundError("No module named %r" % name, name=name)  # noqa: UP031
            return found if found is not spec else None

    def find_distributions(*arguments: Any, **named: Any) -> Any:
        found = find(*arguments, **named)
        return (one for one in found if not is_hidden(getattr(one, "_path", "")))

    listed = pkgutil.iter_modules

    def iter_modules(*arguments: Any, **named: Any) -> Iterator[Any]:
        for module in listed(*arguments, **named):
            place = os.path.join(getattr(module.module_finder, "path", ""), module.name)  # noqa: PTH118
            if not is_hidden(place) and not is_hidden(place + ".py"):
                yield module

    pkgutil.iter_modules = iter_modules
    sys.meta_path.insert(0, Finder)
    setattr(importlib.metadata.MetadataPathFinder, "find_distributions", find_distributions)  # noqa: B010


def _places(spec: importlib.machinery.ModuleSpec) -> list[str]:
    return list(spec.submodule_search_locations or ())
