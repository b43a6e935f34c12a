"""`-q`, `-v` and `--json`: the same words in every session that reports something."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import CuwheelError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.process import run
from cuwheel.build.recipe.nox_sessions import VERBS
from cuwheel.cli.dispatch import parser_of, run_command
from tests.support.documents import read_document
from tests.support.engine import Engine, use_environment
from tests.support.factories import write_wheel

# Of those that maintain something, these look at it.
_LOOKING = {"cache", "index", "lock-check", "lock-verify", "outdated", "release"}
_SERVING = {"mcp"}  # whose answers are a protocol's
REPORTING = [
    one.name
    for one in VERBS
    if (one.tag != "maintain" or one.name in _LOOKING) and one.name not in _SERVING
]
_NAMED = {
    "build": ["x-130"],
    "audit": ["x.whl"],
    "explain": ["x.log"],
    "lock-verify": ["all"],
    "pick": ["torch"],
    "slim": ["x.whl"],
    "attestations": ["x.whl", "--policy", "rebuilders.txt"],
}
LOG = ROOT / "tests" / "logs" / "raw" / "nvcc-not-found--make.log"
TINY = f"--source={ROOT / 'tests' / 'packages' / 'tiny_capi'}"


@pytest.mark.parametrize("option", ["--quiet", "-q", "--verbose", "-v", "--json"])
@pytest.mark.parametrize("name", REPORTING)
def test_session_understands(name: str, option: str) -> None:
    args = parser_of(name).parse([*_NAMED.get(name, []), option])

    long = {"-q": "quiet", "-v": "verbose"}.get(option, option.strip("-"))
    assert getattr(args, long) is True


@pytest.mark.parametrize("name", REPORTING)
def test_session_prints_much_or_little(name: str) -> None:
    with pytest.raises(UsageError, match="not allowed with"):
        parser_of(name).parse([*_NAMED.get(name, []), "-q", "-v"])


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with findings of the audit."""
    return write_wheel(tmp_path, {"tests/__init__.py": b""}, name="pkg", tag="py3-none-any")


def output_of(capsys: pytest.CaptureFixture[str], name: str, *options: str) -> tuple[str, str]:
    """Standard output and standard error of a session, and of the error that it ends with."""
    try:
        run_command(name, options, Console())
    except CuwheelError as error:
        return capsys.readouterr().out, str(error)
    written = capsys.readouterr()
    return written.out, written.err


@pytest.mark.parametrize(
    "name", ["audit", "cache", "diagnose", "explain", pytest.param("matrix", marks=pytest.mark.e2e)]
)
def test_gives_nothing_but_data(
    name: str, wheel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(wheel.parent / "cache"))
    words = {"audit": [str(wheel)], "explain": [str(LOG)], "matrix": ["--only=cutensornet-*"]}

    out, _ = output_of(capsys, name, *words.get(name, []), "--json")

    assert read_document(out, name)


@pytest.mark.parametrize("options", [("--dry-run",), ()])
def test_build_gives_nothing_but_data(
    options: tuple[str, ...], copied: Callable[[str], Engine]
) -> None:
    """Up to date; from a process of its own, as libraries may write to its standard output."""
    engine = copied("tiny-capi")
    words = ["build", "tiny-capi-130", f"--work={engine.work}", f"--dist={engine.dist}", "--json"]
    words += [TINY, *options]

    done = run(
        [sys.executable, "-m", "cuwheel", *words],
        env=engine.environment(),
        error_log=engine.dist / "stderr",
    )

    result = read_document(done.output, "build")
    assert result["state"] == ("up to date" if options else "built")


def test_part_of_a_build_reports_wheel_that_is_there(
    copied: Callable[[str], Engine],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a container runs it: no other part comes after this one."""
    engine = copied("tiny-capi")
    words = [f"--work={engine.work}", f"--dist={engine.dist}", "--part=preflight"]
    use_environment(engine, monkeypatch)

    out, err = output_of(capsys, "build", "tiny-capi-130", TINY, *words)

    [wheel] = engine.wheels()
    assert out == ""
    assert f"pip install {wheel}" in " ".join(err.split())


def test_profile_gives_nothing_but_data(
    built: Callable[[str], Engine],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = built("tiny-capi")
    for logs in engine.work.glob("*/logs"):
        shutil.copytree(logs, tmp_path / "work" / logs.relative_to(engine.work))
    use_environment(engine, monkeypatch)

    out, _ = output_of(capsys, "profile", "tiny-capi-130", f"--work={tmp_path / 'work'}", "--json")

    assert read_document(out, "profile")["target"].startswith("tiny-capi-130")


def test_stage_gives_its_record(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"--work={engine.work}", f"--dist={engine.dist}", "--stage=source", "--json"]
    use_environment(engine, monkeypatch)

    out, _ = output_of(capsys, "build", "tiny-capi-130", TINY, *words)

    assert read_document(out, "stage")["stage"] == "source"


@pytest.mark.e2e
def test_smoke_gives_nothing_but_data(engine: Engine) -> None:
    assert engine.build("tiny-capi", "--keep-work").status == 0
    words = ["smoke", "tiny-capi-130", f"--work={engine.work}", "--json"]

    done = run(
        [sys.executable, "-m", "cuwheel", *words, TINY],
        env=engine.environment(),
        error_log=engine.dist / "stderr",
    )

    assert read_document(done.output, "smoke")["smoke"]["imported"] == ["tiny_capi"]


def test_dry_run_prints_the_reasons(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"--work={engine.work}", f"--dist={engine.dist}", "--dry-run"]
    use_environment(engine, monkeypatch)

    out, err = output_of(capsys, "build", "tiny-capi-130", TINY, *words)

    assert (out, "a build now would run, because:" in err) == ("", True)
    assert not engine.work.exists()


@pytest.mark.parametrize(("columns", "letters"), [(40, "a-m"), (80, "n-z")])
def test_explain_keeps_to_the_width(
    columns: int,
    letters: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    logs = LOG.parent.glob(f"[{letters}]*pip*.log")
    texts = [output_of(capsys, "explain", str(log), "-v")[0] for log in logs]

    assert max(len(line) for text in texts for line in text.splitlines()) <= columns


def test_quiet_cache_prints_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path))
    shutil.copy(LOG, tmp_path)

    quiet, _ = output_of(capsys, "cache", "-q")
    usual, _ = output_of(capsys, "cache")

    assert quiet.startswith(f"{tmp_path}: ")
    assert quiet == usual.splitlines(keepends=True)[-1]


def test_any_wheel_is_held_to_no_recipe(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cuwheel.cli.commands.audit.load_catalogue", lambda _: 1 / 0)

    run_command("audit", ["--any-wheel", "--fail-on", "never", str(wheel)], Console())

    assert wheel.name in capsys.readouterr().out
