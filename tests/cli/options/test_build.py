from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.options import build, maintain
from cuwheel.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


def parse(*arguments: str) -> argparse.Namespace:
    return build.parse_build("build-x-130", ("build", "audit", "smoke"), arguments)


def parse_nothing(arguments: Sequence[str]) -> None:
    maintain.parse_nothing("lock-check", arguments)


def parse_toolchain(arguments: Sequence[str]) -> argparse.Namespace:
    return maintain.parse_toolchain("toolchain-130", arguments)


def test_defaults_change_nothing() -> None:
    given = parse()

    assert (given.python, given.arch, given.framework, given.source) == ([], [], None, None)
    assert (given.jobs, given.toolchain, given.stage) == ("auto", None, None)
    assert given.sandbox == "auto"
    assert {given.offline, given.no_cache, given.keep_work, given.explain_key} == {False}


@pytest.mark.parametrize("option", ["python", "arch"])
def test_repeats_option(option: str) -> None:
    given = parse(f"--{option}", "a", f"--{option}=b")

    assert getattr(given, option) == ["a", "b"]


@pytest.mark.parametrize("kind", ["auto", "bubblewrap", "unshare", "none"])
def test_takes_every_kind_of_sandbox(kind: str) -> None:
    assert parse(f"--sandbox={kind}").sandbox == kind


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("--pyton", "--python"), ("--archs", "--arch"), ("--keepwork", "--keep-work")],
)
def test_names_nearest_option(wrong: str, right: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(wrong, "x")

    assert caught.value.what == f"nox -s build-x-130 --: unknown option {wrong}"
    assert caught.value.why == f'did you mean "{right}"?'


def test_names_option_without_its_value() -> None:
    with pytest.raises(UsageError) as caught:
        parse("--pyton=3.12")

    assert caught.value.what.endswith("unknown option --pyton")


def test_takes_no_abbreviations() -> None:
    with pytest.raises(UsageError):
        parse("--off")


@pytest.mark.parametrize(
    "arguments",
    [["--sandbox", "docker"], ["--stage", "smok"], ["--toolchain", "cuda"], ["--python"], ["3.12"]],
)
def test_refuses_wrong_value(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(*arguments)


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        (maintain.parse_lock, ["all", "--cooldwn=1"], "--cooldown"),
        (parse_toolchain, ["--ofline"], "--offline"),
        (maintain.parse_index, ["--dits=x"], "--dist"),
        (parse_nothing, ["--hepl"], "--help"),
    ],
)
def test_names_nearest_option_of_every_session(
    kind: Callable[[Sequence[str]], object], wrong: list[str], right: str
) -> None:
    with pytest.raises(UsageError) as caught:
        kind(wrong)

    assert caught.value.why == f'did you mean "{right}"?'


def test_lock_has_cooldown_of_a_week() -> None:
    assert maintain.parse_lock(["all"]).cooldown == 7


def test_lock_needs_a_name() -> None:
    with pytest.raises(UsageError):
        maintain.parse_lock([])


def test_help_explains_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--help")

    assert caught.value.code == 0
    assert "--explain-key" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--source", "--work", "--python", "--arch", "--framework"])
def test_refuses_empty_value(option: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(option, "")

    assert f"{option} is given without a value" in caught.value.what


@pytest.mark.parametrize("days", ["-5", "x", "²"])
def test_lock_refuses_what_is_no_number_of_days(days: str) -> None:
    with pytest.raises(UsageError) as caught:
        maintain.parse_lock(["all", f"--cooldown={days}"])

    assert f"{days} is no number of days" in caught.value.what
