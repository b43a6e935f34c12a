"""The sandbox's own script; what it keeps is tested with the other kind in tests/sandbox."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from cuwheel.base.paths import script
from cuwheel.base.system.process import Finished, run
from cuwheel.build.sandbox.namespaces.enter import REFUSED
from tests.support.requirements import require

# Ends the process where something is imported when the machine's files are out of sight: a Python
# outside of the sandbox would not find it. Python reports each import that it has to look for.
_WATCHED = """
import os, sys
state = {}
def watch(event, arguments):
    if event == "os.chdir":
        state["is_inside"] = True
    if event == "import" and state:
        os.write(1, b"imports %s\\n" % arguments[0].encode())
        os._exit(99)
sys.argv = sys.argv[1:]
sys.addaudithook(watch)
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))
"""
_SYSTEM = [["read", "/usr", "/usr"]] + [
    ["link", f"usr/{name}", f"/{name}"] for name in ("bin", "lib", "lib64")
]


def enter(
    *words: str,
    folder: str = "/usr",
    path: str = "/usr/bin:/bin",
    covered: tuple[str, ...] = (),
) -> Finished:
    """Run a program as the sandbox does, with a watch on imports."""
    require("sandbox", "that the sandbox's own script starts what it is given")
    mounts = [*_SYSTEM, *(["cover", name, name] for name in covered)]
    spec = json.dumps({"folder": folder, "filter": "", "mounts": mounts})
    entered = str(script("build/sandbox/namespaces/enter.py"))
    command = [sys.executable, "-I", "-c", _WATCHED, entered, spec, *words]
    return run(command, env={"PATH": path}, check=False)


@pytest.mark.parametrize(
    ("words", "options", "expected"),
    [
        (("sh", "-c", "echo $0 $1; exit 3", "zero", "one"), {}, (3, "zero one\n")),
        (
            *(("sh", "-c", "echo found"), {"path": "/lost:/usr/share:/usr/bin"}),
            (0, "found\n"),
        ),
        (  # a covered file that has gone away
            *(("sh", "-c", "wc -c < /usr/bin/env"),),
            *({"covered": ("/usr/shadow.lock", "/usr/bin/env")}, (0, "0\n")),
        ),
    ],
    ids=("by its name", "in the first folder of PATH", "covered"),
)
def test_runs_program_and_imports_nothing(
    words: tuple[str, ...], options: dict[str, Any], expected: tuple[int, str]
) -> None:
    done = enter(*words, **options)

    assert (done.status, done.output) == expected


@pytest.mark.parametrize(
    ("program", "why"),
    [("nonesuch", "No such file or directory"), ("/usr/share", "Permission denied")],
)
def test_names_program_that_can_not_be_run(program: str, why: str) -> None:
    done = enter(program)

    assert (done.status, done.output) == (127, f"{program}: {why}\n")


def test_takes_words_that_are_no_text() -> None:
    odd = "\udcff ü"

    assert enter("printf", "%s", odd).output == "\N{REPLACEMENT CHARACTER} ü"


def test_refuses_folder_that_is_not_there() -> None:
    done = enter("true", folder="/lost")

    assert done.status == REFUSED
    assert done.output.startswith("no sandbox available: [Errno 2] No such file or directory")
