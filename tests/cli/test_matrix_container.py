"""How cells stand where they are built in a container, and who builds them."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.commands.build.build import build_parser
from cuwheel.cli.commands.build.matrix import matrix_parser, run_matrix
from cuwheel.cli.matrix_container import OneByOne, answer_states, options_inside
from cuwheel.errors import UsageError
from cuwheel.matrix.distributed import task_of
from cuwheel.matrix.state import Cell, as_data, from_data, read_states
from cuwheel.system.console import Console
from cuwheel.system.pythons import own_python
from tests.support.factories import heard, make_job, make_target, make_workspace

if TYPE_CHECKING:
    from pathlib import Path

_RECIPE = """
from cuwheel import Link, Recipe, Sdist, Setuptools, Smoke

RECIPE = Recipe(
    name="tiny",
    version="1.0",
    license="MIT",
    homepage="https://example.invalid",
    maintainers=("someone",),
    source=Sdist(project="tiny", sha256="{hash}"),
    toolkits=("13.0",),
    archs=("90",),
    requires=("setuptools",),
    build=Setuptools(),
    link=Link("cudart"),
    smoke=Smoke(imports=("x",)),
)
"""


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    made = make_workspace(tmp_path)
    return [
        Cell(job=make_job(make_target(python=python), made), options=("tiny-cuda-130", *options))
        for python, options in (("3.11", ("--python", "3.11")), ("3.12", ()))
    ]


def test_states_come_through_as_they_are(cells: list[Cell]) -> None:
    told = json.loads(json.dumps(as_data(read_states(cells))))

    assert from_data(reversed(cells), told) == tuple(reversed(read_states(cells)))


def test_python_of_nox_is_named_to_one_that_another_runs(cells: list[Cell]) -> None:
    assert options_inside(cells[0]) == ("tiny-cuda-130", "--python", "3.11")
    assert options_inside(cells[1]) == ("tiny-cuda-130", "--python", own_python().release)


def test_answers_for_each_build_that_a_file_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = tmp_path / "project" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "tiny.py").write_text(_RECIPE.format(hash="0" * 64))
    monkeypatch.setenv("CUWHEEL_PROJECT", str(recipes.parent))
    folders = ["--work", str(tmp_path / "work"), "--dist", str(tmp_path / "dist")]
    path = tmp_path / "states.json"
    asked = [["tiny-130", "--python", release, *folders] for release in ("3.11", "3.12")]
    path.write_text(json.dumps(asked))

    answer_states(path, build_parser().parse, Console())

    told = json.loads(path.read_text())
    assert [(one["id"], one["kind"]) for one in told] == [
        ("tiny-130-cp311", "missing"),
        ("tiny-130-cp312", "missing"),
    ]


def test_runs_one_after_the_other_and_says_which(cells: list[Cell], tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    script = "import os, sys; open(sys.argv[1], 'a').write(os.environ['CUWHEEL_CELL'] + ' ')"
    tasks = [
        dataclasses.replace(
            task_of(cell, (), 1),
            command=(sys.executable, "-c", f"{script}; sys.exit({status})", str(noted)),
            environment=(("CUWHEEL_CELL", cell.id),),
        )
        for cell, status in zip(cells, (3, 0), strict=True)
    ]

    results = list(OneByOne(cells[0].job.workspace.console).run(tasks))

    assert [(one.name, one.status) for one in results] == [(cells[0].id, 3), (cells[1].id, 0)]
    assert noted.read_text().split() == [cell.id for cell in cells]
    assert f"{cells[1].id} (2 of 2)" in heard(cells[0].job.workspace)


def test_refuses_engine_without_container() -> None:
    given = matrix_parser().parse(["--container-engine", "podman"])

    with pytest.raises(UsageError, match="--container-engine"):
        run_matrix(given, Console())
