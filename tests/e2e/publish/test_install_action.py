"""The action `ci/install-wheel`, its step run as a runner does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cuwheel.base.paths import ROOT
from tests.support.publish.installations import offer, uv_environment, versions, write_project

pytestmark = pytest.mark.e2e

_FOLDER = ROOT / "ci" / "install-wheel"


def run_action(folder: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the action in a workspace; gives what became of it, and its outputs."""
    action: dict[str, Any] = yaml.safe_load((_FOLDER / "action.yml").read_text())
    [step] = action["runs"]["steps"]
    values = {name: one.get("default", "") for name, one in action["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()}
    known = {"github.action_path": str(_FOLDER)}
    known |= {f"inputs.{name}": value for name, value in values.items()}
    given = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known[found[1]], text)
        for name, text in step["env"].items()
    }
    output = folder / "output"
    output.touch()
    variables = {
        **os.environ,
        **given,
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",  # noqa: PTH120
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(output),
        "CUWHEEL_PROJECT": str(folder / "project"),
    }
    done = subprocess.run(
        ["bash", "-c", step["run"]],
        cwd=folder,
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )
    return done, output.read_text()


def test_action_installs_and_gives_its_outputs(tmp_path: Path) -> None:
    environment = uv_environment(tmp_path / "env")
    write_project(tmp_path / "project")
    wheel = offer(tmp_path / "wheels")
    words = {"target": "toy-130", "python": "env", "index": "\nwheels\n"}

    done, outputs = run_action(tmp_path, **words, require_statement="true")

    assert done.returncode == 0, done.stderr
    assert versions(environment) == ["1.0+cu130"]
    assert f"how=wheel\nwheel={wheel.name}\nsha256=" in outputs

    wheel.with_name(f"{wheel.name}.provenance.json").unlink()
    refused, _ = run_action(tmp_path, **words, require_statement="true")

    assert refused.returncode != 0
    assert "no statement beside it" in refused.stderr
