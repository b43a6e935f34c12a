from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import PolicyError, UsageError
from cuwheel.system.console import Console
from tests.support.attested import make_keys, signed, write_policy
from tests.support.documents import read_documents

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """Two wheels; a rebuilder has signed the first."""
    keys = make_keys(tmp_path / "keys", "alice")
    write_policy(tmp_path / "rebuilders.txt", 1, keys)
    found = [tmp_path / f"toy-{version}-py3-none-any.whl" for version in ("1.0", "2.0")]
    for wheel in found:
        wheel.write_bytes(wheel.name.encode())
    statement = signed(found[0], keys["alice"])
    (tmp_path / statement.name).write_bytes(statement.content)
    return found


def attestations(*words: str | Path, policy: Path) -> None:
    run_command("attestations", [*map(str, words), "--policy", str(policy)], Console())


def test_tells_each_wheels_verdict_as_data(
    wheels: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PolicyError, match=r"toy-2\.0"):
        attestations(*wheels, "--json", policy=tmp_path / "rebuilders.txt")

    found = read_documents(capsys.readouterr().out, "attestations")
    assert [(one["wheel"], one["is_met"], one["counted"]) for one in found] == [
        (wheels[0].name, True, ["alice"]),
        (wheels[1].name, False, []),
    ]


def test_says_who_has_rebuilt_it(
    wheels: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attestations(wheels[0], policy=tmp_path / "rebuilders.txt")

    assert "by 1 of the 1 that the policy requires: alice" in capsys.readouterr().err


def test_refuses_wheel_that_is_not_there(wheels: list[Path], tmp_path: Path) -> None:
    wheels[0].unlink()

    with pytest.raises(UsageError, match="doesn't exist"):
        attestations(wheels[0], policy=tmp_path / "rebuilders.txt")
