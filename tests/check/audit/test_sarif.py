"""SARIF of an audit: the form that GitHub's code scanning takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import AuditError, UsageError
from cuwheel.base.system.console import silent_console
from cuwheel.check.audit.audit import AuditOptions, audit_session
from cuwheel.cli.dispatch import run_command
from tests.support.factories import compile_library, write_wheel


def _run(folder: Path, wheels: list[Path]) -> dict[str, Any]:
    options = AuditOptions(sarif=folder / "audit.sarif", folder=folder, as_json=True)
    with pytest.raises(AuditError):
        audit_session(wheels, lambda _: None, silent_console(), options)
    document = json.loads((folder / "audit.sarif").read_text())
    assert (document["version"], len(document["runs"])) == ("2.1.0", 1)
    run: dict[str, Any] = document["runs"][0]
    return run


def test_names_rule_wheel_and_member(tmp_path: Path) -> None:
    library = compile_library(tmp_path / "libx.so", "gcc", "-xc", "/dev/null", "-Wl,-rpath,x")
    wheel = write_wheel(tmp_path / "a b", {"pkg/libx.so": library})

    run = _run(tmp_path, [wheel])

    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    [result] = [item for item in run["results"] if item["ruleId"] == "audit-rpath"]
    assert (result["level"], rules[result["ruleIndex"]]) == ("note", "audit-rpath")
    [location] = result["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == f"a%20b/{wheel.name}"
    assert physical["region"]["startLine"] == 1
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "pkg/libx.so"


def test_wheel_elsewhere_and_unreadable_one(tmp_path: Path) -> None:
    folder, broken = tmp_path / "checkout", tmp_path / "x-1.0-py3-none-any.whl"
    folder.mkdir()
    broken.write_bytes(b"no zip")

    run = _run(folder, [broken])

    [result] = run["results"]
    [location] = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == broken.as_uri()


@pytest.mark.parametrize(
    "name", ["x-1.0-py3-none-any.whl", "other.whl", "folder", "-", "null", "copy"]
)
def test_replaces_nothing_but_files(tmp_path: Path, name: str) -> None:
    wheel = write_wheel(tmp_path, {"pkg/__init__.py": b""}, name="x", version="1.0")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "copy").write_bytes(before := wheel.read_bytes())
    words = [str(wheel), str(tmp_path / "copy"), "--sarif", str(tmp_path / name)]

    with pytest.raises(UsageError):
        run_command("audit", words, silent_console())

    assert wheel.read_bytes() == (tmp_path / "copy").read_bytes() == before
    assert (tmp_path / "null").is_symlink()
