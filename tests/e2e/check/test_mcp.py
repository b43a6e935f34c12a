"""`cuwheel mcp`, spoken to by the protocol's own client over pipes, in the locked environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.paths import ROOT
from tests.support.factories import write_wheel

pytestmark = pytest.mark.e2e

CLIENT = ROOT / "tests" / "support" / "mcp_client.py"
LOG = "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"


def conversation(folder: Path, *calls: tuple[str | None, dict[str, Any]]) -> list[Any]:
    """Return the answers of one session with a server in a folder."""
    command = [sys.executable, "-m", "cuwheel.bootstrap", "mcp", "-c", CLIENT.read_text()]
    done = subprocess.run(
        command,
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def test_says_which_tools_only_read(tmp_path: Path) -> None:
    [tools] = conversation(tmp_path, (None, {}))

    assert tools == {"audit": True, "diagnose": False, "explain": True, "pick": True}


def test_answers_are_the_commands_documents(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"tiny_cuda/__init__.py": b"this is no Python\n"})
    (tmp_path / "build.log").write_text(LOG)
    machine = "python=3.12,torch=2.11,cuda=13.0,arch=90"

    audit, of_text, of_file, diagnose, pick = conversation(
        tmp_path,
        ("audit", {"wheels": [wheel.name]}),
        ("explain", {"log": LOG}),
        ("explain", {"path": "build.log"}),
        ("diagnose", {"packages": ["no-such-package"]}),
        ("pick", {"packages": ["tiny-cuda"], "machine": machine, "indexes": [str(tmp_path)]}),
    )

    assert audit["document"]["schema"] == "audit"
    [cause] = of_text["document"]["logs"][0]["causes"]
    assert cause["slug"] == "arch-newer-than-nvcc"
    assert of_file["document"]["logs"][0]["causes"][0]["slug"] == "arch-newer-than-nvcc"
    assert diagnose["document"]["schema"] == "diagnose"
    assert pick["document"]["schema"] == "pick"


def test_error_is_one_of_the_call_and_the_server_goes_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")

    gone, option, both, of_path, pipe, file, after = conversation(
        tmp_path,
        ("audit", {"wheels": ["gone.whl"]}),
        ("audit", {"wheels": ["--sarif=written"]}),
        ("explain", {}),
        ("explain", {"log": "build.log"}),
        ("explain", {"path": "pipe.log"}),
        ("pick", {"packages": ["requirements.txt"]}),
        ("explain", {"log": LOG}),
    )

    assert gone["failed"]
    assert "what: " in gone["text"]
    assert "fix: " in gone["text"]
    assert option["failed"]
    assert not (tmp_path / "written").exists()
    assert both["failed"]
    assert "`path`" in of_path["text"]
    assert pipe["failed"]
    assert file["failed"]
    assert not after["failed"]
