from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import (
    PublishedWheelError,
    UsageError,
    WheelIndexError,
)
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.build.pipeline.stages.index import index
from cuwheel.build.workspace.records import Audit, RepairedWheel
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import heard, make_job, make_target
from tests.support.packages.toy_wheel import add_wheel


def save_repaired(workspace: Workspace, wheel: Path, audited: str = "") -> str:
    """Write the records of the stages before the index."""
    sha256 = sha256_of_file(wheel)
    repaired = RepairedWheel(
        path=wheel,
        sha256=sha256,
        size=wheel.stat().st_size,
        platform_tag="any",
        external=(),
        requires=(),
        tools=(),
    )
    workspace.save("repair", repaired)
    workspace.save("audit", Audit(sha256=audited or sha256, archs=(), ptx_archs=(), suppliers=()))
    (workspace.work / "provenance.json").write_text(f'{{"subject": "{sha256}"}}')
    return sha256


def test_never_changes_what_is_published(workspace: Workspace, tmp_path: Path) -> None:
    published_sha256 = sha256_of_file(add_wheel(workspace.dist, content="OLD = True"))
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    with pytest.raises(PublishedWheelError, match="published with different bytes") as caught:
        index(make_job(make_target(), workspace))

    assert published_sha256 in caught.value.why
    assert [sha256_of_file(path) for path in workspace.dist.glob("*.whl")] == [published_sha256]


def test_replaces_what_is_published_with_the_option(workspace: Workspace, tmp_path: Path) -> None:
    add_wheel(workspace.dist, content="OLD = True")
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    published = index(make_job(make_target(), workspace, replace=True))

    assert sha256_of_file(published.wheel) == sha256
    assert "is replaced" in heard(workspace)


def test_publishes_wheel_and_puts_it_back_when_it_was_changed(
    workspace: Workspace, tmp_path: Path
) -> None:
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    job = make_job(make_target(), workspace)
    published = index(job)
    assert published.provenance.name == "toy-1.0-py3-none-any.whl.provenance.json"
    assert sha256 in published.provenance.read_text()
    assert sha256 in (published.index / "toy" / "index.html").read_text()
    published.wheel.write_bytes(b"evil")
    published.provenance.write_text(f'{{"subject": [{{"digest": {{"sha256": "{sha256}"}}}}]}}')

    index(job)

    assert sha256_of_file(published.wheel) == sha256
    save_repaired(workspace, published.wheel)
    (workspace.work / "provenance.json").unlink()
    assert index(job) == published


# Runs the stage and kills itself, as kill -9 would, at the first call of a function.
_KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from cuwheel.build.pipeline.stages.index import index
from tests.support.factories import make_job, make_target, make_workspace

def die(*args):
    if hasattr(args[-1], "write"):
        args[-1].write(b"half of it")
        args[-1].flush()
    os.kill(os.getpid(), signal.SIGKILL)

shutil.copyfileobj = die
index(make_job(make_target(), make_workspace(Path(sys.argv[1]))))
"""


def test_removes_what_a_killed_run_left(workspace: Workspace, tmp_path: Path) -> None:
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    argv = [sys.executable, "-c", _KILLED, str(tmp_path)]
    killed = subprocess.run(argv, cwd=ROOT, check=False)
    before = list(workspace.dist.glob(".*-part"))

    index(make_job(make_target(), workspace))

    assert (killed.returncode, len(before)) == (-signal.SIGKILL, 1)
    hidden = {path.name for path in workspace.dist.glob(".*")}
    assert hidden == {MARKER, ".cuwheel", ".publish.lock", ".simple.lock"}


@pytest.mark.parametrize("other", ["audit", "provenance"])
def test_refuses_wheel_with_audit_or_provenance_of_another(
    workspace: Workspace, tmp_path: Path, other: str
) -> None:
    audited = "0" * 64 if other == "audit" else ""
    save_repaired(workspace, add_wheel(tmp_path / "repaired"), audited=audited)
    if other == "provenance":
        (workspace.work / "provenance.json").write_text('{"subject": "of another wheel"}')

    with pytest.raises(WheelIndexError if other == "audit" else UsageError):
        index(make_job(make_target(), workspace))

    assert not list(workspace.dist.glob("*"))
