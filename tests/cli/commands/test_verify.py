"""`verify` of several targets, and `rebuild` up to its build; builds are in tests/e2e/."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import (
    BuildFailedError,
    FileAccessError,
    InterpreterNotFoundError,
    NotReproducibleError,
    PolicyError,
    UsageError,
)
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from cuwheel.publish.rebuild.attest.policy import read_policy
from tests.publish.rebuild.test_inputs import materials_of
from tests.support.engine import Engine
from tests.support.publish.published_wheels import publish

PYTHON = "--python=/nonexistent/python"
RECORD = ROOT / "docs" / "reproducibility.md"


@pytest.fixture
def in_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine with its variables in this process."""
    for name, value in engine.environment().items():
        monkeypatch.setenv(name, value)
    return engine


def test_reports_each_target_that_can_not_be_verified(
    in_engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ["tiny-capi-130", "tiny-skbuild-130"]

    with pytest.raises(InterpreterNotFoundError):
        run_command("verify", [*targets, PYTHON, f"--work={in_engine.work}"], Console())

    output = capsys.readouterr().err
    assert [name for name in targets if name not in output] == []


def test_all_fails_where_nothing_can_be_verified(
    in_engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    before = RECORD.read_text()

    with pytest.raises(InterpreterNotFoundError):
        run_command("verify", ["all", PYTHON, f"--work={in_engine.work}"], Console())

    output = capsys.readouterr().err
    assert "causal-conv1d-130" in output
    assert RECORD.read_text() == before


@pytest.mark.usefixtures("in_engine")
def test_compares_one_target_with_what_is_published() -> None:
    words = ["tiny-capi-130", "tiny-skbuild-130", "--against", "x.whl"]

    with pytest.raises(UsageError, match="--against compares exactly one target"):
        run_command("verify", words, Console())


@pytest.mark.e2e
def test_failed_verification_shows_its_leftovers(
    in_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.tar.gz"
    source.write_bytes(b"no archive")
    words = [f"--source={source}", f"--work={in_engine.work}"]

    with pytest.raises(BuildFailedError):
        run_command("verify", ["tiny-capi-130", *words], Console())

    [left] = in_engine.work.glob("verify/tiny-capi-*/usual")
    assert f"rm -rf {left.parent}" in capsys.readouterr().err


def test_new_key_prints_a_line_for_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command("rebuild", ["--new-key", str(tmp_path / "alice.pem")], Console())

    policy = tmp_path / "rebuilders.txt"
    policy.write_text(f"threshold 1\n{capsys.readouterr().out}")
    assert [rebuilder.name for rebuilder in read_policy(policy).rebuilders] == ["alice"]


def test_looks_at_the_key_before_an_hours_build(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")
    (tmp_path / "key.pem").chmod(0o600)

    with pytest.raises(UsageError, match="not a usable private key"):
        run_command("rebuild", ["x.whl", "--key", str(tmp_path / "key.pem")], Console())


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "alice.pem"
    run_command("rebuild", ["--new-key", str(path)], Console())
    return str(path)


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_names_the_option_of_a_folder_that_cannot_be_written(
    name: str, key: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileAccessError) as caught:
        run_command("rebuild", ["x.whl", "--key", key, "--to", str(tmp_path / name)], Console())

    assert "--to" in caught.value.why


@pytest.mark.e2e
@pytest.mark.usefixtures("sigstore_environment")
def test_reports_that_sigstore_does_not_sign_before_an_hours_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", raising=False)

    with pytest.raises(PolicyError, match="no statement is written"):
        run_command("rebuild", ["x.whl", "--sigstore", "--to", str(tmp_path)], Console())

    assert not list(tmp_path.iterdir())


def test_refuses_wheel_without_provenance(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.with_name(f"{wheel.name}.provenance.json").unlink()

    with pytest.raises(UsageError) as caught:
        run_command("rebuild", [str(wheel), "--work", str(tmp_path)], Console())

    assert "provenance" in caught.value.why


def test_refuses_other_inputs_before_it_builds(tmp_path: Path) -> None:
    wheel = publish(tmp_path, materials=materials_of(tmp_path / "project"))

    with pytest.raises(NotReproducibleError) as caught:
        run_command("rebuild", [str(wheel), "--work", str(tmp_path / "work")], Console())

    assert "recipes/causal_conv1d.py: " in caught.value.why
    assert "no branch or tag" in caught.value.why
