"""The cuTensorNet sample: what its files, its recipe and the engine's tables say of each other.

Its own tests are in samples/cutensornet/tests; they run where its wheel is installed.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.check.cuda.components import component_by_name

SAMPLE = ROOT / "samples" / "cutensornet"
HOW_TO = ROOT / "docs" / "how-to" / "link-to-nvidia-wheels.md"

# A cuda-pathfinder that finds everything in one folder, and says that it is of this kind.
_PATHFINDER = """
from types import SimpleNamespace

def locate_nvidia_header_directory(name):
    return SimpleNamespace(abs_path="{site}/nvidia/cu13/include", found_via="{via}")

def load_nvidia_dynamic_lib(name):
    path = "{site}/nvidia/cu13/lib/lib" + name + ".so.13"
    return SimpleNamespace(abs_path=path, found_via="{via}")
"""


@pytest.fixture
def recipe() -> Recipe:
    found = find_recipe("cutensornet-sample", load_catalogue([ROOT])).recipe
    assert found
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder like site-packages, with what setup.py asks of it."""
    folder = tmp_path / "site-packages"
    versions = {"nvidia_cuda_runtime": "13.0.96", "nvidia_cusolver": "12.0.4.66"}
    for name, version in {**versions, "cutensornet_cu13": "2.14.0"}.items():
        metadata = folder / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "cuda").mkdir()
    return folder


def setup(site: Path, *words: str, via: str = "site-packages", **env: str) -> str:
    """What the sample's setup.py prints when cuda-pathfinder finds CUDA in this way."""
    (site / "cuda" / "pathfinder.py").write_text(_PATHFINDER.format(site=site, via=via))
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), **env}
    return process.run(
        [sys.executable, SAMPLE / "setup.py", "-q", *words], env=variables, cwd=SAMPLE
    ).output


def constant(name: str) -> object:
    """The value of one of setup.py's constants."""
    tree = ast.parse((SAMPLE / "setup.py").read_text())
    [value] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]
    return ast.literal_eval(value)


def test_has_version_of_its_recipe(recipe: Recipe) -> None:
    package = SAMPLE / "src" / "cutensornet_sample" / "__init__.py"

    assert f'\nversion = "{recipe.version}"\n' in (SAMPLE / "pyproject.toml").read_text()
    assert f'\n__version__ = "{recipe.version}"\n' in package.read_text()


@pytest.mark.parametrize("cuda", [12, 13])
def test_requires_what_supplies_the_libraries_of_its_recipe(recipe: Recipe, cuda: int) -> None:
    components = [component_by_name(name, cuda) for name in recipe.link.components]
    distributions = constant("DISTRIBUTIONS")

    assert constant("LINKED") == recipe.link.components
    assert isinstance(distributions, dict)
    assert distributions[str(cuda)] == tuple(part.distribution for part in components)


def test_bounds_what_it_requires_where_no_build_system_does(site: Path) -> None:
    flags = {"CUDA_INCLUDE_FLAGS": "-I/x", "CUDA_LINK_FLAGS": "-L/x -l:libcudart.so.13"}

    setup(site, "egg_info", "--egg-base", str(site))
    [path] = site.glob("*.egg-info/requires.txt")
    alone = set(path.read_text().split())
    setup(site, "egg_info", "--egg-base", str(site), via="nowhere", **flags)

    assert alone == {
        "numpy",
        "nvidia-cuda-runtime<14,>=13.0",
        "nvidia-cusolver<13,>=12.0",
        "cutensornet-cu13<3,>=2.14",
    }
    assert path.read_text().split() == ["numpy"]


def test_refuses_cuda_of_the_machine(site: Path) -> None:
    with pytest.raises(CommandFailedError) as caught:
        setup(site, "--version", via="system-ctk-root")

    [line] = [line for line in caught.value.tail if "not in a wheel" in line]
    assert f"cudart: {site}/nvidia/cu13/include" in line


def test_how_to_quotes_files_as_they_are() -> None:
    files = (SAMPLE / "setup.py", ROOT / "recipes" / "cutensornet_sample.py")
    lines = {line.strip() for file in files for line in file.read_text().splitlines()}

    blocks = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)

    quoted = {line.strip() for block in blocks for line in block.splitlines()}
    assert quoted
    assert quoted - lines == set()
