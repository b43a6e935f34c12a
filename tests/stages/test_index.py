from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import PublishedWheelError, StageOrderError, WheelIndexError
from cuwheel.paths import ROOT
from cuwheel.stages.index import index
from cuwheel.system.files import sha256_of_file
from cuwheel.workspace.records import Audit, RepairedWheel
from tests.support.factories import heard, make_job, make_target, make_workspace
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace


def save_repaired(workspace: Workspace, wheel: Path, audited: str = "") -> str:
    """Leave in the work folder what the stages before the index leave."""
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


def test_publishes_wheel_and_provenance(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    published = index(make_job(make_target(), workspace))

    assert sha256_of_file(published.wheel) == sha256
    assert sha256 in published.provenance.read_text()
    assert published.provenance.name == "toy-1.0-py3-none-any.whl.provenance.json"
    assert sha256 in (published.index / "toy" / "index.html").read_text()


def test_never_changes_what_is_published(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    there = sha256_of_file(add_wheel(workspace.dist, content="OLD = True"))
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    with pytest.raises(PublishedWheelError, match="published with different bytes") as caught:
        index(make_job(make_target(), workspace))

    assert there in caught.value.why
    assert [sha256_of_file(path) for path in workspace.dist.glob("*.whl")] == [there]


def test_replaces_what_is_published_when_asked(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    add_wheel(workspace.dist, content="OLD = True")
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    published = index(make_job(make_target(), workspace, replace=True))

    assert sha256_of_file(published.wheel) == sha256
    assert "is replaced" in heard(workspace)


def test_puts_back_a_file_that_was_changed(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    job = make_job(make_target(), workspace)
    published = index(job)
    published.wheel.write_bytes(b"evil")
    published.provenance.write_text(f'{{"subject": [{{"digest": {{"sha256": "{sha256}"}}}}]}}')

    index(job)

    assert sha256_of_file(published.wheel) == sha256


# Runs the stage and kills itself, as kill -9 would, at the first call of a function.
_KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from cuwheel.stages.index import index
from tests.support.factories import make_job, make_target, make_workspace

def die(*given):
    if hasattr(given[-1], "write"):
        given[-1].write(b"half of it")
        given[-1].flush()
    os.kill(os.getpid(), signal.SIGKILL)

shutil.copyfileobj = die
index(make_job(make_target(), make_workspace(Path(sys.argv[1]))))
"""


def test_removes_what_a_killed_run_left(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    words = [sys.executable, "-c", _KILLED, str(tmp_path)]
    killed = subprocess.run(words, cwd=ROOT, check=False)
    before = list(workspace.dist.glob(".*-part"))

    index(make_job(make_target(), workspace))

    assert (killed.returncode, len(before)) == (-signal.SIGKILL, 1)
    hidden = {path.name for path in workspace.dist.glob(".*")}
    assert hidden == {".cuwheel", ".publish.lock", ".simple.lock"}


def test_publishes_again_what_is_published(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    published = index(make_job(make_target(), workspace))
    save_repaired(workspace, published.wheel)
    (workspace.work / "provenance.json").unlink()

    again = index(make_job(make_target(), workspace))

    assert again == published


def test_refuses_wheel_that_was_not_audited(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"), audited="0" * 64)

    with pytest.raises(WheelIndexError, match="not the wheel that was audited"):
        index(make_job(make_target(), workspace))

    assert not list(workspace.dist.glob("*"))


def test_refuses_wheel_with_provenance_of_another(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    (workspace.work / "provenance.json").write_text('{"subject": "of another wheel"}')

    with pytest.raises(StageOrderError, match=r"no provenance\.json of this wheel"):
        index(make_job(make_target(), workspace))
