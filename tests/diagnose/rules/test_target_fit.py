from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.diagnose.facts.host import read_host_facts
from cuwheel.diagnose.rules.target_fit import Fit, fit_targets
from cuwheel.model.catalogue import CatalogueEntry
from cuwheel.system.quantities import GIB
from tests.support.factories import make_recipe, make_workspace

if TYPE_CHECKING:
    from pathlib import Path


def fit(
    folder: Path,
    *,
    driver: str = "580.65.06",
    capability: str = "90",
    python: str = "3.12.1",
    **recipe: Any,
) -> Fit:
    made = make_recipe(**recipe)
    entry = CatalogueEntry(root=folder, name=made.name, recipe=made)
    gpu = Gpu(index=0, name="A", capability=capability)
    [found] = fit_targets(
        (entry,),
        make_workspace(folder),
        Driver(version=driver, gpus=(gpu,)),
        read_host_facts(folder),
        python,
    )
    return found


def test_fits(tmp_path: Path) -> None:
    assert fit(tmp_path) == Fit(name="tiny-cuda-130", runs=(), builds=())


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
def test_says_why_wheel_does_not_run(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    [found] = fit(tmp_path, **changes).runs

    assert found.startswith(reason)


@pytest.mark.parametrize("driver", ["580.105.08", "580.65.06", "1000.1"])
def test_newer_driver_runs_it(tmp_path: Path, driver: str) -> None:
    assert fit(tmp_path, driver=driver).runs == ()


def test_passes_over_archs_of_recipe_without_device_code(tmp_path: Path) -> None:
    assert fit(tmp_path, archs=(), capability="61").runs == ()


def test_says_why_it_can_not_be_built(tmp_path: Path) -> None:
    [found] = fit(tmp_path, disk=GIB << 20).builds

    assert found.startswith("the disk of")


def test_names_recipe_that_can_not_be_loaded(tmp_path: Path) -> None:
    entry = CatalogueEntry(root=tmp_path, name="broken", recipe=None, fault="SyntaxError")

    [found] = fit_targets((entry,), make_workspace(tmp_path), Driver(), None, "")

    assert found.builds == ("broken recipe: SyntaxError",)
