"""An extension of PyTorch whose setup.py sets an older C++ than PyTorch's headers need."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support.engine import Engine

pytestmark = pytest.mark.nightly  # 3 GB of PyTorch

_PREFLIGHT = 50  # exit status
_DECLARED = '    cxx_standard={"torch>=2.14": "20"},\n'
_RECIPE = """\
\"\"\"tiny-torch: a kernel behind PyTorch's C++ interface.\"\"\"

from cuwheel import MIB, Archive, Framework, Link, Recipe, Smoke, TorchExtension

RECIPE = Recipe(
    name="tiny-torch",
    version="1.0.0",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-torch",
    maintainers=("cuwheel-maintainers",),
    source=Archive(url="http://127.0.0.1:9/tiny_torch-{version}.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    framework=Framework(name="torch", version="2.11.0"),
    requires=("ninja", "setuptools", "wheel"),
    build=TorchExtension(),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("tiny_torch",), call="tiny_torch.standard()", expect="202002"),
    disk=256 * MIB,
    max_wheel_size=4 * MIB,
)
"""


def test_declaration_cures_what_is_refused_before_a_compile(engine: Engine, tmp_path: Path) -> None:
    recipe = tmp_path / "own" / "recipes" / "tiny_torch.py"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(_RECIPE)
    own = dataclasses.replace(engine, project=tmp_path / "own")
    words = ("tiny-torch", "--framework", "torch==2.14.0")

    refused = own.build(*words)
    recipe.write_text(_RECIPE.replace("    build=", f"{_DECLARED}    build="))
    built = own.build(*words)

    assert refused.status == _PREFLIGHT, refused.output
    assert '"torch>=2.14.0": "20"' in refused.output
    assert built.status == 0, built.output
    [statement] = own.dist.glob("*.provenance.json")
    assert '"cxx_standard": "20"' in statement.read_text()
