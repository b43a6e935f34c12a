"""What a process tells of what it imported, even where it crashes or is noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import SmokeError
from cuwheel.stages.smoke import smoke
from tests.support.factories import (
    compile_library,
    make_job,
)
from tests.support.smoked import (
    save_wheel,
    target_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace


def test_refuses_other_value_than_expected(workspace: Workspace, tmp_path: Path, lock: str) -> None:
    save_wheel(workspace, "def add(a, b): return a - b\n")
    target = target_of(tmp_path, lock, call="tiny_cuda.add(1, 2)", expect="3")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "tiny_cuda.add(1, 2) returns -1, not 3" in caught.value.why


def test_shows_the_end_of_the_traceback(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "raise RuntimeError('no luck today')\n")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "RuntimeError: no luck today" in caught.value.why


def test_hears_the_answer_of_a_noisy_package(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import atexit\nprint('{')\natexit.register(print, 'bye')\n")

    passed = smoke(make_job(target, workspace))

    assert passed.imported == ("tiny_cuda",)


def test_says_where_the_interpreter_crashed(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import ctypes\nctypes.string_at(0)\n")

    with pytest.raises(SmokeError, match="the interpreter died") as caught:
        smoke(make_job(target, workspace))

    assert "SIGSEGV" in caught.value.why
    assert "tiny_cuda/__init__.py" in workspace.log("smoke").read_text()


def test_refuses_library_whose_constructor_crashes(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "crash.c"
    source.write_text("__attribute__((constructor)) void run(void) { *(volatile int *)0 = 1; }\n")
    save_wheel(workspace, "", compile_library(tmp_path / "libcrash.so", "gcc", "-fPIC", source))

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "loading tiny_cuda/libcrash.so crashes the interpreter: SIGSEGV" in caught.value.why
