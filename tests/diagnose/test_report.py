"""What a diagnosis looks like, and what its verdicts lead to."""

from __future__ import annotations

import io
import re
import typing
from typing import TYPE_CHECKING, Any

import pytest
import rich.console

from cuwheel.diagnose.document import diagnose_document
from cuwheel.diagnose.facts import environment
from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.diagnose.facts.installed_toolkits import Installations
from cuwheel.diagnose.facts.python_choice import ChosenPython
from cuwheel.diagnose.report import Report, print_report
from cuwheel.diagnose.rules.target_fit import Fit
from cuwheel.diagnose.session import DiagnoseOptions, callers_environment, diagnose
from cuwheel.diagnose.verdict import (
    KNOWN,
    LEVELS,
    OWN_ENTRIES,
    Own,
    broken,
    exit_code_of,
    warns,
    works,
    worst_level,
)
from cuwheel.paths import ROOT
from cuwheel.system.console import Console
from cuwheel.system.output.documents import as_line
from tests.support.documents import read_document

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.verdict import FailsOn, Level


def make_report(**changes: Any) -> Report:
    usual: dict[str, Any] = {
        "host": None,
        "driver": Driver(),
        "installations": Installations(),
        "settings": (),
        "environment": None,
        "frameworks": (),
        "packages": (),
        "chosen_libraries": {},
        "fits": (),
        "chosen": ChosenPython(path=None, how="PATH"),
        "verdicts": (works("all is well"),),
    }
    return Report(**{**usual, **changes})


def printed(report: Report, width: int = 0) -> str:
    """As in a log; with a width, as on a terminal of so many columns."""
    stream = io.StringIO()
    terminal = rich.console.Console(
        file=stream, width=width or 200, force_terminal=bool(width), color_system=None
    )
    print_report(report, terminal, Console())
    return stream.getvalue()


def test_gathers_equal_gpus() -> None:
    gpus = tuple(Gpu(index=index, name="A", capability="90") for index in range(8))

    shown = printed(make_report(driver=Driver(gpus=gpus)))

    assert "  GPU 0-7      A, sm_90\n" in shown


def test_shows_bad_news_last() -> None:
    bad = broken("no-cuda-device", "it is bad", "a cause", "a fix")

    lines = printed(make_report(verdicts=(works("all is well"), bad))).splitlines()

    assert lines[-6:] == [
        "  ok       all is well",
        "  broken   it is bad",
        "           because  a cause",
        "           to fix   a fix",
        "           more     TROUBLESHOOTING.md#no-cuda-device",
        "diagnose: broken (1 broken, 1 ok)",
    ]


def test_wraps_for_terminal() -> None:
    long = warns("no-cuda-device", "word " * 30, "cause " * 30, "fix")

    lines = printed(make_report(verdicts=(long,)), width=60).splitlines()

    assert max(map(len, lines)) <= 60


def test_shows_reasons_of_targets() -> None:
    fits = (Fit(name="a-130", runs=(), builds=()), Fit(name="b-130", runs=("old",), builds=("no",)))

    shown = printed(make_report(fits=fits))

    assert "  a-130        fits\n" in shown
    assert "  b-130        can't run: old; can't be built: no\n" in shown


def test_data_hold_verdicts() -> None:
    report = make_report(verdicts=(warns("diagnose-versions", "a", "b", "c"),))

    told = read_document(as_line(diagnose_document(report)), "diagnose")

    assert (told["verdict"], told["exit_code"]) == ("warning", 0)
    assert told["verdicts"] == [
        {
            "level": "warning",
            "what": "a",
            "cause": "b",
            "fix": "c",
            "command": "",
            "anchor": "diagnose-versions",
        }
    ]


@pytest.mark.parametrize(
    ("fails_on", "codes"),
    [
        ("broken", {"ok": 0, "note": 0, "warning": 0, "broken": 2}),
        ("warning", {"ok": 0, "note": 0, "warning": 1, "broken": 2}),
        ("never", {"ok": 0, "note": 0, "warning": 0, "broken": 0}),
    ],
)
def test_fails_from_the_level_that_was_asked(fails_on: FailsOn, codes: dict[Level, int]) -> None:
    assert {level: exit_code_of(level, fails_on) for level in LEVELS} == codes


def test_nothing_to_say_is_well() -> None:
    assert worst_level(()) == "ok"


def test_anchors_have_the_form_of_anchors() -> None:
    assert [name for name in KNOWN if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_own_anchors_lead_to_entries() -> None:
    page = (ROOT / "TROUBLESHOOTING.md").read_text()

    assert set(OWN_ENTRIES) == set(typing.get_args(Own))
    assert [name for name in OWN_ENTRIES if f'<a id="{name}"></a>' not in page] == []


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"PYTHONPATH": str(ROOT)}, {}),
        ({"PYTHONPATH": str(ROOT), "CUWHEEL_CALLERS_PYTHONPATH": "/x"}, {"PYTHONPATH": "/x"}),
        ({"PYTHONPATH": f"{ROOT}:/x"}, {"PYTHONPATH": "/x"}),
        ({"CUWHEEL_CACHE": "/c", "PYTHONPYCACHEPREFIX": "/c/engine/x", "A": "b"}, {"A": "b"}),
    ],
)
def test_gives_callers_own_environment(given: dict[str, str], seen: dict[str, str]) -> None:
    assert callers_environment(given) == {**seen, "PYTHONDONTWRITEBYTECODE": "1"}


def test_goes_on_past_python_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FACTS_TIME_LIMIT", 1.0)
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nsleep 100\n")
    program.chmod(0o755)

    asked = DiagnoseOptions(python=str(program), start=tmp_path)
    report = diagnose(asked, {"PATH": "/usr/bin"}, ())

    [found] = [one for one in report.verdicts if one.level == "broken"]
    assert found.cause.endswith("no answer within 1 s")
