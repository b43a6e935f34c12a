"""cibuildwheel's step after its repair, with the lines of docs/how-to/audit-in-ci.md.

Its containers aren't needed: it audits on the machine itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from tests.support.check.audits import make_wheel
from tests.support.factories import write_wheel

pytestmark = pytest.mark.nightly

_PAGE = ROOT / "docs" / "how-to" / "audit-in-ci.md"
_STEP = """
import sys
from pathlib import Path
from cibuildwheel.audit import run_audit
from cibuildwheel.options import CommandLineArguments, compute_options

arguments = CommandLineArguments.defaults()
environ = {"CIBW_BUILD_FRONTEND": "build[uv]"}  # else it downloads virtualenv from GitHub
options = compute_options("linux", arguments, environ).build_options("cp312-manylinux_x86_64")
for wheel in sys.argv[1:]:
    run_audit(tmp_dir=Path("audit").absolute(), build_options=options, wheel=Path(wheel))
    print("passed", wheel, flush=True)
"""


def test_stops_at_a_wheel_with_findings(tmp_path: Path) -> None:
    sound = make_wheel(tmp_path / "sound")
    broken = write_wheel(tmp_path / "broken", {"toy/__init__.py": b"this is no Python\n"})
    text = _PAGE.read_text().partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "cuwheel").symlink_to(ROOT)  # the checkout that the page names
    (tmp_path / "audit").mkdir()

    done = subprocess.run(
        [sys.executable, "-m", "cuwheel.bootstrap", "clients", "-c", _STEP, sound, broken],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert f"passed {sound}" in done.stdout, done.stdout + done.stderr
    assert f"passed {broken}" not in done.stdout
    assert "error: Python code" in done.stdout
    assert "AuditCommandFailedError" in done.stderr
