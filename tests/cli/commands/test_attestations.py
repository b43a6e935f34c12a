from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import PolicyError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_documents
from tests.support.golden import Golden
from tests.support.publish.statements import make_keys, signed, write_policy


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """Two wheels; a rebuilder has signed the first."""
    keys = make_keys(tmp_path / "keys", "alice")
    write_policy(tmp_path / "rebuilders.txt", 1, keys)
    result = [tmp_path / f"toy-{version}-py3-none-any.whl" for version in ("1.0", "2.0")]
    for wheel in result:
        wheel.write_bytes(wheel.name.encode())
    statement = signed(result[0], keys["alice"])
    (tmp_path / statement.name).write_bytes(statement.content)
    return result


def attestations(*words: str | Path, policy: Path) -> None:
    run_command("attestations", [*map(str, words), "--policy", str(policy)], Console())


def test_lists_each_wheels_verdict_as_data(
    wheels: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PolicyError, match=r"toy-2\.0"):
        attestations(*wheels, "--json", policy=tmp_path / "rebuilders.txt")

    result = read_documents(capsys.readouterr().out, "attestations")
    assert [(one["wheel"], one["is_met"], one["counted"]) for one in result] == [
        (wheels[0].name, True, ["alice"]),
        (wheels[1].name, False, []),
    ]


def test_shows_who_has_rebuilt_it(
    wheels: list[Path], tmp_path: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    attestations(wheels[0], policy=tmp_path / "rebuilders.txt")

    golden.check("attest/met.txt", capsys.readouterr().err)


def test_refuses_wheel_that_is_not_there(wheels: list[Path], tmp_path: Path) -> None:
    wheels[0].unlink()

    with pytest.raises(UsageError):
        attestations(wheels[0], policy=tmp_path / "rebuilders.txt")
