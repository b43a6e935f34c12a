"""Libraries that the import of a package loads."""

from __future__ import annotations

from pathlib import Path

from cuwheel.check.diagnose.facts.environment import read_environment
from cuwheel.check.diagnose.facts.imports import PackageImport, import_package
from tests.support.check.environments import Env

_ENVIRON = {"PATH": "/usr/bin:/bin"}
_OPENS = """
import ctypes, pathlib
there = pathlib.Path(__file__).parent
ctypes.CDLL(str(there / "first.so"))
def preload_more(): ctypes.CDLL(str(there / "second.so"))
"""


def import_ext(env: Env, source: str) -> PackageImport:
    libraries = {f"ext/{name}": env.compile(name, "") for name in ("first.so", "second.so")}
    env.install("ext", {"ext/__init__.py": source.encode(), **libraries})
    return import_package(("ext",), (), read_environment(env.python, _ENVIRON), _ENVIRON)


def names(paths: tuple[Path, ...]) -> list[str]:
    return [path.name for path in paths if path.parent.name == "ext"]


def test_lists_libraries_of_import_and_of_function(env: Env) -> None:
    result = import_ext(env, _OPENS)

    assert names(result.libraries) == ["first.so"]
    assert names(result.called_libraries) == ["first.so", "second.so"]
    assert result.call == "ext.preload_more()"


def test_lists_libraries_from_before_import_failed(env: Env) -> None:
    result = import_ext(env, f"{_OPENS}\nraise ImportError('no driver')\n")

    assert (names(result.libraries), result.call) == (["first.so"], "")
