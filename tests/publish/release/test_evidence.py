"""What a release requires of its wheels, and what it tells of failed targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import BuildFailedError, PolicyError
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.workspace.failure_record import forget_failure, write_failure
from cuwheel.build.workspace.masking import PublicText
from cuwheel.lab.perf.records import Sanitizing
from cuwheel.publish.rebuild.builds import BuiltAgain
from cuwheel.publish.rebuild.documents import record_verification
from cuwheel.publish.rebuild.published import PublishedWheel
from cuwheel.publish.rebuild.verify import Verified, VerifiedAgainst
from cuwheel.publish.release.evidence import build_logs, read_failures
from tests.support.lab.perf_runs import compared, make_case
from tests.support.publish.releases import Project


def built_again(name: str, wheel: Path, sha256: str) -> BuiltAgain:
    return BuiltAgain(name=name, varied=name, wheel=wheel, sha256=sha256, seconds=1.0, cache="")


def verify(project: Project, wheel: Path, *, sha256: str = "") -> None:
    """Leave the record of a verification, as `verify --against` does."""
    published = PublishedWheel(named=wheel, sha256=sha256_of_file(wheel), wheel=wheel, statement={})
    built = built_again("again", wheel, sha256 or published.sha256)
    result = VerifiedAgainst(theirs=published, build=built)
    record_verification(result, "toy-130", project.folder / "reports")


def name_target(wheel: Path) -> None:
    """Let the statement of a wheel name its target."""
    stated: dict[str, Any] = json.loads(statement_of(wheel).read_text())
    requested = stated["predicate"]["buildDefinition"]["externalParameters"]
    requested |= {"recipe": "toy", "toolkit": "13.0"}
    statement_of(wheel).write_text(json.dumps(stated))


def refusal(project: Project, *required: str) -> PolicyError:
    error = refusal_of(project, *required)
    assert not (project.site / "releases").exists()
    return error


def refusal_of(project: Project, *required: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        project.publish(required=required)
    return caught.value


def test_refuses_wheel_without_records_and_shows_what_to_run(project: Project) -> None:
    wheel = project.add()
    name_target(wheel)

    error = refusal(project, "perf", "verify")

    assert error.fix.splitlines() == [
        f"nox -s perf -- --wheel {wheel}",
        f"nox -s verify -- toy-130 --against {wheel}",
    ]
    assert f"{wheel.name}: there is no perf record for this file (by SHA-256)" in error.why


def test_passes_with_records_of_these_bytes(project: Project) -> None:
    wheel = project.add()
    project.measure(wheel, against="old.whl", answer="SAME")
    verify(project, wheel)

    [released] = project.publish(required=("perf", "verify")).release.wheels

    assert released.perf == "passed on Test GPU, driver 580, 2026-11-23, SAME against old.whl"
    assert released.verify.startswith("the same bytes from 1 build")
    folder = project.site / "releases"
    assert sorted(path.name for path in folder.rglob("records/*")) == [
        f"{wheel.name}.perf.json",
        f"{wheel.name}.verify.json",
    ]


def test_record_of_other_bytes_is_none(project: Project) -> None:
    wheel = project.add()
    project.measure(wheel)
    project.add(content="# other\n")

    assert "there is no perf record for this file (by SHA-256)" in refusal(project, "perf").why


@pytest.mark.parametrize(
    ("case", "changes", "outcome"),
    [
        (make_case(faults=("far off",)), {}, "wrong"),
        (make_case(failed="it raised"), {}, "failed"),
        (make_case(skipped="no memory"), {}, "not run"),
        (make_case(comparison=compared("SLOWER", 1.2)), {"answer": "SLOWER"}, "slower"),
        (make_case(comparison=compared("UNDECIDED")), {"answer": "UNDECIDED"}, "undecided"),
    ],
)
def test_measurement_that_did_not_pass(
    case: Any, changes: dict[str, Any], outcome: str, project: Project
) -> None:
    project.measure(project.add(), case, **changes)

    assert f"perf says: {outcome} on Test GPU" in refusal(project, "perf").why


def test_newest_record_counts(project: Project) -> None:
    wheel = project.add()
    project.measure(wheel, date="2026-11-20T09:00:00+00:00")
    project.measure(wheel, make_case(failed="it raised"), date="2026-11-21T09:00:00+00:00")

    assert "perf says: failed" in refusal(project, "perf").why


def test_other_bytes_do_not_verify(project: Project) -> None:
    wheel = project.add()
    verify(project, wheel, sha256="ab" * 32)

    assert "verify says: other bytes from 1 build" in refusal(project, "verify").why


def test_wheel_without_provenance_can_not_be_verified(project: Project) -> None:
    wheel = project.add()
    statement_of(wheel).unlink()

    assert "has no provenance of cuwheel" in refusal(project, "verify").fix


def test_files_that_are_no_records_are_passed_over(project: Project) -> None:
    wheel = project.add()
    folder = project.measure(wheel).parent
    output = {"sha256": sha256_of_file(wheel), "schema": "audit", "schema_version": "1.0"}
    for name, text in (
        ("list", "[]"),
        ("old", '{"schema": "perf"}'),
        ("audit", json.dumps(output)),
    ):
        (folder / f"{name}.json").write_text(text)

    assert project.publish(required=("perf",)).state == "published"


@pytest.mark.parametrize("schema", ["perf", "wheel-verification", ""])
def test_refuses_where_a_record_may_be_damaged(schema: str, project: Project) -> None:
    wheel = project.add()
    folder = project.measure(wheel).parent
    output = {"sha256": sha256_of_file(wheel), "schema": schema, "schema_version": "1.0"}
    (folder / "cut.json").write_text(json.dumps(output) if schema else json.dumps(output)[:-1])

    error = refusal(project, "perf")
    (folder / "cut.json").rename(project.folder / "cut.json")

    assert f"{folder / 'cut.json'}: " in error.why
    first, last = error.fix.splitlines()  # else the older record that passed would count
    assert first.startswith("nox -s perf -- --wheel")
    assert "move the damaged records away" in last
    assert project.publish(required=("perf",)).state == "published"


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        (make_case(), {"is_quick": True}),
        (make_case(skipped="no memory"), {}),
    ],
)
def test_partial_measurement_does_not_pass(
    case: Any, changes: dict[str, Any], project: Project
) -> None:
    project.measure(project.add(), make_case("other"), case, **changes)

    assert "passed on Test GPU, driver 580, 2026-11-23, without" in refusal(project, "perf").why


@pytest.mark.parametrize(
    "change",
    [
        {"date": 5},
        {"date": None},
        {"sha256": []},
        {"answer": "slower"},
        {"answer": ["SLOWER"]},
        {"gpu": {"name": 5, "uuid": "", "capability": "90"}},
        {"is_quick": None},
        {"cases": [{"name": "forward"}]},
    ],
)
def test_record_with_a_field_of_another_kind_does_not_pass(
    project: Project, change: dict[str, Any]
) -> None:
    path = project.measure(project.add())
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    refusal(project, "perf")


def test_record_without_its_completeness_is_incomplete(project: Project) -> None:
    path = project.measure(project.add())
    content = json.loads(path.read_text())
    del content["is_quick"]
    path.write_text(json.dumps(content))

    assert "without all but the quick cases" in refusal(project, "perf").why


_SLOWER: dict[str, Any] = {
    "against": "old.whl",
    "against_sha256": "0" * 64,
    "answer": "SLOWER",
    "tolerance": 0.01,
}


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        (make_case(), {}),
        (make_case(comparison=compared("SAME")), {**_SLOWER, "answer": "SAME", "is_quick": True}),
        (
            make_case(comparison=compared("FASTER")),
            {**_SLOWER, "answer": "FASTER", "against_sha256": "1" * 64},
        ),
        (make_case("another", comparison=compared("SAME")), {**_SLOWER, "answer": "SAME"}),
        (make_case(comparison=compared("SAME")), {**_SLOWER, "answer": "SAME", "tolerance": 0.05}),
        (make_case(comparison=compared("SLOWER", 1.2)), {**_SLOWER, "answer": "SAME"}),
        (make_case(skipped="no memory"), {}),
    ],
)
def test_weaker_measurement_takes_no_refusal_back(
    case: Any, changes: dict[str, Any], project: Project
) -> None:
    slower = make_case(comparison=compared("SLOWER", 1.2))
    wheel = project.add()
    old = wheel.with_name("old.whl")
    project.measure(wheel, slower, date="2026-11-20T09:00:00+00:00", **_SLOWER)
    project.measure(wheel, case, date="2026-11-21T09:00:00+00:00", **changes)

    error = refusal(project, "perf")

    assert "perf says: slower on Test GPU" in error.why
    assert error.fix == f"nox -s perf -- --wheel {wheel} --against {old.name}"


def test_same_comparison_again_takes_it_back(project: Project) -> None:
    wheel = project.add()
    for day, answer in (("20", "SLOWER"), ("21", "SAME")):
        case = make_case(comparison=compared(answer))
        date = f"2026-11-{day}T09:00:00+00:00"
        project.measure(wheel, case, date=date, **{**_SLOWER, "answer": answer})

    assert project.publish(required=("perf",)).state == "published"


def test_busy_measurement_does_not_pass(project: Project) -> None:
    project.measure(project.add(), is_busy=True)

    assert (
        "passed on Test GPU, driver 580, 2026-11-23, beside other" in refusal(project, "perf").why
    )


def test_wide_tolerance_does_not_pass(project: Project) -> None:
    wheel, old = project.add(), {"against": "old.whl", "against_sha256": "0" * 64}
    same = make_case(comparison=compared("SAME", 1.2))
    project.measure(wheel, same, **old, answer="SAME", tolerance=0.3)

    assert "with a tolerance of 30 %" in refusal(project, "perf").why


def test_wheel_is_compared_with_the_last_release(project: Project) -> None:
    old = project.add("1.0+cu130")
    project.publish()
    new = project.add("1.1+cu130", content="# new\n")
    project.measure(new)

    error = refusal_of(project, "perf")
    assert f"and not compared with {old.name}" in error.why
    published = project.site / "files" / old.name
    assert error.fix == f"nox -s perf -- --wheel {new} --against {published}"

    case = make_case(comparison=compared("SAME"))
    project.measure(
        new,
        case,
        date="2026-11-24T09:00:00+00:00",
        against=old.name,
        against_sha256=sha256_of_file(old),
        answer="SAME",
    )
    assert project.publish(required=("perf",)).state == "published"


def test_wheel_is_compared_with_the_recipes_reference(project: Project) -> None:
    wheel, reference = project.add(), "5" * 64
    case = make_case(comparison=compared("SAME"))
    project.measure(wheel, reference=reference, date="2026-11-20T09:00:00+00:00")

    assert f"the recipe's reference, SHA-256 {reference}" in refusal(project, "perf").why

    same = {"against": "r.whl", "against_sha256": reference, "answer": "SAME"}
    project.measure(wheel, case, reference=reference, **same)
    assert project.publish(required=("perf",)).state == "published"


def test_commands_are_as_thorough_as_the_refusal(project: Project) -> None:
    wheel = project.add()
    tool = Sanitizing(tool="racecheck", cases=("a",), problems=("k: Race",), seconds=1.0)
    project.measure(wheel, sanitizing=(tool,), date="2026-11-20T09:00:00+00:00")
    project.measure(wheel)  # it doesn't look for races

    error = refusal(project, "perf")

    assert "perf says: wrong on Test GPU" in error.why
    assert error.fix == f"nox -s perf -- --wheel {wheel} --sanitize"


def test_one_build_takes_no_difference_of_three_back(project: Project) -> None:
    wheel = project.add()
    sha256 = sha256_of_file(wheel)
    name_target(wheel)
    builds = tuple(built_again(name, wheel, sha256) for name in ("usual", "other", "warm"))
    three = Verified(builds=builds, unequal=("warm",), causes=())
    record_verification(three, "toy-130", project.folder / "reports")
    verify(project, wheel)

    error = refusal(project, "verify")

    assert "verify says: other bytes from 3 builds" in error.why
    assert error.fix.startswith("nox -s verify -- toy-130")
    assert "--against" not in error.fix


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

    result = project.publish()

    [failed] = result.release.failed
    assert (failed.target, failed.anchor) == (TARGET, "nvcc-not-found")
    notes = (result.folder / "notes.md").read_text()
    assert f"- `{TARGET}`, " in notes
    assert f"because {failed.why.split()[0]}" in notes
    assert "TROUBLESHOOTING.md#nvcc-not-found" in notes
    assert f"log: `logs/{TARGET}.failed.log`" in notes
    log = (result.folder / "logs" / f"{TARGET}.failed.log").read_text()
    assert len(log.splitlines()) == len(LOG.read_text().splitlines())


def test_failure_without_a_log_shows_its_error(project: Project) -> None:
    project.add()
    fail(project, log=False)

    [failed] = project.plan().release.failed

    assert (failed.why, failed.fix, failed.log) == ("it exited with status 2", "read the log", "")


def test_failure_outside_of_the_matrix_is_not_published(project: Project) -> None:
    project.add()
    fail(project, log=False)

    text = PublicText({project.dist: "<dist>"})
    inside, _ = read_failures([project.dist], text, frozenset({TARGET}))
    outside, _ = read_failures([project.dist], text, frozenset({"toy-122-cp313"}))

    assert ([*inside], [*outside]) == ([TARGET], [])


def test_log_of_a_later_build_is_not_the_wheel_s(tmp_path: Path) -> None:
    dist, log = tmp_path / "dist", tmp_path / "work" / TARGET / "logs" / "build.log"
    (dist / ".cuwheel").mkdir(parents=True)
    log.parent.mkdir(parents=True)
    log.write_text("of the wheel")
    summary = {"summary": {"sha256": "00", "wheel": "toy.whl"}}
    (dist / ".cuwheel" / f"{TARGET}.json").write_text(json.dumps(summary))
    named = [{"name": "build.log", "digest": {"sha256": sha256_of_file(log)}}]
    statement = {"predicate": {"runDetails": {"byproducts": named}}}
    (dist / "toy.whl.provenance.json").write_text(json.dumps(statement))
    own = build_logs([dist], tmp_path / "work")
    log.write_text("of a build that failed")

    other = build_logs([dist], tmp_path / "work")

    assert ([*own], [*other]) == (["00"], [])


def test_reports_old_failures_and_what_works_again(project: Project) -> None:
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

    result = project.publish()

    [failed] = result.release.failed
    assert failed.what.endswith(f"failed in <work>/{TARGET}")
    assert (failed.why, failed.fix) == (
        "https://host/x can't be read",
        f"look into <work>/{TARGET}/logs",
    )
    for name in ("notes.md", "release.json"):
        assert str(project.folder) not in (result.folder / name).read_text()
