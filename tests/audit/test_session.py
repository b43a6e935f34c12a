from __future__ import annotations

import errno
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cuwheel.audit import session
from cuwheel.audit.verdict import AuditResult, audit_wheel
from cuwheel.cli.dispatch import run_command
from cuwheel.errors import AuditError, AuditWarningError, CuwheelError, UsageError
from cuwheel.model.catalogue import CatalogueEntry
from cuwheel.model.link import Link
from cuwheel.paths import ROOT
from cuwheel.system import process
from cuwheel.system.console import Console
from tests.support.audited import TAG, make_wheel, run_session
from tests.support.factories import make_recipe, write_wheel


def make_entry(root: Path, **changes: Any) -> CatalogueEntry:
    """A recipe whose wheels `make_wheel` makes when it gives them its version."""
    recipe = make_recipe(**{"link": Link(), **changes})
    return CatalogueEntry(root=root, name=recipe.name, recipe=recipe)


def test_finds_nothing_in_sound_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(tmp_path)

    run_session(tmp_path, wheel)

    assert capsys.readouterr().out.rstrip().endswith(f"{wheel.name}: nothing found")


@pytest.mark.parametrize("text", ["a\rb,,\r", "a" * (200 << 10) + ",,\n"])
def test_record_that_no_reader_takes_is_a_finding(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = make_wheel(tmp_path, name="b_two")
    with zipfile.ZipFile(tmp_path / "a_one-1-py3-none-any.whl", "w") as archive:
        for name in ("METADATA", "WHEEL"):
            archive.writestr(f"a_one-1.dist-info/{name}", "Wheel-Version: 1.0\n")
        archive.writestr("a_one-1.dist-info/RECORD", text)

    with pytest.raises(AuditError):
        run_session(tmp_path, tmp_path)

    said = capsys.readouterr().out
    assert "error: archive" in said
    assert f"{sound.name}: nothing found" in said


def test_fault_of_our_own_is_a_finding_of_that_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = (make_wheel(tmp_path, name=name) for name in ("a_one", "b_two"))

    def audit(wheel: Path, **asked: Any) -> AuditResult:
        if wheel == broken:
            raise IndexError("of a list")
        return audit_wheel(wheel, **asked)

    monkeypatch.setattr(session, "audit_wheel", audit)

    with pytest.raises(AuditError):
        run_session(tmp_path, tmp_path)

    said = capsys.readouterr().out
    assert "please report it: IndexError in audit: of a list" in said
    assert f"{sound.name}: nothing found" in said


def test_lets_no_control_character_of_a_wheel_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "tiny_cuda/\x1b[2Jerase\x9b1m\u202e\nerror: faked.so"
    make_wheel(tmp_path).unlink()
    write_wheel(tmp_path, {evil: b""}, tag=TAG)

    with pytest.raises(AuditError):
        run_session(tmp_path, tmp_path)

    said = capsys.readouterr().out
    assert r"tiny_cuda/\x1b[2Jerase\x9b1m\u202e\nerror: faked.so" in said
    assert not set("\x1b\x9b\u202e") & set(said)


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_prints_where_the_encoding_lacks_characters(
    option: tuple[str, ...], tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path)
    copy = wheel.rename(wheel.with_name(wheel.name.replace("tiny_cuda", "tïny")))
    done = subprocess.run(
        [sys.executable, "-m", "cuwheel", "audit", "--fail-on", "never", *option, copy],
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert b"t\\xefny" in done.stdout or b"t\\u00efny" in done.stdout


def test_ends_with_error_of_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(tmp_path, "-Wl,-z,execstack")

    with pytest.raises(AuditError) as caught:
        run_session(tmp_path, wheel)

    said = capsys.readouterr().out
    assert caught.value.what == "1 of 1 wheel has 1 error"
    assert "error: executable stack" in said
    assert "tiny_cuda/libtiny.so: it requires an executable stack" in said
    assert "TROUBLESHOOTING.md#audit-executable-stack" in said


def test_ends_with_warning_of_wheel(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "-Wl,-z,norelro")

    with pytest.raises(AuditWarningError) as caught:
        run_session(tmp_path, wheel)

    assert "--fail-on error" in caught.value.fix


@pytest.mark.parametrize(
    ("flag", "fails_on"), [("norelro", "error"), ("norelro", "never"), ("execstack", "never")]
)
def test_lets_pass_what_it_was_told(tmp_path: Path, flag: str, fails_on: str) -> None:
    run_session(tmp_path, make_wheel(tmp_path, f"-Wl,-z,{flag}"), fails_on=fails_on)


def test_reads_every_wheel_of_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a_one", "b_two"):
        make_wheel(tmp_path, name=name)

    run_session(tmp_path, tmp_path)

    said = capsys.readouterr().out
    assert said.index("a_one-1.2.3") < said.index("b_two-1.2.3")


def test_reads_others_beside_damaged_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_bad-1.0-py3-none-any.whl").write_bytes(b"PK no archive")
    good = make_wheel(tmp_path)

    with pytest.raises(AuditError) as caught:
        run_session(tmp_path, tmp_path)

    assert caught.value.what == "1 of 2 wheels has 1 error"
    assert f"{good.name}: nothing found" in capsys.readouterr().out


def test_reads_others_beside_file_that_it_may_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = make_wheel(tmp_path, name="a_bad"), make_wheel(tmp_path)
    real = Path.open

    def refuse(path: Path, *rest: Any, **named: Any) -> Any:
        if path == bad:  # a test that runs as root may read everything
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *rest, **named)

    monkeypatch.setattr(Path, "open", refuse)

    with pytest.raises(AuditError):
        run_session(tmp_path, tmp_path)

    said = capsys.readouterr().out
    assert "it can't be read as a wheel: Permission denied" in said
    assert f"{good.name}: nothing found" in said


def test_tells_all_that_is_no_wheel(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_session(tmp_path, tmp_path / "nothing.whl", tmp_path)

    assert "nothing.whl: there is no such file" in caught.value.why
    assert f"{tmp_path} is a folder without wheels" in caught.value.why


def test_refuses_folder_without_wheels(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_session(tmp_path, tmp_path)

    assert "a folder without wheels" in caught.value.why


def test_does_not_take_folder_for_wheel(tmp_path: Path) -> None:
    (tmp_path / "x.whl").mkdir()

    with pytest.raises(UsageError):
        run_session(tmp_path, tmp_path)


def test_holds_wheel_to_recipe_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = make_wheel(tmp_path, version="1.2.3+cu130")

    with pytest.raises(AuditError):
        run_session(tmp_path, wheel, entries=(make_entry(tmp_path),))

    said = capsys.readouterr().out
    assert "the recipe of tiny-cuda" in said
    assert "no library contains device code, the target is for sm_90" in said


def test_holds_wheel_of_other_mode_to_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = make_wheel(tmp_path, name="tiny_cuda13x", version="1.2.3+cu130.bundled")
    entry = make_entry(tmp_path, wheel_name="tiny-cuda{cuda}x")

    run_session(tmp_path, wheel, entries=(entry,), fails_on="never")

    assert "the recipe of tiny-cuda13x" in capsys.readouterr().out


def test_holds_wheel_to_archs_that_were_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = make_wheel(tmp_path, version="1.2.3+cu130")

    run_session(tmp_path, wheel, entries=(make_entry(tmp_path),), archs=("80",), fails_on="never")

    assert "the target is for sm_80" in capsys.readouterr().out


def test_ignores_recipe_when_told(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, version="1.2.3+cu130")

    run_session(tmp_path, wheel, entries=(make_entry(tmp_path),), ignores_recipes=True)


@pytest.mark.parametrize("version", ["1.2.3", "1.2.3+cu128", "1.2.3+mine", "1.1.0+cu130"])
def test_takes_wheel_of_other_build_for_others(tmp_path: Path, version: str) -> None:
    wheel = make_wheel(tmp_path, version=version)

    run_session(tmp_path, wheel, entries=(make_entry(tmp_path),))


@pytest.mark.parametrize(
    ("flags", "code"), [((), 0), (("-Wl,-z,norelro",), 81), (("-Wl,-z,execstack",), 80)]
)
def test_exit_code_tells_severity(tmp_path: Path, flags: tuple[str, ...], code: int) -> None:
    wheel = make_wheel(tmp_path, *flags)

    try:
        status = run_command("audit", [str(wheel)], Console())
    except CuwheelError as error:
        status = error.exit_code

    assert status == code


def test_engine_ends_with_code_of_its_error(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "-Wl,-z,execstack")
    command: list[str | Path] = [sys.executable, "-m", "cuwheel", "audit", wheel]

    finished = process.run(command, env={"HOME": str(tmp_path)}, cwd=ROOT, check=False)

    assert finished.status == AuditError.exit_code


@pytest.mark.parametrize("option", ["", "--json"])
def test_ends_quietly_when_nobody_reads_on(tmp_path: Path, option: str) -> None:
    wheels = [make_wheel(tmp_path, "-Wl,-z,norelro", name=f"n{number}") for number in range(2)]
    command = f"{sys.executable} -m cuwheel audit {wheels[0]} {wheels[1]} {option} | true"

    finished = process.run(["sh", "-c", command], env={"HOME": str(tmp_path)}, cwd=ROOT)

    assert "BrokenPipe" not in finished.output


@pytest.mark.parametrize("arch", ["9.0", "sm_90", "native", "80,90"])
def test_refuses_what_is_no_arch(tmp_path: Path, arch: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_command("audit", [str(tmp_path), "--arch", arch], Console())

    assert caught.value.what == f"--arch {arch} is not a compute capability"


def test_annotates_what_is_wrong_in_a_workflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a stranger's wheel says is no command of the runner's."""
    wheel = make_wheel(tmp_path / "dist", "-Wl,-z,norelro")
    write_wheel(tmp_path / "dist", {"pkg/\n::error::faked.so": b""}, name="evil", tag=TAG)
    for name, value in (("ACTIONS", "true"), ("WORKSPACE", str(tmp_path))):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    run_command("audit", [str(tmp_path / "dist"), "--fail-on", "never"], Console())

    said = capsys.readouterr()
    [own] = [line for line in said.err.splitlines() if wheel.name in line]
    head, _, text = own.removeprefix("::").partition("::")
    assert head == f"warning title={wheel.name}%3A relro,file=dist/{wheel.name}"
    assert text.startswith("tiny_cuda/libtiny.so: its relocated data stays writable")
    assert text.endswith("TROUBLESHOOTING.md#audit-relro")
    assert not re.search(r"(?m)^::error::faked", said.out + said.err)
    summary = (tmp_path / "summary.md").read_text().replace("\\_", "_")
    assert f"| {wheel.name} | 1 warning |" in summary
