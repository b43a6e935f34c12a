from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.system.quantities import GIB
from cuwheel.build.pipeline.target_fit import fit_targets
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.check.diagnose.document import DiagnosedTarget
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu, read_host_facts
from tests.support.factories import make_recipe, make_workspace


def fit(
    folder: Path,
    *,
    driver: str = "580.65.06",
    capability: str = "90",
    python: str = "3.12.1",
    **recipe: Any,
) -> DiagnosedTarget:
    declared = make_recipe(**recipe)
    entry = CatalogueEntry(root=folder, name=declared.name, recipe=declared)
    gpu = DriverGpu(index=0, name="A", capability=capability)
    [result] = fit_targets(
        (entry,),
        make_workspace(folder),
        Driver(version=driver, gpus=(gpu,)),
        read_host_facts(folder, {}),
        python,
    )
    return result


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"driver": ""}, "there is no NVIDIA driver"),
        ({"driver": "535.104.05"}, "driver 535.104.05 is older than 580.65.06"),
        ({"driver": "580.9.1"}, "driver 580.9.1 is older than 580.65.06"),
        ({"capability": "80"}, "its archs are sm_90, but the GPU is sm_80"),
        ({"python": "3.9.1", "requires_python": ">=3.10"}, "it needs Python >=3.10"),
    ],
)
def test_names_why_wheel_does_not_run(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    [line] = fit(tmp_path, **changes).runs

    assert line.startswith(reason)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        *({"driver": driver} for driver in ("580.105.08", "1000.1")),
        {"archs": (), "capability": "61"},
    ],
)
def test_fits(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert fit(tmp_path, **changes) == DiagnosedTarget(
        name="tiny-cuda-130", fits=True, runs=(), builds=()
    )


def test_names_why_it_can_not_be_built(tmp_path: Path) -> None:
    [line] = fit(tmp_path, disk=GIB << 20).builds

    assert line.startswith("the disk of")


def test_names_recipe_that_can_not_be_loaded(tmp_path: Path) -> None:
    entry = CatalogueEntry(root=tmp_path, name="broken", recipe=None, fault="SyntaxError")

    [result] = fit_targets((entry,), make_workspace(tmp_path), Driver(), None, "")

    assert result.builds == ("broken recipe: SyntaxError",)
