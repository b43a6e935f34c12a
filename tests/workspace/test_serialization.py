"""Records of every kind, mutilated in every way: read whole, or not at all, and never a crash."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.build.launcher import canary
from cuwheel.build.launcher.canary import Canary
from cuwheel.build.requirements import BackendAnswer
from cuwheel.build.run_state import RAN, have_all_run, is_cleaning_up, resume_run
from cuwheel.errors import StageOrderError
from cuwheel.nightly.baselines import keep_baseline
from cuwheel.pipeline import published
from cuwheel.pypi.framework_release import read_framework_release
from cuwheel.system.output.documents import as_file
from cuwheel.wheel.publication import published_sha256, statement_of
from cuwheel.workspace.failure_record import FailureRecord, failure_path, read_failure
from cuwheel.workspace.records import RECORDS, BuiltWheel
from cuwheel.workspace.serialization import from_json, read_record, to_json
from tests.support.factories import make_job, make_target, make_workspace
from tests.support.measured import make_run
from tests.workspace.test_workspace import SAVED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What crashes, full disks, power cuts and people leave.
MALFORMED = [
    b"",
    b"\0" * 300,
    b"\xff\xfe\x00",
    b"{",
    b"[]",
    b"null",
    b"7",
    b"[" * 200_000,
    b"{}",
    b'{"key": 1, "summary": [], "reasons": {}}',
    b'{"what": {}}',
    json.dumps(dict.fromkeys(("path", "flags", "build", "run", "cases"))).encode(),
]
_VALUES: list[Any] = [None, True, -1, 1.5, "", "x", [], ["x"], [["x"]], [[1, 2, 3]], {}, {"x": 1}]
_KINDS = [
    *SAVED,
    Canary(flags=("seed",), by_path=("stamp",)),
    BackendAnswer(build=("ninja",), run=("torch==2.11.0",)),
    FailureRecord(date="d", exit_code=60, what="w", why="y", fix="f", anchor="a"),
]


def mutilated(record: object) -> Iterator[bytes]:
    """Cut off at each place, and with each field gone or of each other type."""
    text = to_json(record).encode()
    yield from (text[:end] for end in range(0, len(text) - 2, 7))
    content = json.loads(text)
    for name in content:
        yield json.dumps({one: value for one, value in content.items() if one != name}).encode()
        for value in _VALUES:
            yield json.dumps({**content, name: value}).encode()
    yield json.dumps({**content, "unknown": 1}).encode()


@pytest.mark.parametrize("record", _KINDS, ids=lambda record: type(record).__name__)
def test_gives_whole_records_or_none(record: object, tmp_path: Path) -> None:
    """What is given back is what it says: it can be written and read again."""
    path, kind = tmp_path / "record.json", type(record)

    for text in mutilated(record):
        path.write_bytes(text)
        found = read_record(path, kind)
        assert found is None or from_json(kind, json.loads(to_json(found))) == found, text

    path.write_text(to_json(record))
    assert read_record(path, kind) == record


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_record_of_a_stage_is_none(text: bytes, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    folder = workspace.folder("stages")
    for stage in RECORDS:
        (folder / f"{stage}.json").write_bytes(text)

    assert [stage for stage in RECORDS if workspace.has(stage)] == []
    with pytest.raises(StageOrderError):
        workspace.load("build", BuiltWheel)


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_record_of_a_failure_is_none(text: bytes, tmp_path: Path) -> None:
    path = failure_path(tmp_path, "target")
    path.parent.mkdir()
    path.write_bytes(text)

    assert read_failure(tmp_path, "target") is None


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_record_of_a_wheel_is_none(text: bytes, tmp_path: Path) -> None:
    job = make_job(make_target(), make_workspace(tmp_path))
    path = job.workspace.dist / ".cuwheel" / f"{job.target.id}.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)

    assert published(job) is None


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_work_folder_is_of_no_run(text: bytes, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    for name in ("key", RAN):
        (workspace.folder(".") / name).write_bytes(text)

    found = (
        is_cleaning_up(workspace),
        resume_run(workspace, {}),
        have_all_run(["x"], workspace, {}),
    )

    assert found == (False, False, False)


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_statement_says_nothing(text: bytes, tmp_path: Path) -> None:
    statement_of(tmp_path / "a.whl").write_bytes(text)

    assert published_sha256(tmp_path / "a.whl") == ""


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_baseline_is_replaced(text: bytes, tmp_path: Path) -> None:
    figures, baseline = tmp_path / "perf.json", tmp_path / "baseline.json"
    figures.write_text(as_file(make_run(answer="FASTER")))
    baseline.write_bytes(text)

    assert keep_baseline(figures, baseline)
    assert baseline.read_bytes() == figures.read_bytes()


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_canary_is_tried_again(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trying takes compilers and seconds; `test_canary` does that."""
    found = [Canary(flags=("seed",)), Canary(flags=())]
    monkeypatch.setattr(canary, "_try_all", lambda *_: found.pop(0))
    first = canary.run_canary(None, "f", tmp_path)  # type: ignore[arg-type]
    [record] = (tmp_path / "canaries").glob("*.json")
    record.write_bytes(text)

    again = canary.run_canary(None, "f", tmp_path)  # type: ignore[arg-type]

    assert (first.flags, again.flags) == (("seed",), ())


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_release_of_a_framework_is_asked_again(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.pypi.framework_release._ask", _asked)
    kept = tmp_path / "frameworks" / "torch-2.11.0.json"
    kept.parent.mkdir()
    kept.write_bytes(text)

    with pytest.raises(_AskedError):
        read_framework_release("torch", "2.11.0", cache=tmp_path)


class _AskedError(Exception):
    pass


def _asked(*_: object) -> None:
    raise _AskedError
