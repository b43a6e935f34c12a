"""Published wheels and statements, from which a verification starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import UsageError
from cuwheel.verify.published import check_is_of, read_published
from tests.support.published import DIGEST, publish

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from pathlib import Path


def beside(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}.provenance.json")


@pytest.mark.parametrize("named", [lambda wheel: wheel, beside])
def test_reads_wheel_and_provenance_alike(named: Any, tmp_path: Path) -> None:
    found = read_published(named(publish(tmp_path)))

    assert (found.sha256, found.wheel) == (DIGEST, tmp_path / "x-1.0-py3-none-any.whl")
    assert found.options == [
        *("--arch", "80", "--arch", "90", "--python", "3.12", "--link", "external")
    ]


def test_reads_provenance_without_its_wheel(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.unlink()

    assert read_published(beside(wheel)).wheel is None


def test_reads_wheel_without_provenance(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    beside(wheel).unlink()

    assert read_published(wheel).options == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"subject": []}', '{"subject": [{"name": "x", "digest": {}}]}'],
)
def test_refuses_what_is_no_statement(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.provenance.json"
    path.write_text(content)

    with pytest.raises(UsageError, match="neither a wheel nor the provenance"):
        read_published(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("python", "/tmp/python"),
        ("framework", "--offline"),
        ("platform", "--offline"),
        ("archs", ("90", "--work=/")),
        ("archs", "90"),
        ("container", ("debian",)),
    ],
)
def test_refuses_statement_that_would_be_an_option(name: str, value: Any, tmp_path: Path) -> None:
    wheel = publish(tmp_path, parameters=((name, value),))

    with pytest.raises(UsageError) as caught:
        read_published(wheel)

    assert name in caught.value.why


def test_refuses_wheel_that_is_not_the_statements(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.write_bytes(b"another")

    with pytest.raises(UsageError) as caught:
        read_published(beside(wheel))

    assert "not the wheel that the provenance describes" in caught.value.why


def test_refuses_damaged_wheel_before_building(tmp_path: Path) -> None:
    (tmp_path / "x-1.0-py3-none-any.whl").write_bytes(b"")

    with pytest.raises(UsageError, match="can't be read as a wheel"):
        read_published(tmp_path / "x-1.0-py3-none-any.whl")


def test_refuses_wheel_of_another_recipe(tmp_path: Path) -> None:
    theirs = read_published(publish(tmp_path))

    check_is_of(theirs, "causal-conv1d", "130")
    with pytest.raises(UsageError) as caught:
        check_is_of(theirs, "jaxmg", "128")

    assert caught.value.fix.startswith("nox -s verify -- causal-conv1d-130 --against ")
