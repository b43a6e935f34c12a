from __future__ import annotations

import argparse

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.cli.dispatch import COMMANDS, parser_of

TAKE_TARGETS = ("mirror", "profile", "smoke", "verify")


def parse(*arguments: str) -> argparse.Namespace:
    return parser_of("build").parse(["x-130", *arguments])


@pytest.mark.parametrize("option", ["python", "arch"])
def test_repeats_option(option: str) -> None:
    args = parse(f"--{option}", "a", f"--{option}=b")

    assert getattr(args, option) == ["a", "b"]


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
    args = parser_of(name).parse(["a-130", "--python=3.12", "b-130", "--offline"][:3])

    assert args.targets == ["a-130", "b-130"]


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

    output = capsys.readouterr().out
    flags = [flag for action in parser_of(name).described for flag in action.option_strings]
    assert caught.value.code == 0
    assert [flag for flag in flags if flag not in output] == []
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


_PAIRS = [(name, option, other) for name in COMMANDS for option, other in parser_of(name).needs]
_RIVALS = [(name, option, other) for name in COMMANDS for option, other in parser_of(name).excludes]
_VALUES: dict[str, tuple[str, ...]] = {
    "--jsonl": (),
    "--max-download": ("1G",),
    "--stage": ("source",),
    "--until": ("source",),
}


def words(name: str, *options: str) -> list[str]:
    """Options with values, and what the command needs besides."""
    flags = {flag: action for action in parser_of(name)._actions for flag in action.option_strings}
    values: dict[str, tuple[str, ...]] = {
        flag: () if action.nargs == 0 else ("x",) for flag, action in flags.items()
    }
    values |= {"--container-engine": ("podman",), **_VALUES}
    needed = {"explain": ["x.log"], "pick": ["toy"]}
    return [*needed.get(name, []), *(word for flag in options for word in (flag, *values[flag]))]


@pytest.mark.parametrize(("name", "option", "needed"), _PAIRS)
def test_refuses_an_option_without_the_one_that_it_needs(
    name: str, option: str, needed: str
) -> None:
    with pytest.raises(UsageError, match=f"{option} needs {needed}") as caught:
        parser_of(name).parse(words(name, option))

    assert caught.value.why


@pytest.mark.parametrize(("name", "option", "other"), _RIVALS)
def test_refuses_options_that_exclude_each_other(name: str, option: str, other: str) -> None:
    parser = parser_of(name)
    parser.needs = {}

    with pytest.raises(UsageError, match=f"{option} and {other} can't be combined") as caught:
        parser.parse(words(name, option, other))

    assert caught.value.why


def test_knows_pairs_of_options() -> None:
    assert {("index", "--quick", "--check"), ("release", "--yank", "--reason")} <= {*_PAIRS}
    assert {("build", "--stage", "--until"), ("rebuild", "--sigstore", "--key")} <= {*_RIVALS}
