from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import COMMANDS, parser_of
from cuwheel.errors import UsageError

if TYPE_CHECKING:
    import argparse

OF_BUILDS_ALONE = {
    *("container", "container_engine", "keep_work", "part", "stage", "until"),
}
TAKE_TARGETS = ("mirror", "profile", "smoke", "verify")


def parse(*arguments: str) -> argparse.Namespace:
    return parser_of("build").parse(["x-130", *arguments])


def test_defaults_change_nothing() -> None:
    given = parse()

    assert (given.python, given.arch, given.framework, given.source) == ([], [], None, None)
    assert (given.jobs, given.toolchain, given.stage) == ("auto", None, None)
    assert given.sandbox == "auto"
    assert {given.offline, given.no_cache, given.keep_work, given.dry_run} == {False}


@pytest.mark.parametrize("name", ["profile", "smoke", "verify"])
def test_what_a_session_leaves_out_is_as_a_build_has_it(name: str) -> None:
    usual = vars(parse())

    given = vars(parser_of(name).parse(["x-130"]))

    assert {key: given[key] for key in given if key in usual} == {
        key: usual[key] for key in usual if key not in OF_BUILDS_ALONE
    }


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

    assert caught.value.what == f"nox -s build-<target> --: unknown option {wrong}"
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
    [["--sandbox", "docker"], ["--stage", "smok"], ["--toolchain", "cuda"], ["--python"]],
)
def test_refuses_wrong_value(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(*arguments)


@pytest.mark.parametrize("name", TAKE_TARGETS)
def test_takes_names_before_between_and_behind_options(name: str) -> None:
    given = parser_of(name).parse(["a-130", "--python=3.12", "b-130", "--offline"][:3])

    assert given.targets == ["a-130", "b-130"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_names_nearest_option(name: str) -> None:
    needed = {
        "attestations": ["x.whl", "--policy", "rebuilders.txt"],
        "completion": ["bash"],
        "matrix": ["build"],
    }

    with pytest.raises(UsageError) as caught:
        parser_of(name).parse([*needed.get(name, ["word"]), "--hepl"])

    assert caught.value.why == 'did you mean "--help"?'


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_explains_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parser_of(name).parse(["--help"])

    told = capsys.readouterr().out
    flags = [flag for action in parser_of(name).described for flag in action.option_strings]
    assert caught.value.code == 0
    assert [flag for flag in flags if flag not in told] == []
    assert all(action.help for action in parser_of(name).described)


def test_lock_has_cooldown_of_a_week() -> None:
    assert parser_of("lock").parse(["all"]).cooldown == 7


@pytest.mark.parametrize("name", ["audit", "explain", "lock", "lock-verify"])
def test_names_what_is_missing(name: str) -> None:
    with pytest.raises(UsageError, match="the following arguments are required"):
        parser_of(name).parse([])


@pytest.mark.parametrize("option", ["--source", "--work", "--python", "--arch", "--framework"])
def test_refuses_empty_value(option: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(option, "")

    assert f"{option} was given without a value" in caught.value.what


@pytest.mark.parametrize("days", ["-5", "x", "²"])
def test_lock_refuses_what_is_no_number_of_days(days: str) -> None:
    with pytest.raises(UsageError) as caught:
        parser_of("lock").parse(["all", f"--cooldown={days}"])

    assert f"{days} is not a number of days" in caught.value.what


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("nightly", "`nox -s matrix -- build --platform …`"),
        ("install", "--for platform=aarch64"),
        ("perf", "`nox -s smoke -- TARGET --platform …`"),
    ],
)
@pytest.mark.parametrize("option", ["--platform=linux_aarch64", "--target-root"])
def test_says_why_a_session_is_about_this_machine(name: str, instead: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"-s {name} --: {option[:10]}") as caught:
        parser_of(name).parse(["x-130", option, "/"])

    assert instead in caught.value.fix
    assert "this machine" in caught.value.why
