"""Requirements of a package by its build backend's hooks (PEP 517).

Run by path with the build environment's interpreter, in a copy of the source: `python backend.py
QUESTION ANSWER`. QUESTION is JSON with `module`, `object` (inside of it), `backend_path`, and
`metadata`, a folder for the wheel's metadata, empty where that isn't needed; ANSWER is the file
that gets `build` and `run`, lists of requirements, the second None where the backend has no such
hook. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from email.parser import Parser


def answer_to(question: dict[str, str | list[str]]) -> dict[str, list[str] | None]:
    """Return the requirements by the two hooks."""
    sys.path[:0] = [os.path.abspath(path) for path in question["backend_path"]]  # noqa: PTH100
    backend = importlib.import_module(str(question["module"]))
    for name in str(question["object"]).split("."):
        backend = getattr(backend, name) if name else backend
    get_requires = getattr(backend, "get_requires_for_build_wheel", None)
    build = list(get_requires({})) if get_requires else []
    prepare = getattr(backend, "prepare_metadata_for_build_wheel", None)
    folder = str(question["metadata"])
    if not folder or prepare is None:
        return {"build": build, "run": None}
    path = os.path.join(folder, prepare(folder, {}), "METADATA")  # noqa: PTH118
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123
        run = Parser().parse(stream, headersonly=True).get_all("Requires-Dist")
    return {"build": build, "run": list(run or [])}


if __name__ == "__main__":
    _, question, path = sys.argv  # setuptools leaves other arguments behind
    answer = json.dumps(answer_to(json.loads(question)))
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(answer)
