"""The result of a process, even where it crashes or prints much."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import SmokeError
from cuwheel.build.finish.smoke import probe
from cuwheel.build.finish.smoke.probes.smoke import answer_to
from cuwheel.build.pipeline.stages.smoke import smoke
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.smoke_tests import (
    refusal,
    save_wheel,
    target_of,
)
from tests.support.factories import (
    compile_library,
    make_job,
)

_ABSENT = "cannot open shared object file: No such file or directory"


def test_refuses_other_value_than_expected(workspace: Workspace, tmp_path: Path, lock: str) -> None:
    save_wheel(workspace, "def add(a, b): return a - b\n")
    target = target_of(tmp_path, lock, call="tiny_cuda.add(1, 2)", expect="3")

    assert "tiny_cuda.add(1, 2) returns -1, not 3" in refusal(target, workspace).why


def test_shows_the_end_of_the_traceback(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "raise RuntimeError('no luck today')\n")

    assert "RuntimeError: no luck today" in refusal(target, workspace).why


def test_hears_the_answer_of_a_noisy_package(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import atexit\nprint('{')\natexit.register(print, 'bye')\n")

    passed = smoke(make_job(target, workspace))

    assert passed.imported == ("tiny_cuda",)


def test_reports_where_the_interpreter_crashed(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import ctypes\nctypes.string_at(0)\n")

    with pytest.raises(SmokeError, match="the interpreter died") as caught:
        smoke(make_job(target, workspace))

    assert "SIGSEGV" in caught.value.why
    assert "tiny_cuda/__init__.py" in workspace.log("smoke").read_text()


def test_refuses_library_with_a_crashing_constructor(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "crash.c"
    source.write_text("__attribute__((constructor)) void run(void) { *(volatile int *)0 = 1; }\n")
    save_wheel(workspace, "", compile_library(tmp_path / "libcrash.so", "gcc", "-fPIC", source))

    assert (
        "loading tiny_cuda/libcrash.so crashes the interpreter: SIGSEGV"
        in refusal(target, workspace).why
    )


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        (f"ImportError: libcuda.so.1: {_ABSENT}", "install g++, or run this stage on a machine"),
        (f"ImportError: libnvidia-ml.so.1: {_ABSENT}", "let the package load it on first use"),
        ("OSError: a.so: undefined symbol: cuMemCreate", 'add "driver" to the recipe\'s `link`'),
        (
            "OSError: a.so: undefined symbol: cublasCreate_v2",
            "declare the component that defines this",
        ),
    ],
)
def test_gives_a_fix_for_the_driver(line: str, fix: str) -> None:
    assert fix in probe._hint(line)


@pytest.mark.parametrize(("states", "name"), [("0001", "wave"), ("0000", ""), ("11", "")])
def test_names_import_that_turns_the_gil_on(
    monkeypatch: pytest.MonkeyPatch, states: str, name: str
) -> None:
    turns = map(int, states)
    monkeypatch.setattr("sys._is_gil_enabled", lambda: next(turns), raising=False)
    monkeypatch.setattr("gc.collect", lambda: 0)
    nothing = {"ahead": "", "stub": "", "call": "", "script": "", "libraries": ()}

    answer = answer_to({**nothing, "imports": ("json", "wave")})

    assert (answer["failure"], answer["turned_gil_on"]) == ("", name)
