"""Ask a package's build backend what it requires, in the environment that it will build in.

Run by path with that environment's interpreter, in a copy of the source: `python backend.py
QUESTION ANSWER`. QUESTION is JSON with `module`, `object` (inside of it), `backend_path`, and
`metadata`, a folder for the wheel's metadata, or empty where nobody asks for it; ANSWER is the file
that gets `build` and `run`, lists of requirements, the second None where the backend has no such
hook (PEP 517). Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from email.parser import Parser


def answer_to(question: dict[str, str | list[str]]) -> dict[str, list[str] | None]:
    """What the two hooks say."""
    sys.path[:0] = [os.path.abspath(path) for path in question["backend_path"]]  # noqa: PTH100
    backend = importlib.import_module(str(question["module"]))
    for name in str(question["object"]).split("."):
        backend = getattr(backend, name) if name else backend
    ask = getattr(backend, "get_requires_for_build_wheel", None)
    build = list(ask({})) if ask else []
    prepare = getattr(backend, "prepare_metadata_for_build_wheel", None)
    folder = str(question["metadata"])
    if not folder or prepare is None:
        return {"build": build, "run": None}
    path = os.path.join(folder, prepare(folder, {}), "METADATA")  # noqa: PTH118
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123
        run = Parser().parse(stream, headersonly=True).get_all("Requires-Dist")
    return {"build": build, "run": list(run or [])}


if __name__ == "__main__":
    _, asked, written = sys.argv  # setuptools leaves other arguments behind
    said = json.dumps(answer_to(json.loads(asked)))
    with open(written, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(said)
