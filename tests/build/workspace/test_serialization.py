"""Records of every kind, damaged in every way: read whole, or not at all, without a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.formats.wheel.publication import published_sha256, statement_of
from cuwheel.base.system.output.documents import as_file
from cuwheel.build.compile import canary
from cuwheel.build.compile.canary import Canary
from cuwheel.build.environments.framework_release import read_framework_release
from cuwheel.build.pipeline.package_build.requirements import BackendAnswer
from cuwheel.build.pipeline.published import build_path, read_build
from cuwheel.build.pipeline.run_state import STATE, have_all_run, is_cleaning_up, is_unfinished
from cuwheel.build.workspace.failure_record import FailureRecord, failure_path, read_failure
from cuwheel.build.workspace.records import RECORDS, BuiltWheel
from cuwheel.build.workspace.serialization import from_json, read_record, to_json
from cuwheel.lab.nightly.cycle import keep_baseline
from tests.build.workspace.test_workspace import SAVED
from tests.support.factories import make_job, make_target, make_workspace
from tests.support.lab.perf_runs import make_run

# Files after crashes, full disks, power cuts and edits.
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
    BackendAnswer(build=("ninja",), run=("torch==2.11.0",), standards=("17",), sources=()),
    FailureRecord(date="d", exit_code=60, what="w", why="y", fix="f", anchor="a"),
]


def mutilated(record: object) -> Iterator[bytes]:
    """Cut off at each place, and with each field gone or of each other type."""
    text = to_json(record).encode()
    yield from (text[:end] for end in range(0, len(text) - 2, 7))
    content = json.loads(text)
    for name in content:
        yield json.dumps(
            {other: value for other, value in content.items() if other != name}
        ).encode()
        for value in _VALUES:
            yield json.dumps({**content, name: value}).encode()
    yield json.dumps({**content, "unknown": 1}).encode()


@pytest.mark.parametrize("record", _KINDS, ids=lambda record: type(record).__name__)
def test_gives_whole_records_or_none(record: object, tmp_path: Path) -> None:
    """A record that was read can be written and read again."""
    path, kind = tmp_path / "record.json", type(record)

    for text in mutilated(record):
        path.write_bytes(text)
        read = read_record(path, kind)
        assert read is None or from_json(kind, json.loads(to_json(read))) == read, text

    path.write_text(to_json(record))
    assert read_record(path, kind) == record


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_file_of_a_build_is_none(text: bytes, tmp_path: Path) -> None:
    """Records of stages, of the run, of a published wheel and of a failure, and a statement."""
    job = make_job(make_target(), make_workspace(tmp_path))
    workspace, wheel = job.workspace, tmp_path / "a.whl"
    failure = failure_path(workspace.dist, job.target.id)
    stages = [workspace.record_path(stage) for stage in RECORDS]
    for path in (*stages, workspace.work / STATE, build_path(job), failure, statement_of(wheel)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    assert [stage for stage in RECORDS if workspace.has(stage)] == []
    with pytest.raises(UsageError):
        workspace.load("build", BuiltWheel)
    assert not is_cleaning_up(workspace)
    assert not is_unfinished(workspace)
    assert not have_all_run(["x"], workspace, {})
    assert (read_build(job), read_failure(workspace.dist, job.target.id)) == (None, None)
    assert published_sha256(wheel) == ""


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_baseline_is_refused_and_stays(text: bytes, tmp_path: Path) -> None:
    figures, baseline = tmp_path / "perf.json", tmp_path / "baseline.json"
    figures.write_text(as_file(make_run(answer="FASTER")))
    baseline.write_bytes(text)

    with pytest.raises(UsageError):
        keep_baseline(figures, baseline)

    assert baseline.read_bytes() == text


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_canary_is_tried_again(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trying takes compilers and seconds; `test_canary` does that."""
    canaries = [Canary(flags=("seed",)), Canary(flags=())]
    monkeypatch.setattr(canary, "_try_all", lambda *_: canaries.pop(0))
    first = canary.run_canary(None, "f", tmp_path)  # type: ignore[arg-type]
    [record] = (tmp_path / "canaries").glob("*.json")
    record.write_bytes(text)

    again = canary.run_canary(None, "f", tmp_path)  # type: ignore[arg-type]

    assert (first.flags, again.flags) == (("seed",), ())


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:12]))
def test_malformed_release_of_a_framework_is_read_again(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.build.environments.framework_release._read_index", _request)
    kept = tmp_path / "frameworks" / "torch-2.11.0.json"
    kept.parent.mkdir()
    kept.write_bytes(text)

    with pytest.raises(_RequestError):
        read_framework_release("torch", "2.11.0", make_workspace(tmp_path, cache=tmp_path))


class _RequestError(Exception):
    pass


def _request(*_: object) -> None:
    raise _RequestError
