"""`-q`, `-v` and `--json`: the same words in every session that reports something."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import parser_of, run_command
from cuwheel.errors import CuwheelError, UsageError
from cuwheel.model.nox_sessions import VERBS
from cuwheel.paths import ROOT
from cuwheel.system.console import Console
from cuwheel.system.process import run
from tests.support.documents import read_document
from tests.support.factories import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.engine import Engine

# Of those that maintain something, these look at it.
_LOOKING = {"cache", "index", "lock-check", "lock-verify", "outdated", "release"}
REPORTING = [one.name for one in VERBS if one.tag != "maintain" or one.name in _LOOKING]
_NAMED = {
    "build": ["x-130"],
    "audit": ["x.whl"],
    "explain": ["x.log"],
    "lock-verify": ["all"],
    "pick": ["torch"],
    "attestations": ["x.whl", "--policy", "rebuilders.txt"],
}
LOG = ROOT / "tests" / "logs" / "raw" / "nvcc-not-found--make.log"


@pytest.mark.parametrize("option", ["--quiet", "-q", "--verbose", "-v", "--json"])
@pytest.mark.parametrize("name", REPORTING)
def test_session_understands(name: str, option: str) -> None:
    given = parser_of(name).parse([*_NAMED.get(name, []), option])

    long = {"-q": "quiet", "-v": "verbose"}.get(option, option.strip("-"))
    assert getattr(given, long) is True


@pytest.mark.parametrize("name", REPORTING)
def test_session_says_much_or_little(name: str) -> None:
    with pytest.raises(UsageError, match="not allowed with"):
        parser_of(name).parse([*_NAMED.get(name, []), "-q", "-v"])


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """One that the audit has something to say of."""
    return write_wheel(tmp_path, {"tests/__init__.py": b""}, name="pkg", tag="py3-none-any")


def said(capsys: pytest.CaptureFixture[str], name: str, *options: str) -> tuple[str, str]:
    """Standard output and standard error of a session, and of the error that it ends with."""
    try:
        run_command(name, options, Console())
    except CuwheelError as error:
        return capsys.readouterr().out, str(error)
    written = capsys.readouterr()
    return written.out, written.err


@pytest.mark.parametrize("name", ["audit", "cache", "diagnose", "explain", "matrix"])
def test_gives_nothing_but_data(
    name: str, wheel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(wheel.parent / "cache"))
    words = {"audit": [str(wheel)], "explain": [str(LOG)], "matrix": ["--only=cutensornet-*"]}

    out, _ = said(capsys, name, *words.get(name, []), "--json")

    assert read_document(out, name)


@pytest.mark.parametrize("options", [("--dry-run",), ()])
def test_build_gives_nothing_but_data(
    options: tuple[str, ...], copied: Callable[[str], Engine]
) -> None:
    """Up to date; from a process of its own, as libraries may write to its standard output."""
    engine = copied("tiny-capi")
    words = ["build", "tiny-capi-130", f"--work={engine.work}", f"--dist={engine.dist}", "--json"]
    words += [f"--source={ROOT / 'tests' / 'packages' / 'tiny_capi'}", *options]

    done = run(
        [sys.executable, "-m", "cuwheel", *words],
        env=engine.environment(),
        error_log=engine.dist / "stderr",
    )

    found = read_document(done.output, "build")
    assert found["state"] == ("up to date" if options else "built")


def test_part_of_a_build_tells_of_wheel_that_is_there(
    copied: Callable[[str], Engine],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a container runs it: no other part comes after this one."""
    engine = copied("tiny-capi")
    words = [f"--work={engine.work}", f"--dist={engine.dist}", "--part=preflight"]
    source = f"--source={ROOT / 'tests' / 'packages' / 'tiny_capi'}"
    for name, value in engine.environment().items():
        monkeypatch.setenv(name, value)

    out, err = said(capsys, "build", "tiny-capi-130", source, *words)

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
    for name, value in engine.environment().items():
        monkeypatch.setenv(name, value)

    out, _ = said(capsys, "profile", "tiny-capi-130", f"--work={tmp_path / 'work'}", "--json")

    assert read_document(out, "profile")["target"].startswith("tiny-capi-130")


def test_stage_gives_its_record(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"--work={engine.work}", f"--dist={engine.dist}", "--stage=source", "--json"]
    source = f"--source={ROOT / 'tests' / 'packages' / 'tiny_capi'}"
    for name, value in engine.environment().items():
        monkeypatch.setenv(name, value)

    out, _ = said(capsys, "build", "tiny-capi-130", source, *words)

    assert read_document(out, "stage")["stage"] == "source"


@pytest.mark.e2e
def test_smoke_gives_nothing_but_data(engine: Engine) -> None:
    assert engine.build("tiny-capi", "--keep-work").status == 0
    words = ["smoke", "tiny-capi-130", f"--work={engine.work}", "--json"]
    source = f"--source={ROOT / 'tests' / 'packages' / 'tiny_capi'}"

    done = run(
        [sys.executable, "-m", "cuwheel", *words, source],
        env=engine.environment(),
        error_log=engine.dist / "stderr",
    )

    assert read_document(done.output, "smoke")["smoke"]["imported"] == ["tiny_capi"]


def test_dry_run_says_why(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"--work={engine.work}", f"--dist={engine.dist}", "--dry-run"]
    source = f"--source={ROOT / 'tests' / 'packages' / 'tiny_capi'}"
    for name, value in engine.environment().items():
        monkeypatch.setenv(name, value)

    out, err = said(capsys, "build", "tiny-capi-130", source, *words)

    assert (out, "a build now would run, because:" in err) == ("", True)
    assert not engine.work.exists()


def test_audit_says_less_or_more(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quiet, usual, verbose = (
        said(capsys, "audit", str(wheel), *options)[0].splitlines()
        for options in (("-q",), (), ("-v",))
    )

    assert len(quiet) < len(usual) <= len(verbose)
    assert quiet[-1] == usual[-1]
    assert not [line for line in quiet if line.startswith(("rules", "note:", "size"))]


def test_explain_says_a_line_for_each_cause(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # so that a long path keeps to its line

    out, _ = said(capsys, "explain", str(LOG), "-q")

    first, *causes = out.splitlines()
    assert first.endswith(f"from {len(LOG.read_text().splitlines())} lines")
    assert causes[0].startswith("1. ")
    assert "because" not in out


@pytest.mark.parametrize("columns", [40, 80])
def test_explain_keeps_to_the_width(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    said_of = [said(capsys, "explain", str(log), "-v")[0] for log in LOG.parent.glob("*pip*.log")]

    assert max(len(line) for text in said_of for line in text.splitlines()) <= columns


def test_quiet_cache_says_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path))
    shutil.copy(LOG, tmp_path)

    quiet, _ = said(capsys, "cache", "-q")
    usual, _ = said(capsys, "cache")

    assert quiet.startswith(f"{tmp_path}: ")
    assert quiet == usual.splitlines(keepends=True)[-1]
