"""The session rebuild up to its build; the build itself is in tests/e2e/test_rebuild.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.attest.policy import read_policy
from cuwheel.cli.dispatch import run_command
from cuwheel.errors import FileAccessError, OtherInputsError, SigstoreError, UsageError
from cuwheel.system.console import Console
from tests.support.published import publish
from tests.verify.test_inputs import materials_of

if TYPE_CHECKING:
    from pathlib import Path


def test_new_key_prints_a_line_for_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command("rebuild", ["--new-key", str(tmp_path / "alice.pem")], Console())

    policy = tmp_path / "rebuilders.txt"
    policy.write_text(f"threshold 1\n{capsys.readouterr().out}")
    assert [one.name for one in read_policy(policy).rebuilders] == ["alice"]


def test_names_what_it_takes() -> None:
    with pytest.raises(UsageError, match="needs a published wheel"):
        run_command("rebuild", [], Console())


def test_looks_at_the_key_before_an_hours_build(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")
    (tmp_path / "key.pem").chmod(0o600)

    with pytest.raises(UsageError, match="not a usable private key"):
        run_command("rebuild", ["x.whl", "--key", str(tmp_path / "key.pem")], Console())


@pytest.mark.parametrize("option", ["--new-key", "--key"])
def test_names_the_option_of_a_key_that_cannot_be_had(option: str, tmp_path: Path) -> None:
    with pytest.raises(FileAccessError) as caught:
        run_command("rebuild", ["x.whl", option, str(tmp_path / "nowhere" / "a.pem")], Console())

    assert f"{option} names it" in caught.value.why
    assert "CUWHEEL_CACHE" not in caught.value.fix


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

    assert "--to names it; system error: " in caught.value.why


def test_says_that_nothing_would_be_signed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--to has no effect without a key"):
        run_command("rebuild", ["x.whl", "--to", str(tmp_path)], Console())


@pytest.mark.usefixtures("sigstore_environment")
def test_says_that_sigstore_does_not_sign_before_an_hours_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", raising=False)

    with pytest.raises(SigstoreError, match="no statement is written"):
        run_command("rebuild", ["x.whl", "--sigstore", "--to", str(tmp_path)], Console())

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--sigstore", "--key", "{key}"), "--sigstore and --key can't be combined"),
        (("--sigstore", "--offline"), "--sigstore and --offline can't be combined"),
        (("--trust-config", "{key}"), "--trust-config needs --sigstore"),
    ],
)
def test_refuses_options_that_do_not_go_together(
    options: tuple[str, ...], fault: str, key: str
) -> None:
    words = [one.format(key=key) for one in options]

    with pytest.raises(UsageError, match=fault):
        run_command("rebuild", ["x.whl", *words], Console())


def test_names_trust_config_that_is_not_there(tmp_path: Path) -> None:
    words = ["x.whl", "--sigstore", "--trust-config", str(tmp_path / "gone.json")]

    with pytest.raises(FileAccessError, match=r"gone\.json") as caught:
        run_command("rebuild", words, Console())

    assert "--trust-config" in caught.value.what + caught.value.why + caught.value.fix


@pytest.mark.parametrize("name", ["gone.whl", "gone.whl.provenance.json"])
def test_says_that_a_wheel_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{name} does not exist"):
        run_command("rebuild", [str(tmp_path / name), "--work", str(tmp_path)], Console())


def test_refuses_wheel_without_provenance(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.with_name(f"{wheel.name}.provenance.json").unlink()

    with pytest.raises(UsageError) as caught:
        run_command("rebuild", [str(wheel), "--work", str(tmp_path)], Console())

    assert caught.value.why == "there is no provenance beside it"


def test_refuses_other_inputs_before_it_builds(tmp_path: Path) -> None:
    wheel = publish(tmp_path, materials=materials_of(tmp_path / "project"))

    with pytest.raises(OtherInputsError) as caught:
        run_command("rebuild", [str(wheel), "--work", str(tmp_path / "work")], Console())

    assert "recipes/causal_conv1d.py: " in caught.value.why
    assert "no branch or tag of this clone contains its commit" in caught.value.why
