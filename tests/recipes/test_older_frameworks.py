"""The recipes for older releases of PyTorch: what the docs say of them, and upstream's sources.

Nothing of them is compiled here.
"""

from __future__ import annotations

import ast
import glob
import os
import platform
import re
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.environments.lock_file import pythons_of_lock
from cuwheel.build.pipeline.stages.patch import patch
from cuwheel.build.pipeline.stages.source import source
from cuwheel.build.recipe.catalogue import find_target, load_catalogue
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.records import SourceTree
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.factories import make_job

# Target, and the Pythons that its PyTorch has wheels for.
TARGETS = {
    "flash-attn-121": "3.8 3.9 3.10 3.11 3.12",
    "flash-attn-torch22-121": "3.8 3.9 3.10 3.11 3.12",
    "xformers-torch24-121": "3.8 3.9 3.10 3.11 3.12",
    "xformers-torch26-124": "3.9 3.10 3.11 3.12 3.13",
    "mamba-ssm-torch26-124": "3.9 3.10 3.11 3.12 3.13",
}


def target_of(name: str) -> Target:
    entry, tag = find_target(name, load_catalogue([ROOT]))
    recipe, toolkit = entry.recipe, toolkit_by_release(tag)
    assert recipe
    return Target(
        recipe=recipe,
        toolkit=toolkit,
        python="3.12",
        framework=recipe.framework_for(toolkit.release),
        archs=recipe.archs_for(toolkit.release),
        provider=toolkit.provider,
        root=ROOT,
        mode=recipe.link.mode,
    )


def documented(target: Target) -> list[str]:
    """The row of `docs/how-to/frameworks.md` on a target."""
    assert target.framework
    newest = pythons_of_lock(target.lock)[-1]
    session, recipe = f"`build-{target.name}`", target.recipe
    package = f"{recipe.wheel_name or recipe.name} {recipe.version}"
    return [session, package, target.toolkit.release, target.framework.version, f"3.10 to {newest}"]


@pytest.mark.parametrize("name", TARGETS)
def test_documents_what_is_built_for_what(name: str) -> None:
    text = (ROOT / "docs" / "how-to" / "frameworks.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]

    assert documented(target_of(name)) in rows


@pytest.mark.parametrize(("name", "pythons"), TARGETS.items())
def test_lock_says_for_which_pythons_it_is(name: str, pythons: str) -> None:
    assert pythons_of_lock(target_of(name).lock) == tuple(pythons.split())


@pytest.fixture
def source_tree(name: str, lean_workspace: Workspace) -> SourceTree:
    """Upstream's source with the recipe's patches."""
    job = make_job(target_of(name), lean_workspace)
    lean_workspace.claim()
    lean_workspace.save("source", source(job))
    return patch(job)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("flash-attn-torch22-121", "compute_80"),
        ("flash-attn-torch22-121", '["git"'),
        ("xformers-torch24-121", '["git", "describe"'),
        ("xformers-torch26-124", '["git", "describe"'),
        ("mamba-ssm-torch26-124", "compute_53"),
        ("mamba-ssm-torch26-124", "-lineinfo"),
    ],
)
def test_patches_take_out_what_they_say(source_tree: SourceTree, gone: str) -> None:
    unpatched = source_tree.path.parents[1] / "source" / source_tree.path.name

    assert gone in (unpatched / "setup.py").read_text()
    assert gone not in (source_tree.path / "setup.py").read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["xformers-torch26-124"])
def test_patch_leaves_out_an_extension_without_sources(
    source_tree: SourceTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's builder ends the build at one; upstream's sdist lacks flash-attn 3's sources."""
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0;9.0")
    path = source_tree.path / "setup.py"
    setup: dict[str, Any] = {"CUDAExtension": dict, "this_dir": str(source_tree.path)}
    setup |= {"Path": Path, "glob": glob, "os": os, "platform": platform, "re": re}
    for node in ast.parse(path.read_text()).body:
        if any(word in ast.unparse(node) for word in ("def get_flash_attention3", "ARCH_RE =")):
            exec(ast.unparse(node), setup)

    assert setup["get_flash_attention3_nvcc_archs_flags"](1204)
    assert setup["get_flash_attention3_extensions"](1204, {}) == []
