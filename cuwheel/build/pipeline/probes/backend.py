"""Requirements of a package by its build backend's hooks (PEP 517).

Run by path with the build environment's interpreter, in a copy of the source: `python backend.py
QUESTION ANSWER`. QUESTION is JSON with `module`, `object` (inside of it), `backend_path`, and
`metadata`, a folder for the wheel's metadata, empty where that isn't needed; ANSWER is the file
that gets `build` and `run`, lists of requirements, the second None where the backend has no such
hook; and of the extensions of a setup.py `sources`, relative to the package, and `standards`, the
C++ standards that it sets (`17`, an empty one where an extension sets none). Standard library only,
Python 3.9 or newer.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from email.parser import Parser
from typing import Any


def answer_to(question: dict[str, str | list[str]]) -> dict[str, list[str] | None]:
    """Return the requirements by the two hooks, and the standards."""
    sys.path[:0] = [os.path.abspath(path) for path in question["backend_path"]]  # noqa: PTH100
    backend = importlib.import_module(str(question["module"]))
    for name in str(question["object"]).split("."):
        backend = getattr(backend, name) if name else backend
    standards, sources = _recorded()
    get_requires = getattr(backend, "get_requires_for_build_wheel", None)
    build = list(get_requires({})) if get_requires else []
    run = None
    prepare = getattr(backend, "prepare_metadata_for_build_wheel", None)
    folder = str(question["metadata"])
    if folder and prepare:
        path = os.path.join(folder, prepare(folder, {}), "METADATA")  # noqa: PTH118
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            parsed = Parser().parse(stream, headersonly=True)
        run = list(parsed.get_all("Requires-Dist") or [])
    of_extensions = {"standards": sorted(standards), "sources": sorted(sources)}
    return {"build": build, "run": run, **of_extensions}


def _recorded() -> tuple[set[str], set[str]]:
    """Return sets that get standards and sources of all extensions that setup.py makes from now on.

    `extra_compile_args` is a list, or for PyTorch's builder a dict of lists by compiler.
    """
    standards: set[str] = set()
    sources: set[str] = set()
    extension = getattr(sys.modules.get("setuptools"), "Extension", None)
    if extension is None:
        return standards, sources
    make = extension.__init__

    def make_and_record(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        sources.update(os.path.relpath(path) for path in self.sources)
        words = self.extra_compile_args or []
        for part in words.values() if isinstance(words, dict) else [words]:
            text = " ".join(map(str, part))
            standards.update(re.findall(r"-std=(?:c|gnu)\+\+(\d\d)\b", text) or [""])

    extension.__init__ = make_and_record
    return standards, sources


if __name__ == "__main__":
    _, question, path = sys.argv  # setuptools leaves other arguments behind
    answer = json.dumps(answer_to(json.loads(question)))
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(answer)
