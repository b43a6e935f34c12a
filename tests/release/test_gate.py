"""A release requires records of exactly a wheel's bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import ReleaseRequirementError
from cuwheel.system.files import sha256_of_file
from cuwheel.verify.published import PublishedWheel
from cuwheel.verify.rebuilds import Rebuilt, Variation
from cuwheel.verify.session import VerifiedAgainst
from cuwheel.verify.wheel_record import record_against
from cuwheel.wheel.publication import statement_of
from tests.support.measured import compared, make_case

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.released import Project


def verify(project: Project, wheel: Path, *, sha256: str = "") -> None:
    """Leave the record of a verification, as `verify --against` does."""
    published = PublishedWheel(named=wheel, sha256=sha256_of_file(wheel), wheel=wheel, statement={})
    how = Variation(name="again", says="as it was built", work=wheel.parent, dist=wheel.parent)
    built = Rebuilt(
        variation=how, wheel=wheel, sha256=sha256 or published.sha256, seconds=1.0, cache=""
    )
    found = VerifiedAgainst(theirs=published, build=built)
    record_against(found, "toy-130", project.folder / "reports")


def refusal(project: Project, *required: str) -> ReleaseRequirementError:
    with pytest.raises(ReleaseRequirementError) as caught:
        project.publish(required=required)
    assert not (project.site / "releases").exists()
    return caught.value


def test_refuses_wheel_without_records_and_says_what_to_run(project: Project) -> None:
    wheel = project.add()
    stated: dict[str, Any] = json.loads(statement_of(wheel).read_text())
    asked = stated["predicate"]["buildDefinition"]["externalParameters"]
    asked |= {"recipe": "toy", "toolkit": "13.0"}
    statement_of(wheel).write_text(json.dumps(stated))

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
    for name, text in (("list", "[]"), ("half", "{"), ("old", '{"schema": "perf"}')):
        (folder / f"{name}.json").write_text(text)
    for number, schema in enumerate(("perf", "wheel-verification", "audit")):
        said = {"sha256": sha256_of_file(wheel), "schema": schema, "schema_version": "1.0"}
        (folder / f"{number}.json").write_text(json.dumps(said))

    assert project.publish(required=("perf",)).state == "published"
