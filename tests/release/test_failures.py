"""Failed targets stand in the notes with what their log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.errors import BuildFailedError
from cuwheel.paths import ROOT
from cuwheel.workspace.failure_record import forget_failure, write_failure

if TYPE_CHECKING:
    from tests.support.released import Project

TARGET = "toy-122-cp312"
LOG = ROOT / "tests" / "logs" / "raw" / "nvcc-not-found--make.log"


def fail(project: Project, *, log: bool = True) -> None:
    error = BuildFailedError(
        f"{TARGET}: the package's own build failed",
        command=("make",),
        status=2,
        log=LOG if log else None,
        tail=(),
        fix="read the log",
    )
    write_failure(error, project.dist, TARGET)


def test_explains_failure_from_its_log(project: Project) -> None:
    project.add()
    fail(project)

    found = project.publish()

    [failed] = found.release.failed
    assert (failed.target, failed.anchor) == (TARGET, "nvcc-not-found")
    notes = (found.folder / "notes.md").read_text()
    assert f"- `{TARGET}`, " in notes
    assert f"because {failed.why.split()[0]}" in notes
    assert "TROUBLESHOOTING.md#nvcc-not-found" in notes
    assert f"log: `logs/{TARGET}.failed.log`" in notes
    log = (found.folder / "logs" / f"{TARGET}.failed.log").read_text()
    assert len(log.splitlines()) == len(LOG.read_text().splitlines())


def test_failure_without_a_log_says_its_error(project: Project) -> None:
    project.add()
    fail(project, log=False)

    [failed] = project.plan().release.failed

    assert (failed.why, failed.fix, failed.log) == ("it exited with status 2", "read the log", "")


def test_tells_old_failures_and_what_works_again(project: Project) -> None:
    project.add("1.0")
    fail(project, log=False)
    project.publish()
    project.add("2.0")

    second = (project.publish().folder / "notes.md").read_text()
    forget_failure(project.dist, TARGET)
    project.add("3.0")
    third = (project.publish().folder / "notes.md").read_text()

    assert "as in the previous release" in second
    assert f"No longer failing: `{TARGET}`." in third
    assert "## Failed" not in third


def test_failure_names_no_folder_of_this_machine(project: Project) -> None:
    project.add()
    error = BuildFailedError(
        f"{TARGET}: the package's own build failed in {project.folder}/work/{TARGET}",
        command=("make",),
        status=2,
        log=None,
        tail=(),
        why="https://me:secret@host/x can't be read",
        fix=f"look into {project.folder}/work/{TARGET}/logs",
    )
    write_failure(error, project.dist, TARGET)

    found = project.publish()

    [failed] = found.release.failed
    assert failed.what.endswith(f"failed in <work>/{TARGET}")
    assert (failed.why, failed.fix) == (
        "https://host/x can't be read",
        f"look into <work>/{TARGET}/logs",
    )
    for name in ("notes.md", "release.json"):
        assert str(project.folder) not in (found.folder / name).read_text()
