"""What an interpreter tells of its environment, damaged ones too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cuwheel.diagnose.facts import environment, imports
from cuwheel.errors import InterpreterNotFoundError
from tests.support.diagnosed import Env, look_into, verdict_on
from tests.support.pythons import find_old_python
from tests.support.requirements import lack


def test_reads_files_of_torch_that_hangs(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "IMPORT_TIME_LIMIT", 1.0)
    env.install_torch(more="import time; time.sleep(1000)")

    report = look_into(env)

    assert "no answer within 1 s" in verdict_on(report, "diagnose-import-failed").cause
    assert report.frameworks[0].cuda == "13.0"


@pytest.mark.parametrize("release", ["2.7", "3.6", "3.7"])
def test_names_the_release_of_an_old_python(release: str) -> None:
    python = find_old_python(release)
    if python is None:
        lack("old-python", f"this machine has no Python {release}", "what diagnose says of it")

    with pytest.raises(InterpreterNotFoundError) as caught:
        environment.ask_environment(python, {"PATH": "/usr/bin:/bin"})

    assert f"is Python {release}." in caught.value.what
    assert "diagnose needs 3.8 or newer" in caught.value.what


def test_goes_on_past_damaged_metadata(env: Env) -> None:
    (env.site / "broken-1.0.dist-info").mkdir()
    (env.site / "odd-1.0.dist-info").mkdir()
    (env.site / "odd-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\0Name")
    env.install_torch()

    report = look_into(env)

    told = [one.what for one in report.verdicts if one.anchor == "diagnose-damaged-installation"]
    assert sorted(told) == [
        "broken-1.0.dist-info can't be read",
        "odd-1.0.dist-info can't be read",
    ]
    assert report.frameworks[0].was_imported


@pytest.mark.parametrize(("file", "is_read"), [("METADATA", False), ("RECORD", True)])
def test_goes_on_past_file_that_a_power_failure_has_zeroed(
    env: Env, file: str, *, is_read: bool
) -> None:
    env.install_torch()
    env.install("ext", {"ext/libext.so": env.extension("")})
    zeroed = env.site / "ext-1.2.3.dist-info" / file
    zeroed.write_bytes(b"\0" * 200 + b"\next/lib\0.so,,\n")

    report = look_into(env)

    assert verdict_on(report, "diagnose-damaged-installation").what.startswith("ext-1.2.3.dist-inf")
    assert [one.what for one in report.verdicts if one.anchor == "diagnose-not-asked"] == []
    assert report.frameworks[0].was_imported
    assert report.environment
    assert ("ext" in report.environment.distributions) is is_read


@pytest.mark.parametrize("name", ["ls", "cat", "true"])
def test_says_that_a_program_is_no_python(name: str) -> None:
    path = shutil.which(name)
    assert path

    with pytest.raises(InterpreterNotFoundError, match=f"{name} is not a Python\\n") as caught:
        environment.ask_environment(Path(path), os.environ)

    assert "environment.py" not in caught.value.why
