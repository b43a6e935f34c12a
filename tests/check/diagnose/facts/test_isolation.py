"""Causes that only experiments show: each planted into an import that fails, and found."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.check.diagnose.facts import isolation
from cuwheel.check.diagnose.verdict import Diagnosis
from tests.support.check.environments import Env, look_into

_READS = """
import json, pathlib
path = pathlib.Path.home() / ".ext/settings.json"
if path.exists(): json.loads(path.read_text())
"""
_ODD = "raise ValueError('odd')\n"
_TRIES = "try:\n    import {}\nexcept ImportError:\n    pass\n"


def put_ext(env: Env, source: str, **wheel: object) -> None:
    files: dict[str, bytes | Path] = {
        "ext/__init__.py": source.encode(),
        "ext/libext.so": env.extension("", "libcuda.so.1"),
    }
    env.install("ext", files, **wheel)


def in_settings(env: Env) -> Path:
    put_ext(env, _READS)
    (env.folder / ".ext").mkdir()
    (env.folder / ".ext/other.json").write_text("{}")
    (env.folder / ".ext/settings.json").write_text("{")
    return env.folder / ".ext/settings.json"


def in_optional_package(env: Env) -> Path:
    put_ext(env, _TRIES.format("odd"))
    env.install("odd", {"odd/__init__.py": _ODD.encode()})
    env.install("fine", {"fine/__init__.py": b""})
    return env.site / "odd"


def in_plugin(env: Env) -> Path:
    loads = "import importlib.metadata as m\n"
    loads += "for d in m.distributions():\n    [e.load() for e in d.entry_points if e.group == 'g']"
    put_ext(env, loads)
    metadata = {"odd-1.2.3.dist-info/entry_points.txt": b"[g]\na = odd\n"}
    env.install("odd", {"odd/__init__.py": _ODD.encode(), **metadata})
    return env.site / "odd"


def in_lost_file(env: Env) -> Path:
    put_ext(env, _TRIES.format("loose"))
    (env.site / "loose.py").write_text(_ODD)
    return env.site / "loose.py"


def in_startup_file(env: Env) -> Path:
    put_ext(env, "import os\nos.getcwdb\n")
    (env.site / "a.pth").write_text("import os; vars(os).pop('getcwdb', None)\n")
    (env.site / "b.pth").write_text("import os; os.b = 1\n")
    return env.site / "a.pth"


def in_namespace(env: Env) -> Path:
    """A plugin in a folder of plugins, which is no module of its own."""
    loads = "import pkgutil, plugs\nfor m in pkgutil.iter_modules(plugs.__path__):\n"
    put_ext(env, f"{loads}    __import__('plugs.' + m.name)\n")
    env.install("odd", {"plugs/odd/__init__.py": _ODD.encode()})
    env.install("fine", {"plugs/fine/__init__.py": b""})
    return env.site / "odd"


@pytest.mark.parametrize(
    "plant",
    [in_settings, in_optional_package, in_plugin, in_lost_file, in_startup_file, in_namespace],
    ids=lambda plant: plant.__name__,
)
def test_finds_cause_whose_removal_helps(env: Env, plant: Callable[[Env], Path]) -> None:
    path = plant(env)
    before = {file: file.stat().st_mtime_ns for file in env.folder.rglob("*")}

    found, *others = faults(env, PYTHONDONTWRITEBYTECODE="1")

    assert not others, [found, others]
    assert str(path) in found.cause or f"without {path.name} " in found.cause, found
    changed = {
        file for file in env.folder.rglob("*") if file.stat().st_mtime_ns != before.get(file)
    }
    assert changed <= {env.folder / "made"}, "no experiment writes"
    env.shell(found.command)
    assert faults(env) == []


def test_names_file_behind_folder_of_variable(env: Env) -> None:
    put_ext(env, "import helper\nhelper.help\n")
    env.install("helper", {"helper.py": b"help = 1\n"})
    (env.folder / "more").mkdir()
    (env.folder / "more/helper.py").write_text("")

    found = faults(env, PYTHONPATH=str(env.folder / "more"))

    assert any(str(env.folder / "more/helper.py") in one.cause for one in found)
    assert {one.command for one in found} == {"unset PYTHONPATH"}


def test_names_file_of_failure_without_cause(env: Env) -> None:
    put_ext(env, "import helper\n", requires=("helper",))
    env.install("helper", {"helper/__init__.py": _ODD.encode()})

    [found] = faults(env)

    assert "helper/__init__.py of helper 1.2.3" in found.cause


def test_tries_what_explains_another_failure(env: Env) -> None:
    """Of the second one the message and the traceback don't lead to the file."""
    in_lost_file(env)
    tries = "bad = 0\ntry:\n    import loose\nexcept ImportError:\n    pass\nexcept ValueError:\n"
    tries += "    bad = 1\nif bad: raise OSError('no way')\n"
    library = env.extension("", "libcuda.so.1")
    env.install("second", {"second/__init__.py": tries.encode(), "second/lib.so": library})

    found = faults(env)

    assert [str(env.site / "loose.py") in one.cause for one in found] == [True, True]
    assert len({one.command for one in found}) == 1


def test_makes_no_experiment_where_all_works(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.Isolator, "isolate", None)
    put_ext(env, _READS + _TRIES.format("odd"))
    started = time.monotonic()

    assert faults(env) == []
    assert time.monotonic() - started < 10


def faults(env: Env, **variables: str) -> list[Diagnosis]:
    report = look_into(env, recipes=(), **variables)
    return [one for one in report.verdicts if one.level in {"warning", "broken"}]


def test_says_that_the_search_ended_at_its_limit(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    in_optional_package(env)
    monkeypatch.setattr(isolation, "_RUNS", 1)

    [found] = faults(env)

    assert "ended at its limit" in found.cause
