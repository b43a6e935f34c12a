"""Which value each field of a draft gets, and which notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.drafts.choices import NOBODY, draft_of
from cuwheel.drafts.draft import Call
from cuwheel.drafts.readers.survey import survey_source
from cuwheel.drafts.target_choice import TORCH
from cuwheel.drafts.upstream import Upstream
from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.paths import ROOT
from tests.support.drafted import CMAKE_FILES, FILES, write_tree

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.drafts.draft import Draft, Value


def draft(tree: Path, files: dict[str, str], **changes: str) -> Draft:
    survey = survey_source(write_tree(tree, {**files, **changes}))
    upstream = Upstream(project="tiny-draft", version="1.0", sha256="0" * 64)
    return draft_of(upstream, survey, "someone")


def value(found: Draft, name: str) -> Value | None:
    return next((one.value for one in found.fields if one.name == name), None)


def notes(found: Draft, name: str) -> str:
    return "\n".join(str(note) for one in found.fields if one.name == name for note in one.notes)


def setup(*lines: str) -> str:
    return "\n".join(["import os, torch", "from setuptools import setup", *lines, "setup()", ""])


def test_drafts_torch_extension(tmp_path: Path) -> None:
    found = draft(tmp_path, FILES)

    assert {one.name: one.value for one in found.fields if one.value is not None} == {
        "name": "tiny-draft",
        "version": "1.0",
        "license": "MIT",
        "homepage": "https://example.invalid/tiny-draft",
        "maintainers": ("someone",),
        "source": Call(name="Sdist", given={"project": "tiny-draft", "sha256": "0" * 64}),
        "toolkits": ("13.0",),
        "archs": ("80", "90", "100", "120"),
        "requires_python": ">=3.11",
        "framework": Call(name="Framework", given={"name": "torch", "version": TORCH}),
        "requires": ("ninja", "setuptools", "wheel"),
        "build": Call(
            name="TorchExtension",
            given={"env": {"TINY_CUDA_ARCHS": "{archs}", "TINY_FORCE_BUILD": "TRUE"}},
        ),
        "link": Call(name="Link", words=("cudart", "torch", "cublas")),
        "smoke": Call(
            name="Smoke",
            given={"imports": ("tiny_draft", "tiny_draft_cuda"), "requires": ("einops",)},
        ),
    }


def test_drafts_cmake_package(tmp_path: Path) -> None:
    found = draft(tmp_path, CMAKE_FILES)

    assert value(found, "build") == Call(
        name="CMake", given={"define": {"TINY_USE_CUDA": "ON", "TINY_NATIVE": "OFF"}}
    )
    assert value(found, "requires") == ("cmake>=3.21", "ninja", "scikit-build-core>=0.10")
    assert value(found, "python") == "any"
    assert value(found, "link") == Call(name="Link", words=("cudart", "cufft"))
    assert "cublas_static" in notes(found, "link")
    assert "https://example.invalid/dep.git v1" in notes(found, "resources")
    assert "-lineinfo" not in notes(found, "build")


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        ('F = ["-gencode", "arch=compute_80,code=sm_80"]', "archs", "hard-codes -gencode for 80"),
        ('F = ["-lineinfo"]', "build", "-lineinfo (setup.py:3): it embeds"),
        ('F = ["-march=native"]', "build", "CPUs like this machine's"),
        ("import requests\nrequests.get(x)", "build", "how to prevent its download"),
        ("if torch.cuda.is_available(): pass", "build", "setup.py:3 requires one"),
        ('os.getenv("TINY_SPEED")', "build", "matters: TINY_SPEED"),
        ("os.getenv(name)", "build", "the name is computed"),
        (
            'import subprocess\nsubprocess.run(["cmake", "."])',
            "requires",
            "runs cmake (setup.py:4)",
        ),
        ("import psutil", "requires", "psutil (setup.py:3)"),
        ('Extension("x", ["y.cu"], libraries=["odd"])', "link", "what supplies odd"),
        ('Extension("x", ["y.cu"], py_limited_api=True)', "python", "stable ABI"),
    ],
)
def test_says_what_to_look_at(line: str, field: str, words: str, tmp_path: Path) -> None:
    found = draft(tmp_path, FILES, **{"setup.py": setup(line)})

    assert words in notes(found, field)


@pytest.mark.parametrize("name", ["cuda", "cublasLt", "torch_cuda", "nvrtc"])
def test_knows_component_of_library(name: str, tmp_path: Path) -> None:
    meant = {"cuda": "driver", "torch_cuda": "torch"}.get(name, name)
    text = setup(f'Extension("x", ["y.cu"], libraries=["{name}"])')

    link = value(draft(tmp_path, FILES, **{"setup.py": text}), "link")

    assert isinstance(link, Call)
    assert meant in link.words


def test_takes_no_arch_list_of_another_accelerator(tmp_path: Path) -> None:
    lines = ('A = os.getenv("GPU_ARCHS", "native")', 'B = os.getenv("X_CUDA_ARCHS", "80")')

    build = value(draft(tmp_path, FILES, **{"setup.py": setup(*lines)}), "build")

    assert isinstance(build, Call)
    assert build.given["env"] == {"X_CUDA_ARCHS": "{archs}"}


def test_says_nothing_of_a_flag_that_the_draft_takes_away(tmp_path: Path) -> None:
    text = CMAKE_FILES["CMakeLists.txt"] + 'set(TINY_FLAGS "-march=native" CACHE STRING "x")\n'

    found = draft(tmp_path, CMAKE_FILES, **{"CMakeLists.txt": text})

    build = value(found, "build")
    assert isinstance(build, Call)
    assert '"TINY_FLAGS": ""' in str(build.given).replace("'", '"')
    assert "find out: -march=native" not in notes(found, "build")


def test_says_that_force_build_keeps_from_downloading(tmp_path: Path) -> None:
    found = draft(tmp_path, FILES)

    assert "guess: that keeps setup.py:15 from downloading a wheel" in notes(found, "build")


@pytest.mark.parametrize(
    ("default", "placeholder"),
    [
        ("80;90", "{archs}"),
        ("8.0;9.0", "{torch_archs}"),
        ("-gencode arch=compute_80,code=sm_80", "{gencode}"),
    ],
)
def test_gives_archs_in_the_form_of_the_default(
    default: str, placeholder: str, tmp_path: Path
) -> None:
    found = draft(
        tmp_path, FILES, **{"setup.py": setup(f'os.getenv("MY_CUDA_ARCHS", "{default}")')}
    )

    build = value(found, "build")
    assert isinstance(build, Call)
    assert build.given["env"] == {"MY_CUDA_ARCHS": placeholder}


def test_names_import_that_the_metadata_do_not_require(tmp_path: Path) -> None:
    text = "import torch, tiny_draft_cuda\nimport einops\nimport packaging\n"

    found = draft(tmp_path, FILES, **{"tiny_draft/__init__.py": text})

    assert "tiny_draft/__init__.py:3 always imports packaging" in notes(found, "smoke")
    assert "einops" not in notes(found, "smoke")


def test_says_that_another_torch_is_asked_for(tmp_path: Path) -> None:
    info = FILES["PKG-INFO"].replace("Requires-Dist: torch", "Requires-Dist: torch==2.5.1")

    found = draft(tmp_path, FILES, **{"PKG-INFO": info})

    assert "it requires torch==2.5.1" in notes(found, "toolkits")


def test_leaves_blanks_that_the_check_names(tmp_path: Path) -> None:
    survey = survey_source(write_tree(tmp_path, {"setup.py": setup("'code=sm_80'")}))
    upstream = Upstream(project="tiny", version="1.0", sha256="0" * 64)

    found = draft_of(upstream, survey, "")

    assert value(found, "maintainers") == (NOBODY,)
    assert (value(found, "license"), value(found, "homepage")) == ("", "")
    assert "which modules to import" in notes(found, "smoke")


def test_starts_with_what_the_other_recipes_have() -> None:
    recipe = find_recipe("causal-conv1d", load_catalogue([ROOT])).recipe

    assert recipe is not None
    assert "13.0" in recipe.toolkits
    assert f"version='{TORCH}'" in repr(recipe.framework)


def test_sets_its_own_switch_alone(tmp_path: Path) -> None:
    more = 'option(USE_GPU "OpenCL" OFF)\noption(WITHOUT "" OFF)\n'
    cmake = f"{CMAKE_FILES['CMakeLists.txt']}{more}"
    changes = {"CMakeLists.txt": cmake, "libs/x/CMakeLists.txt": 'option(X_WITH_CUDA "" OFF)\n'}

    found = value(draft(tmp_path, CMAKE_FILES, **changes), "build")

    assert found == Call(
        name="CMake", given={"define": {"TINY_USE_CUDA": "ON", "TINY_NATIVE": "OFF"}}
    )


def test_links_by_headers_where_nothing_is_compiled_by_nvcc(tmp_path: Path) -> None:
    files = {"setup.py": setup().replace(", torch", ""), "x.cpp": "#include <cuda.h>\n"}

    found = draft(tmp_path, files)

    assert value(found, "link") == Call(name="Link", words=("cudart", "driver"))
    assert "driver: x.cpp:1 includes its header" in notes(found, "link")


def test_reads_oldest_cmake_of_a_folder(tmp_path: Path) -> None:
    files = {"sub/CMakeLists.txt": CMAKE_FILES["CMakeLists.txt"]}
    files["pyproject.toml"] = CMAKE_FILES["pyproject.toml"]

    requires = value(draft(tmp_path, files), "requires")

    assert isinstance(requires, tuple)
    assert "cmake>=3.21" in requires


def test_asks_for_no_supplier_of_other_accelerators(tmp_path: Path) -> None:
    text = setup('Extension("x", ["y.cu"], libraries=["rocblas", "hipfft", "amdhip64", "curand"])')

    found = draft(tmp_path, FILES, **{"setup.py": text})

    assert "what supplies" not in notes(found, "link")


def test_imports_extensions_from_their_package(tmp_path: Path) -> None:
    text = setup('ExtensionUsingNumpy("_driver", ["x.cpp"])').replace(
        "setup()", 'setup(ext_package="tiny_draft")'
    )
    changes = {"setup.py": text, "tiny_draft.egg-info/top_level.txt": "_driver\ntiny_draft\n"}

    smoke = value(draft(tmp_path, FILES, **changes), "smoke")

    assert isinstance(smoke, Call)
    assert smoke.given["imports"] == ("tiny_draft", "tiny_draft._driver")
