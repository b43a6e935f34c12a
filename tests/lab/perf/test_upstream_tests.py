"""Tests of a package's source, run by the pytest of its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import ProbeError
from cuwheel.lab.perf.probe_process import PerfEnvironment
from cuwheel.lab.perf.upstream_tests import run_upstream_tests
from tests.support.lab.perf_runs import request_for

TESTS = """\
import pytest
from measured import double

@pytest.mark.parametrize("value", [1, 2])
def test_doubles(value):
    assert double(value) == 2 * value

def test_wrong():
    assert double(1) == 3

@pytest.mark.skip(reason="no time")
def test_skipped():
    pass
"""


@pytest.fixture
def place(tmp_path: Path) -> PerfEnvironment:
    return request_for(tmp_path).new


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source whose own package must not be imported."""
    folder = tmp_path / "source"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_measured.py").write_text(TESTS)
    (folder / "measured.py").write_text("raise ImportError('the source, not the wheel')\n")
    return folder


@pytest.mark.parametrize("name", ["tests", "tests/test_measured.py"])
def test_counts_results(place: PerfEnvironment, source: Path, tmp_path: Path, name: str) -> None:
    result = run_upstream_tests(place, source, [name], tmp_path / "log")

    assert (result.passed, result.failed, result.skipped) == (2, 1, 1)
    assert result.names == (name,)
    assert [test.rpartition("::")[2] for test in result.broken] == ["test_wrong"]


def test_no_test_at_all_is_a_failure(place: PerfEnvironment, source: Path, tmp_path: Path) -> None:
    (source / "tests" / "test_measured.py").write_text("")

    result = run_upstream_tests(place, source, ["tests"], tmp_path / "log")

    assert result.broken == ("no test ran, 0 were skipped",)


def test_names_what_the_source_lacks(place: PerfEnvironment, source: Path, tmp_path: Path) -> None:
    with pytest.raises(ProbeError) as caught:
        run_upstream_tests(place, source, ["other"], tmp_path / "log")

    assert "its source has no other" in caught.value.what
