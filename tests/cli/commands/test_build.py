"""What a build refuses before it begins, and `smoke` on wheels without their work folders."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    PreflightError,
    RecipeError,
    SourceError,
    TargetRootError,
    UsageError,
)
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.engine import PACKAGES, Engine, use_environment

_ARM64 = ("--platform", "linux_aarch64")


@pytest.fixture
def build(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Build tiny-skbuild with the engine's folders."""

    def run(*options: str, target: str = "tiny-skbuild-130", **variables: str) -> None:
        use_environment(engine, monkeypatch, **variables)
        folders = ("--work", str(engine.work), "--dist", str(engine.dist))
        source = ("--source", str(PACKAGES / "tiny_skbuild"))
        run_command("build", [target, *folders, *source, *options], Console())

    return run


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--archs", "90"), UsageError, 'did you mean "--arch"?'),
        (("--python", "snake"), UsageError, "--python snake is neither a version nor a path"),
        (("--jobs", "²"), UsageError, "--jobs: ² is not a positive number"),
        (
            ("--framework", "torch==2.*"),
            UsageError,
            "--framework torch==2.* is not a pinned version",
        ),
        (("--framework", "torch==2.11.0"), UsageError, "it is compiled against no framework"),
        (("--arch", "70"), RecipeError, "cannot compile for sm_70"),
        (("--arch", "sm_90"), RecipeError, 'write sm_90 as "90"'),
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
        build("--host-compiler", "system", CXX=str(newer))

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
    output = capsys.readouterr().err
    assert "stopped after source" in output
    assert "source: kept from the interrupted run" in output


@pytest.mark.parametrize(
    "options",
    [
        ("--arch", "9.0"),
        ("--arch", "91"),
        ("--python", "3.7"),
        ("--python", "3.99"),
        ("--framework", "torch==9"),
        ("--source", "/nonexistent"),
        ("--until", "build", "--arch", "9.0"),
        ("--stage", "build", "--arch", "9.0"),
        ("--stage", "smoke", "--until", "build"),
        ("--dry-run", "--arch", "9.0"),
    ],
)
@pytest.mark.parametrize("session", ["build", "smoke", "profile", "verify"])
def test_wrong_command_line_leaves_no_state(
    session: str,
    options: tuple[str, ...],
    copied: Callable[[str], Engine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = copied("tiny-capi")
    engine.work.mkdir()
    use_environment(engine, monkeypatch)
    folder, before = engine.dist.parent, _content(engine.dist.parent)
    words = ["tiny-capi-130", "--work", str(engine.work), *options]
    words += [] if session == "verify" else ["--dist", str(engine.dist)]

    with pytest.raises(CuwheelError):
        run_command(session, words, Console())

    assert _content(folder) == before


def test_dry_run_tells_needs_and_leaves_no_state(
    copied: Callable[[str], Engine],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = copied("tiny-capi")
    use_environment(engine, monkeypatch)
    before = _content(engine.dist.parent)
    folders = ("--work", str(engine.work), "--dist", str(engine.dist))

    run_command("build", ["tiny-capi-130", *folders, "--dry-run", "--no-cache"], Console())

    assert _content(engine.dist.parent) == before
    printed = capsys.readouterr().err
    for fact in ("archs     sm_", "time      ", "memory    ", "disk      ", "download  the source"):
        assert fact in printed


def _content(folder: Path) -> dict[Path, bytes]:
    """Every path below a folder, with its bytes where it is a file."""
    return {
        path: path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


@pytest.fixture
def published(copied: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine with a published wheel, and no work folder."""
    engine = copied("tiny-capi")
    use_environment(engine, monkeypatch)
    return engine


def _run(session: str, engine: Engine, *options: str) -> None:
    folders = ("--work", str(engine.work), "--dist", str(engine.dist))
    source = ("--source", str(PACKAGES / "tiny_capi"), "--python", sys.executable)
    run_command(session, ["tiny-capi-130", *folders, *source, *options], Console())


def test_names_wheel_as_it_is_typed_where_nox_was_started(
    published: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(published.dist.parent))

    _run("build", published)

    [wheel] = published.dist.glob("*.whl")
    assert f" {published.dist.name}/{wheel.name}\n" in capsys.readouterr().err


def test_tries_published_wheel_without_work_folder(
    published: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("smoke", published, "--json")

    assert '"imported": ["tiny_capi"]' in capsys.readouterr().out


def test_tries_wheel_that_has_its_statement_alone(
    published: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(published.dist / ".cuwheel")

    _run("smoke", published, "--json")

    assert '"imported": ["tiny_capi"]' in capsys.readouterr().out


@pytest.mark.parametrize("stage", ["audit", "smoke"])
def test_single_stage_reads_published_wheel(
    stage: str, published: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("build", published, "--stage", stage)

    assert f'"stage": "{stage}"' in capsys.readouterr().out


def test_interrupted_run_can_go_on_behind_a_smoke_test(published: Engine) -> None:
    _run("build", published, "--no-cache", "--until", "patch")
    before = _content(published.work)

    _run("smoke", published)

    assert _content(published.work) == before


def test_refuses_wheel_with_other_bytes(published: Engine) -> None:
    [wheel] = published.wheels()
    wheel.write_bytes(wheel.read_bytes() + b"x")

    with pytest.raises(UsageError):
        _run("smoke", published)


def test_refuses_folder_that_is_missing(published: Engine) -> None:
    with pytest.raises(UsageError) as caught:
        _run("smoke", published, "--dist", str(published.dist / "missing"))

    assert str(published.dist / "missing") in caught.value.what
