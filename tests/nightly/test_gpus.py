from __future__ import annotations

import pytest

from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.nightly.gpus import lock_names, usable_gpus
from tests.support.nights import GPU


def test_has_one_order_for_everybody() -> None:
    second = Gpu(index=1, name="NVIDIA H200", uuid="GPU-0000")

    assert lock_names([GPU, second]) == ("cuwheel-GPU-0000.lock", "cuwheel-GPU-1a2b.lock")
    assert lock_names([]) == ("cuwheel-machine.lock",)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("GPU-1a", ["GPU-1a2b"]), ("1", ["GPU-1a2b", "GPU-0000"]), ("", ["GPU-1a2b", "GPU-0000"])],
)
def test_only_uuids_say_which_gpu(visible: str, expected: list[str]) -> None:
    gpus = (GPU, Gpu(index=1, name="NVIDIA H200", uuid="GPU-0000"))
    driver = Driver(version="580", gpus=gpus, visible=2)

    found = usable_gpus(driver, {"CUDA_VISIBLE_DEVICES": visible})

    assert [gpu.uuid for gpu in found] == expected


def test_gpu_that_programs_cannot_see_is_none() -> None:
    assert usable_gpus(Driver(version="580", gpus=(GPU,), visible=0), {}) == ()
    assert usable_gpus(Driver(), {}) == ()
