"""A tiny package built for PyTorch's wheel of a CUDA line, a stand-in served as PyTorch does."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from cuwheel.base.fetch.indexes.cuda_lines import LINES_VARIABLE
from tests.support.engine import Engine
from tests.support.packages.torch_lines import add_torch, serving_lines

pytestmark = pytest.mark.e2e

_FRAMEWORK = '    framework=Framework(name="torch", version="2.11.0"),\n    requires='


@pytest.mark.nightly
def test_builds_for_a_line(engine: Engine, tmp_path: Path) -> None:
    project = shutil.copytree(engine.project, tmp_path / "with-framework")
    recipe = project / "recipes" / "tiny_capi.py"
    text = recipe.read_text().replace("import MIB, Archive,", "import MIB, Archive, Framework,")
    recipe.write_text(text.replace("    requires=", _FRAMEWORK))
    add_torch(tmp_path / "whl", "2.14.0+cu130", "13.0")
    own = dataclasses.replace(engine, project=project)

    with serving_lines(tmp_path) as address:
        done = own.build(
            *("tiny-capi", "--framework", "torch==2.14.0+cu130", "--python", "3.11"),
            **{LINES_VARIABLE: address},
        )

    assert done.status == 0, done.output
    [wheel] = own.wheels()
    assert wheel.name.startswith("tiny_capi-1.0.0+cu130torch2.14.")
    [statement] = own.dist.glob("*.provenance.json")
    assert '"torch==2.14.0+cu130"' in statement.read_text()
