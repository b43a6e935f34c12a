"""Which cells a matrix has: by recipe, toolkit, Python, framework, and what can't be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuwheel.base.errors import CuwheelError, TargetRootError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.build.recipe.cells import PYTHONS
from cuwheel.build.recipe.platform import AARCH64, PLATFORMS
from cuwheel.build.toolchains.cross.target_root import TARGET_ROOT
from cuwheel.build.toolchains.debian.archives import ARCHIVES_VARIABLE
from cuwheel.cli.commands.matrix import chooser_of, matrix_parser
from cuwheel.cli.dispatch import run_command
from cuwheel.lab.matrix.state import Cell
from tests.support.build.recipe_files import write_recipe
from tests.support.factories import heard, make_workspace
from tests.support.machines import pythons as found_pythons
from tests.support.packages.foreign_platform import write_python

_TORCH = 'framework=Framework(name="torch", version="2.11.0"), build=TorchExtension(),'

_OTHER = next(one for one in PLATFORMS.values() if one.is_foreign)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own; the cache has the index's page of torch."""
    project, cache = tmp_path / "project", tmp_path / "cache"
    (project / "envs" / "build").mkdir(parents=True)
    (cache / "frameworks").mkdir(parents=True)
    for version, cuda, pythons in (
        ("2.11.0", "13.0", ["3.10", "3.11", "3.12", "3.13", "3.14"]),
        ("2.13.0", "13.0", ["3.11", "3.12"]),
        ("2.15.0", "13.2", ["3.11", "3.12"]),
    ):
        output = {"name": "torch", "version": version, "cuda": cuda, "pythons": pythons}
        copy = cache / "frameworks" / f"torch-{version}.json"
        copy.write_text(json.dumps(output))
    monkeypatch.setenv(ARCHIVES_VARIABLE, tmp_path.as_uri())  # without packages
    monkeypatch.setenv("CUWHEEL_PROJECT", str(project))
    monkeypatch.setenv("CUWHEEL_CACHE", str(cache))
    return project


def add_recipe(project: Path, name: str, more: str) -> None:
    write_recipe(project, name, f'{more} link=Link("cudart"),')


def chosen(project: Path, *arguments: str) -> tuple[tuple[Cell, ...], str]:
    """The cells of a command line, and what was printed."""
    workspace, args = make_workspace(project), matrix_parser().parse(arguments)
    return chooser_of(args, workspace.console, workspace.caller).cells(), heard(workspace)


def cells(project: Path, *arguments: str) -> tuple[Cell, ...]:
    """The cells of the project's own recipes."""
    own = [path.stem for path in (project / "recipes").glob("*.py")]
    only = [word for name in own for word in ("--only", f"{name}-*")]
    return chosen(project, *arguments, *only)[0]


def named(result: tuple[Cell, ...]) -> list[tuple[str, str]]:
    return [(cell.id, cell.impossible) for cell in result]


def test_each_python_that_the_recipe_is_for_has_a_cell(project: Path) -> None:
    add_recipe(project, "each", 'requires_python=">=3.12", build=Setuptools(),')

    result = cells(project)

    assert [cell.job.target.python for cell in result] == list(PYTHONS[2:])
    assert result[0].options == ("each-130", "--python", "3.12")


def test_wheel_for_every_python_has_one_cell(project: Path) -> None:
    add_recipe(project, "one", 'python="any", build=Setuptools(),')

    assert len(cells(project)) == 1
    [cell] = cells(project, "--python", "3.12", "--python", "3.13")
    assert cell.job.target.python == "3.12"


def test_wheel_of_stable_abi_is_built_with_oldest_python(project: Path) -> None:
    add_recipe(project, "one", 'python="abi3", requires_python=">=3.11", build=Setuptools(),')

    [cell] = cells(project, "--python", "3.13")

    assert (cell.id, cell.job.target.python) == ("one-130-cp311", "3.11")
    assert cell.options == ("one-130", "--python", "3.11")


def test_wheel_of_stable_abi_is_tried_with_the_python_that_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_recipe(project, "one", 'python="abi3", requires_python=">=3.8", build=Setuptools(),')
    release = found_pythons.pythons()[0].release
    (dist := project.parent / "dist").mkdir()
    words = ["one-130", "--python", release, "--dist", str(dist)]

    with pytest.raises(CuwheelError, match="no wheel"):
        run_command("smoke", words, Console())

    assert f"the stable ABI of 3.8 with Python {release}" in capsys.readouterr().err


def test_python_that_a_framework_has_no_wheel_for_is_impossible(project: Path) -> None:
    add_recipe(project, "torchy", _TORCH)

    result = cells(project, "--framework", "torch==2.13.0", "--python", "3.12", "--python", "3.14")

    assert named(result) == [
        ("torchy-130-cp312-torch2.13", ""),
        (
            "torchy-130-cp314-torch2.13",
            "torch==2.13.0 has no wheel for Python 3.14, only for 3.11, 3.12",
        ),
    ]
    assert result[0].options[-2:] == ("--framework", "torch==2.13.0")


@pytest.mark.parametrize(
    ("more", "options", "fault"),
    [
        (
            'requires_python=">=3.12", build=Setuptools(),',
            ("--python", "3.11"),
            "the recipe is for Python >=3.12",
        ),
        (_TORCH, ("--framework", "torch==2.15.0", "--python", "3.12"), "was built with CUDA 13.2"),
        (
            "build=Setuptools(),",
            ("--python", "3.12", "--platform", _OTHER.name, "--toolchain", "conda"),
            "CUDA 13.0 comes from conda; for ",
        ),
    ],
)
def test_what_can_not_be_is_impossible(
    more: str, options: tuple[str, ...], fault: str, project: Path
) -> None:
    add_recipe(project, "each", more)

    [cell] = cells(project, *options)

    assert fault in cell.impossible


def test_release_with_a_lock_is_shown_without_a_request(project: Path) -> None:
    add_recipe(project, "torchy", _TORCH)
    lock = project / "envs" / "build" / "torchy-torch2.13.0.lock"
    lock.write_text("cuda-toolkit==13.0.2\ntorch==2.13.0\n")

    result = cells(project, "--python", "3.12")

    assert [cell.id for cell in result] == [
        "torchy-130-cp312-torch2.11",
        "torchy-130-cp312-torch2.13",
    ]
    assert result[0].options == ("torchy-130", "--python", "3.12")


def test_cell_is_built_with_the_toolchain_and_links_that_were_requested(project: Path) -> None:
    add_recipe(project, "plain", "build=Setuptools(),")

    [cell] = cells(project, "--python", "3.12", "--toolchain", "conda", "--link", "bundled")

    assert cell.options[3:] == ("--link", "bundled", "--toolchain", "conda")
    assert cell.job.target.provider == "conda"


def test_framework_that_a_recipe_has_nothing_to_do_with_leaves_it_out(project: Path) -> None:
    add_recipe(project, "torchy", _TORCH)
    add_recipe(project, "plain", "build=Setuptools(),")

    result = cells(project, "--framework", "torch==2.11.0", "--python", "3.12")

    assert [cell.id for cell in result] == ["torchy-130-cp312-torch2.11"]


def test_recipe_that_cannot_be_loaded_is_reported_and_left_out(project: Path) -> None:
    add_recipe(project, "plain", "build=Setuptools(),")
    (project / "recipes" / "broken.py").write_text("RECIPE = 1 / 0\n")

    [cell], output = chosen(project, "--only", "plain-*", "--python", "3.12")

    assert cell.id == "plain-130-cp312"
    assert "broken is skipped: ZeroDivisionError" in output


def test_pattern_that_nothing_matches_lists_known_cells(project: Path) -> None:
    add_recipe(project, "plain", "build=Setuptools(),")

    with pytest.raises(UsageError, match="there is no cell plane-130-cp312") as refused:
        chosen(project, "--only", "plane-130-cp312", "--python", "3.12")

    assert "plain-130-cp312" in refused.value.why


def test_framework_that_no_recipe_has_is_reported_with_known_ones(project: Path) -> None:
    add_recipe(project, "torchy", _TORCH)

    with pytest.raises(UsageError, match="is compiled against numpy") as refused:
        chosen(project, "--framework", "numpy==2.0")

    assert refused.value.why == "the recipes name torch"


def test_cell_for_another_machine_is_marked(project: Path) -> None:
    add_recipe(project, "one", "build=Setuptools(),")

    [cell] = cells(project, "--python", "3.12", "--platform", _OTHER.name)

    assert cell.id == f"one-130-cp312-{_OTHER.machine}"
    assert cell.options == ("one-130", "--python", "3.12", "--platform", _OTHER.name)


def test_reads_another_machines_root_for_each_python(project: Path, tmp_path: Path) -> None:
    add_recipe(project, "one", "build=Setuptools(),")
    releases = [python.release for python in found_pythons.pythons()[:2]]
    for release in releases:
        write_python(tmp_path / "root" / "usr", release)
    chosen = [word for release in releases for word in ("--python", release)]
    root = ("--platform", AARCH64.name, "--target-root", str(tmp_path / "root"))

    result = cells(project, *chosen, *root)

    roots = [cell.job.machine.target_root for cell in result]
    assert [root.release for root in roots if root] == releases


def test_wheel_of_stable_abi_is_built_with_python_of_another_machines_root(
    project: Path, tmp_path: Path
) -> None:
    add_recipe(project, "one", 'python="abi3", requires_python=">=3.8", build=Setuptools(),')
    release = found_pythons.pythons()[0].release
    write_python(tmp_path / "root" / "usr", release)
    words = ("--platform", AARCH64.name, "--target-root", str(tmp_path / "root"))

    [cell], output = chosen(project, *words, "--only", "one-*")

    assert cell.id == f"one-130-cp{release.replace('.', '')}-aarch64"
    assert f"building with Python {release}, the oldest that the root folder" in output


def test_each_platform_that_is_requested_has_a_cell(project: Path) -> None:
    add_recipe(project, "one", "build=Setuptools(),")
    words = [word for name in PLATFORMS for word in ("--platform", name)]

    result = cells(project, "--python", "3.12", "--python", "3.13", *words)

    own, other = "one-130-cp3{}", f"one-130-cp3{{}}-{_OTHER.machine}"
    assert [cell.id for cell in result] == [one.format(n) for n in (12, 13) for one in (own, other)]
    assert [cell.options[-1] for cell in result[1::2]] == [_OTHER.name] * 2


def test_python_that_the_root_folder_lacks_is_impossible(project: Path, tmp_path: Path) -> None:
    add_recipe(project, "one", "build=Setuptools(),")
    releases = [python.release for python in found_pythons.pythons()[:2]]
    write_python(tmp_path / "root" / "usr", releases[0])
    chosen = [word for release in releases for word in ("--python", release)]

    result = cells(
        project, *chosen, "--platform", AARCH64.name, "--target-root", str(tmp_path / "root")
    )

    assert result[0].impossible == ""
    assert f"has no Python {releases[1]} for aarch64: it has" in result[1].impossible


def test_building_for_another_machine_takes_a_root_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TARGET_ROOT, raising=False)

    with pytest.raises(TargetRootError, match="no root folder of a Linux for"):
        run_command("matrix", ["build", "--platform", _OTHER.name], Console())
