"""What closes the help of a command: examples that it takes, exit codes that it has."""

from __future__ import annotations

import shlex

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import COMMANDS, parser_of, run_command
from cuwheel.cli.examples import EXAMPLES, STATUSES


@pytest.mark.parametrize("name", EXAMPLES)
def test_command_takes_its_examples(name: str) -> None:
    for words, _ in EXAMPLES[name]:
        assert parser_of(name).parse(shlex.split(words))


@pytest.mark.parametrize("name", sorted({*EXAMPLES, *STATUSES}))
def test_help_of_a_command_is_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_command("help", [name], Console())

    shown = capsys.readouterr().out
    assert shown == parser_of(name).format_help()
    assert all(text in shown for _, text in EXAMPLES.get(name, ()))
    assert all(f"  {status} " in shown for status in STATUSES.get(name, ()))


def test_knows_all_commands_of_the_examples() -> None:
    assert {*EXAMPLES, *STATUSES} <= set(COMMANDS)


def test_help_of_no_command_names_the_nearest() -> None:
    with pytest.raises(UsageError, match='no command "audti"') as caught:
        run_command("help", ["audti"], Console())

    assert "audit" in caught.value.why
