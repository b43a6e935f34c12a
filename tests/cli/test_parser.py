from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.cli.dispatch import COMMANDS, parser_of
from tests.support.golden import Golden

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
        "cache": ["why"],
        "completion": ["bash"],
        "matrix": ["build"],
    }

    with pytest.raises(UsageError) as caught:
        parser_of(name).parse([*needed.get(name, ["word"]), "--hepl"])

    assert "--help" in caught.value.why


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


_PAIRS = [(name, option, other) for name in COMMANDS for option, other in parser_of(name).needs]
_RIVALS = [(name, option, other) for name in COMMANDS for option, other in parser_of(name).excludes]
_VALUES: dict[str, tuple[str, ...]] = {
    "--jsonl": (),
    "--max-download": ("1G",),
    "--shard": ("1/4",),
    "--shard-above": ("9",),
    "--shards": ("4",),
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


def test_refuses_options_that_need_or_exclude_others(golden: Golden) -> None:
    errors = []
    for name, *options in _PAIRS:
        with pytest.raises(UsageError) as caught:
            parser_of(name).parse(words(name, options[0]))
        errors.append(f"{name}: {caught.value}")
    for name, *options in _RIVALS:
        parser = parser_of(name)
        parser.needs = {}
        with pytest.raises(UsageError) as caught:
            parser.parse(words(name, *options))
        errors.append(f"{name}: {caught.value}")

    golden.check("errors/pairs-of-options.txt", "\n".join(errors))


def test_help_has_colours_on_a_terminal_alone() -> None:
    command = [sys.executable, "-m", "cuwheel", "audit", "--help"]
    plain = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    shown = subprocess.run(
        [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", *command],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ).stdout.decode()

    assert "\x1b[" not in plain
    assert "\x1b[" in shown
    assert re.sub(r"\x1b\[[\d;]*m|\r", "", shown).split() == plain.split()


def test_help_has_options_of_a_build_below_headings() -> None:
    text = parser_of("build").format_help()

    places = [text.index(words) for words in ("what is built:", "--python 3.12|PATH    ")]
    assert places == sorted(places)
    assert text.index("how it is built:") < text.index("  --jobs ") < text.index("published files:")
