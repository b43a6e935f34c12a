"""What a build refuses before it begins, in this process: no engine is started for a wrong word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    PreflightError,
    SourceError,
    TargetRootError,
    UnsupportedArchError,
    UsageError,
)
from cuwheel.system.console import Console
from tests.support.engine import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.engine import Engine


_ARM64 = ("--platform", "linux_aarch64")


@pytest.fixture
def build(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Build tiny-skbuild with the engine's folders."""

    def run(*options: str, target: str = "tiny-skbuild-130", **variables: str) -> None:
        for name, value in engine.environment(**variables).items():
            monkeypatch.setenv(name, value)
        folders = ("--work", str(engine.work), "--dist", str(engine.dist))
        source = ("--source", str(PACKAGES / "tiny_skbuild"))
        run_command("build", [target, *folders, *source, *options], Console())

    return run


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--archs", "90"), UsageError, 'did you mean "--arch"?'),
        (("--python", "snake"), UsageError, "--python snake is neither a release nor a path"),
        (("--jobs", "²"), UsageError, "--jobs ² is not a number of compiles"),
        (
            ("--framework", "torch==2.*"),
            UsageError,
            "--framework torch==2.* is not a pinned version",
        ),
        (("--framework", "torch==2.11.0"), UsageError, "it is compiled against no framework"),
        (("--arch", "70"), UnsupportedArchError, "cannot compile for sm_70"),
        (("--arch", "sm_90"), UnsupportedArchError, 'write sm_90 as "90"'),
        (("--python", "3.99"), InterpreterNotFoundError, "no Python 3.99 was found"),
        (("--source", "/nonexistent"), SourceError, "/nonexistent doesn't exist"),
        (("--platform", "arm64"), UsageError, "invalid choice: 'arm64'"),
        (_ARM64, TargetRootError, "neither --target-root nor CUWHEEL_TARGET_ROOT names one"),
        (
            (*_ARM64, "--target-root", "/nonexistent"),
            TargetRootError,
            "/nonexistent is not a folder",
        ),
        ((*_ARM64, "--target-root", "/"), TargetRootError, "for aarch64"),
    ],
)
def test_refuses_option(
    build: Callable[..., None], options: tuple[str, ...], kind: type[CuwheelError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        build(*options)

    assert words in str(caught.value)


def test_names_nearest_target_of_project(build: Callable[..., None]) -> None:
    with pytest.raises(UsageError) as caught:
        build(target="tiny-skbild-130")

    assert caught.value.why == 'did you mean "tiny-skbuild-130"?'


def test_refuses_compiler_that_nvcc_does_not_take(
    build: Callable[..., None], tmp_path: Path
) -> None:
    newer = tmp_path / "g++"
    newer.write_text('#!/bin/sh\ncase "$1" in -dump*) echo 16.1.0;; *) exec g++ "$@";; esac\n')
    newer.chmod(0o755)

    with pytest.raises(PreflightError) as caught:
        build(CXX=str(newer))

    assert "supports GCC up to 15" in str(caught.value)


def test_stops_after_a_stage_and_goes_on_from_there(
    build: Callable[..., None], engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    build("--until", "source")
    [work] = (path for path in engine.work.iterdir() if path.is_dir())
    first = {path.stem for path in (work / "stages").iterdir()}

    build("--until", "patch")

    assert first == {"source"}
    assert {path.stem for path in (work / "stages").iterdir()} == {"source", "patch"}
    said = capsys.readouterr().err
    assert "stopped after source" in said
    assert "source: kept from the interrupted run" in said
