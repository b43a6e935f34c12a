"""The error of a failed build: what is known of its environment decides on the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import BuildFailedError
from cuwheel.build.pipeline.package_build.outcome import add_cause
from cuwheel.check.explain.explanation import Explainer
from tests.support.build.launchers import make_inputs
from tests.support.factories import make_target

_LOG = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root"


@pytest.mark.parametrize(
    ("version", "requires", "cause"),
    [
        ("2.13.0+cpu", "", "built-without-cuda"),
        ("2.13.0", "Requires-Dist: nvidia-cublas==13.1.0.3\n", "cuda-home-not-set"),
    ],
)
def test_torch_of_the_environment_decides(
    version: str, requires: str, cause: str, tmp_path: Path
) -> None:
    inputs, log = make_inputs(tmp_path), tmp_path / "build.log"
    log.write_text(f"{_LOG}\n")
    folder = inputs.python.site_packages / f"torch-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: torch\nVersion: {version}\n{requires}")
    error = BuildFailedError("it failed", command=(), status=1, log=log, tail=())

    add_cause(error, make_target(), inputs, log, "/source")

    with log.open("rb") as stream:
        explanation = Explainer().explain(stream, error.known)
    assert [found.slug for found in explanation.causes] == [cause]
    assert explanation.question is None
