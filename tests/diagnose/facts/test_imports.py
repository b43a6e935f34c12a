"""What importing a package loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.environment import ask_environment
from cuwheel.diagnose.facts.imports import ask_package

if TYPE_CHECKING:
    from tests.support.diagnosed import Env

_ENVIRON = {"PATH": "/usr/bin:/bin"}
_OPENS = """
import ctypes, pathlib
there = pathlib.Path(__file__).parent
ctypes.CDLL(str(there / "first.so"))
def preload_more(): ctypes.CDLL(str(there / "second.so"))
"""


def test_tells_what_is_loaded_at_once_and_on_request(env: Env) -> None:
    libraries = {f"ext/{name}": env.compile(name, "") for name in ("first.so", "second.so")}
    env.install("ext", {"ext/__init__.py": _OPENS.encode(), **libraries})

    done = ask_package(("ext",), ask_environment(env.python, _ENVIRON), _ENVIRON)

    own = [path.name for path in done.libraries if path.parent.name == "ext"]
    later = [path.name for path in done.called_libraries if path.parent.name == "ext"]
    assert (own, later) == (["first.so"], ["first.so", "second.so"])
    assert done.call == "ext.preload_more()"


def test_tells_what_was_loaded_before_import_failed(env: Env) -> None:
    source = f"{_OPENS}\nraise ImportError('no driver')\n"
    libraries = {"ext/first.so": env.compile("first.so", "")}
    env.install("ext", {"ext/__init__.py": source.encode(), **libraries})

    done = ask_package(("ext",), ask_environment(env.python, _ENVIRON), _ENVIRON)

    assert "first.so" in [path.name for path in done.libraries]
    assert done.call == ""
