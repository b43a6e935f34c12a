from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import StageOrderError, WheelIndexError
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


def test_says_when_a_rebuild_replaces_other_content(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    add_wheel(workspace.dist, content="OLD = True")
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    published = index(make_job(make_target(), workspace))

    assert sha256_of_file(published.wheel) == sha256
    assert "is replaced" in heard(workspace)


def test_removes_copy_of_a_killed_run(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    workspace.dist.mkdir()
    (workspace.dist / ".toy-1.0-py3-none-any.whl.abc.cuwheel-part").touch()

    index(make_job(make_target(), workspace))

    assert not list(workspace.dist.glob(".*-part"))


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
