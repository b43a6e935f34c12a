from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import AuditError, CuwheelError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.link import Link
from cuwheel.check.audit import audit as command
from cuwheel.check.audit.verdict import AuditResult, audit_wheel
from cuwheel.cli.dispatch import run_command
from tests.support.check.audits import TAG, make_wheel, run_session
from tests.support.documents import read_document
from tests.support.factories import make_recipe, write_wheel
from tests.support.golden import Golden


def make_entry(root: Path, **changes: Any) -> CatalogueEntry:
    """A recipe for the wheels of `make_wheel` with its version."""
    recipe = make_recipe(**{"link": Link(), **changes})
    return CatalogueEntry(root=root, name=recipe.name, recipe=recipe)


def test_finds_nothing_in_sound_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(tmp_path)

    run_session(tmp_path, wheel)

    assert capsys.readouterr().out.rstrip().endswith(f"{wheel.name}: nothing found")


def write_bad_record(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("METADATA", "WHEEL"):
            archive.writestr(f"a_one-1.dist-info/{name}", "Wheel-Version: 1.0\n")
        archive.writestr("a_one-1.dist-info/RECORD", text)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_bad_record(path, "a\rb,,\r"),
        lambda path: write_bad_record(path, "a" * (200 << 10) + ",,\n"),
        lambda path: path.write_bytes(b"PK no archive"),
        os.mkfifo,
    ],
    ids=["line ends", "long name", "no archive", "FIFO"],
)
def test_reads_others_after_a_bad_one(
    write: Callable[[Path], object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path / "a_one-1-py3-none-any.whl")
    sound = make_wheel(tmp_path, name="b_two")

    with pytest.raises(AuditError):
        run_session(tmp_path, tmp_path, as_json=True)

    bad, good = read_document(capsys.readouterr().out, "audit")["wheels"]
    assert (bad["verdict"], good["verdict"], good["wheel"]) == ("error", "ok", sound.name)
    assert "archive" in [finding["rule"] for finding in bad["findings"]]


def test_internal_error_is_a_finding_of_that_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = (make_wheel(tmp_path, name=name) for name in ("a_one", "b_two"))

    def audit(wheel: Path, **options: Any) -> AuditResult:
        if wheel == broken:
            raise IndexError("of a list")
        return audit_wheel(wheel, **options)

    monkeypatch.setattr(command, "audit_wheel", audit)

    with pytest.raises(AuditError):
        run_session(tmp_path, tmp_path, as_json=True)

    bad, good = read_document(capsys.readouterr().out, "audit")["wheels"]
    assert "IndexError" in bad["findings"][0]["fact"]
    assert (bad["verdict"], good["verdict"], good["wheel"]) == ("error", "ok", sound.name)


def test_escapes_control_characters_of_a_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "tiny_cuda/\x1b[2Jerase\x9b1m\u202e\nerror: faked.so"
    make_wheel(tmp_path).unlink()
    write_wheel(tmp_path, {evil: b""}, tag=TAG)

    with pytest.raises(AuditError):
        run_session(tmp_path, tmp_path)

    output = capsys.readouterr().out
    assert r"tiny_cuda/\x1b[2Jerase\x9b1m\u202e\nerror: faked.so" in output
    assert not set("\x1b\x9b\u202e") & set(output)


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


def test_ends_with_error_of_wheel(
    tmp_path: Path,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wheel = make_wheel(tmp_path, "-Wl,-z,execstack")

    with pytest.raises(AuditError) as caught:
        run_session(tmp_path, wheel)

    output = re.sub(r"(?m)^(size|sha256) .*", r"\1", capsys.readouterr().out)
    golden.check("audit/error.txt", f"{output}{caught.value}", {wheel: "WHEEL"})


def test_ends_with_warning_of_wheel(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "-Wl,-rpath,/tmp/lib")

    with pytest.raises(AuditError) as caught:
        run_session(tmp_path, wheel)

    assert "--fail-on error" in caught.value.fix


@pytest.mark.parametrize(
    ("flag", "fails_on"),
    [("-rpath,/tmp/lib", "error"), ("-rpath,/tmp/lib", "never"), ("-z,execstack", "never")],
)
def test_fails_only_for_the_severity_of_the_option(
    tmp_path: Path, flag: str, fails_on: str
) -> None:
    run_session(tmp_path, make_wheel(tmp_path, f"-Wl,{flag}"), fails_on=fails_on)


def test_names_all_paths_that_are_no_wheels(tmp_path: Path) -> None:
    (tmp_path / "x.whl").mkdir()

    with pytest.raises(UsageError) as caught:
        run_session(tmp_path, tmp_path / "nothing.whl", tmp_path)

    names = [line.partition(":")[0] for line in caught.value.why.splitlines()]
    assert len(names) == 2


@pytest.mark.parametrize(
    ("version", "archs", "text"),
    [
        ("1.2.3+cu130", (), "the target is for sm_90"),
        ("1.2.3+cu130", ("80",), "the target is for sm_80"),
        ("1.2.3+cu130.bundled", (), "the recipe of tiny-cuda13x"),
    ],
)
def test_checks_wheel_against_recipe_of_its_name(
    version: str,
    archs: tuple[str, ...],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wheel = make_wheel(tmp_path, name="tiny_cuda13x", version=version)
    entry = make_entry(tmp_path, wheel_name="tiny-cuda{cuda}x")

    with pytest.raises(AuditError):
        run_session(tmp_path, wheel, entries=(entry,), archs=archs)

    assert text in capsys.readouterr().out


@pytest.mark.parametrize("version", ["1.2.3", "1.2.3+cu128", "1.2.3+mine", "1.1.0+cu130"])
def test_wheel_of_other_build_has_no_recipe(tmp_path: Path, version: str) -> None:
    wheel = make_wheel(tmp_path, version=version)

    run_session(tmp_path, wheel, entries=(make_entry(tmp_path),))


@pytest.mark.parametrize(
    ("flags", "code"), [((), 0), (("-Wl,-rpath,/tmp/lib",), 81), (("-Wl,-z,execstack",), 80)]
)
def test_exit_code_is_the_severitys(tmp_path: Path, flags: tuple[str, ...], code: int) -> None:
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
def test_ends_quietly_with_closed_pipe(tmp_path: Path, option: str) -> None:
    wheels = [make_wheel(tmp_path, "-Wl,-rpath,/tmp/lib", name=f"n{number}") for number in range(2)]
    command = f"{sys.executable} -m cuwheel audit {wheels[0]} {wheels[1]} {option} | true"

    finished = process.run(["sh", "-c", command], env={"HOME": str(tmp_path)}, cwd=ROOT)

    assert "BrokenPipe" not in finished.output


def test_leaves_out_sources_beside_wheels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = write_wheel(tmp_path, {"toy.py": b""}, name="toy")
    source = tmp_path / "toy-1.0.tar.gz"
    source.write_bytes(b"a source")

    run_command("audit", [str(wheel), str(source)], Console())

    assert "toy-1.0.tar.gz is left out: it is a source" in capsys.readouterr().err
    with pytest.raises(UsageError, match="neither a wheel") as caught:
        run_command("audit", [str(source)], Console())
    assert "build a wheel of it first" in caught.value.why


def test_annotates_findings_in_a_workflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name in a wheel can't be a command of the runner."""
    wheel = make_wheel(tmp_path / "dist", "-Wl,-rpath,/tmp/lib")
    write_wheel(tmp_path / "dist", {"pkg/\n::error::faked.so": b""}, name="evil", tag=TAG)
    for name, value in (("ACTIONS", "true"), ("WORKSPACE", str(tmp_path))):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    run_command("audit", [str(tmp_path / "dist"), "--fail-on", "never"], Console())

    output = capsys.readouterr()
    [line] = [line for line in output.err.splitlines() if wheel.name in line]
    head, _, text = line.removeprefix("::").partition("::")
    assert head == f"warning title={wheel.name}%3A rpath,file=dist/{wheel.name}"
    assert text.startswith("tiny_cuda/libtiny.so: ")
    assert text.endswith("TROUBLESHOOTING.md#audit-rpath")
    assert not re.search(r"(?m)^::error::faked", output.out + output.err)
    summary = (tmp_path / "summary.md").read_text().replace("\\_", "_")
    assert wheel.name in summary
