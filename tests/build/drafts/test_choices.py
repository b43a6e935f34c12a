"""Values and notes of a draft's fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.drafts.choices import PLACEHOLDER_HANDLE, draft_of
from cuwheel.build.drafts.draft import TORCH, Call, Draft, Value
from cuwheel.build.drafts.readers.survey import survey_source
from cuwheel.build.drafts.upstream import Upstream
from cuwheel.build.environments.framework_release import FrameworkRelease
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from tests.support.build.drafts import CMAKE_FILES, FILES, write_tree


def no_torch(_: object) -> None:
    """Find no release."""


def draft(tree: Path, files: dict[str, str], **changes: str) -> Draft:
    survey = survey_source(write_tree(tree, {**files, **changes}))
    upstream = Upstream(project="tiny-draft", version="1.0", sha256="0" * 64)
    return draft_of(upstream, survey, "someone", no_torch)


def value(recipe: Draft, name: str) -> Value | None:
    return recipe.values.get(name)


def notes(recipe: Draft, name: str) -> str:
    return "\n".join(f"{kind}: {text}" for field, kind, text in recipe.notes if field == name)


def setup(*lines: str) -> str:
    return "\n".join(["import os, torch", "from setuptools import setup", *lines, "setup()", ""])


@pytest.mark.parametrize(
    ("arguments", "question"),
    [('os.environ["CMAKE_ARGS"].split()', ""), ("[]", "it doesn't read CMAKE_ARGS")],
)
def test_setup_that_runs_cmake_is_a_cmake_build(
    tmp_path: Path, arguments: str, question: str
) -> None:
    lines = ("import os, subprocess", f'subprocess.run(["cmake", ".", *{arguments}])')

    recipe = draft(tmp_path, {"setup.py": "\n".join(lines)})

    assert recipe.values["build"] == Call(name="CMake", keywords={})
    assert recipe.values["requires"] == ("cmake", "ninja", "setuptools", "wheel")
    assert ("CMAKE_ARGS" in notes(recipe, "build")) == bool(question)
    assert question in notes(recipe, "build")


def test_drafts_torch_extension(tmp_path: Path) -> None:
    recipe = draft(tmp_path, FILES)

    assert "guess: that keeps setup.py:15 from downloading a wheel" in notes(recipe, "build")
    assert recipe.values == {
        "name": "tiny-draft",
        "version": "1.0",
        "license": "MIT",
        "homepage": "https://example.invalid/tiny-draft",
        "maintainers": ("someone",),
        "source": Call(name="Sdist", keywords={"project": "tiny-draft", "sha256": "0" * 64}),
        "toolkits": ("13.0",),
        "archs": ("80", "90", "100", "120"),
        "requires_python": ">=3.11",
        "framework": Call(name="Framework", keywords={"name": "torch", "version": TORCH}),
        "requires": ("ninja", "setuptools", "wheel"),
        "build": Call(
            name="TorchExtension",
            keywords={"env": {"TINY_CUDA_ARCHS": "{archs}", "TINY_FORCE_BUILD": "TRUE"}},
        ),
        "link": Call(name="Link", args=("cudart", "torch", "cublas")),
        "smoke": Call(
            name="Smoke",
            keywords={"imports": ("tiny_draft", "tiny_draft_cuda"), "requires": ("einops",)},
        ),
    }


def test_drafts_cmake_package(tmp_path: Path) -> None:
    recipe = draft(tmp_path, CMAKE_FILES)

    assert value(recipe, "build") == Call(
        name="CMake", keywords={"define": {"TINY_USE_CUDA": "ON", "TINY_NATIVE": "OFF"}}
    )
    assert value(recipe, "requires") == ("cmake>=3.21", "ninja", "scikit-build-core>=0.10")
    assert value(recipe, "python") == "any"
    assert value(recipe, "link") == Call(name="Link", args=("cudart", "cufft"))
    assert "cublas_static" in notes(recipe, "link")
    assert "https://example.invalid/dep.git v1" in notes(recipe, "resources")
    assert "-lineinfo" not in notes(recipe, "build")


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        ('F = ["-gencode", "arch=compute_80,code=sm_80"]', "archs", "hard-codes -gencode for 80"),
        ('F = ["-lineinfo"]', "build", "-lineinfo (setup.py:3): it embeds"),
        ('F = ["-march=native"]', "build", "CPUs like this machine's"),
        ("import requests\nrequests.get(x)", "build", "how to prevent its download"),
        ("if torch.cuda.is_available(): pass", "build", "setup.py:3 requires one"),
        ("if not torch.cuda.is_available(): raise OSError", "build", "stops the build: setup.py:3"),
        ('os.getenv("TINY_SPEED")', "build", "matters: TINY_SPEED"),
        ("os.getenv(name)", "build", "the name is computed"),
        (
            'import subprocess\nsubprocess.run(["cmake", "."])',
            "requires",
            "runs cmake (setup.py:4)",
        ),
        ("import psutil", "requires", "psutil (setup.py:3)"),
        ('Extension("x", ["y.cu"], libraries=["odd"])', "link", "what supplies odd"),
    ],
)
def test_reports_what_to_look_at(line: str, field: str, words: str, tmp_path: Path) -> None:
    recipe = draft(tmp_path, FILES, **{"setup.py": setup(line)})

    assert words in notes(recipe, field)


@pytest.mark.parametrize(
    ("value", "times"), [("True", 1), ("False", 0), ("OFF", 0), ("MAYBE", 1), ("UNKNOWN", 1)]
)
def test_reports_a_stable_abi_that_may_be_on(value: str, times: int, tmp_path: Path) -> None:
    lines = ("OFF = False", "MAYBE = False", "MAYBE = torch.version.cuda > '13'")
    text = setup(*lines, f'Extension("x", ["y.cu"], py_limited_api={value})')

    recipe = draft(tmp_path, FILES, **{"setup.py": text})

    assert notes(recipe, "python").count("stable ABI") == times


@pytest.mark.parametrize("name", ["cuda", "cublasLt", "torch_cuda", "nvrtc"])
def test_knows_component_of_library(name: str, tmp_path: Path) -> None:
    meant = {"cuda": "driver", "torch_cuda": "torch"}.get(name, name)
    text = setup(f'Extension("x", ["y.cu"], libraries=["{name}"])')

    link = value(draft(tmp_path, FILES, **{"setup.py": text}), "link")

    assert isinstance(link, Call)
    assert meant in link.args


def test_links_library_that_cmake_finds(tmp_path: Path) -> None:
    text = CMAKE_FILES["CMakeLists.txt"] + "find_package(NCCL REQUIRED)"

    link = value(draft(tmp_path, CMAKE_FILES, **{"CMakeLists.txt": text}), "link")

    assert isinstance(link, Call)
    assert "nccl" in link.args


def test_reports_nothing_of_a_flag_that_the_draft_takes_away(tmp_path: Path) -> None:
    text = CMAKE_FILES["CMakeLists.txt"] + 'set(TINY_FLAGS "-march=native" CACHE STRING "x")\n'

    recipe = draft(tmp_path, CMAKE_FILES, **{"CMakeLists.txt": text})

    build = value(recipe, "build")
    assert isinstance(build, Call)
    assert '"TINY_FLAGS": ""' in str(build.keywords).replace("'", '"')
    assert "find out: -march=native" not in notes(recipe, "build")


@pytest.mark.parametrize(
    ("line", "env"),
    [
        ('os.getenv("MY_CUDA_ARCHS", "80;90")', {"MY_CUDA_ARCHS": "{archs}"}),
        ('os.getenv("MY_CUDA_ARCHS", "8.0;9.0")', {"MY_CUDA_ARCHS": "{torch_archs}"}),
        ('os.getenv("MY_GENCODE", "-gencode arch=compute_80")', {"MY_GENCODE": "{gencode}"}),
        ('os.getenv("GPU_ARCHS", "native"); os.getenv("X_ARCH", "80")', {"X_ARCH": "{archs}"}),
        ('os.getenv("MY_ARCH", "").split()', {}),
    ],
)
def test_gives_archs_in_the_form_of_the_default(
    line: str, env: dict[str, str], tmp_path: Path
) -> None:
    build = value(draft(tmp_path, FILES, **{"setup.py": setup(line)}), "build")

    assert isinstance(build, Call)
    assert build.keywords.get("env", {}) == env


def test_reports_that_another_torch_is_required(tmp_path: Path) -> None:
    info = FILES["PKG-INFO"].replace("Requires-Dist: torch", "Requires-Dist: torch==2.5.1")

    recipe = draft(tmp_path, FILES, **{"PKG-INFO": info})

    assert [note[1] for note in recipe.notes if note[0] == "framework"] == ["stops the build"]


def test_starts_with_the_pytorch_that_the_source_requires(tmp_path: Path) -> None:
    info = FILES["PKG-INFO"].replace("Requires-Dist: torch", "Requires-Dist: torch>=2.7,<2.8")
    release = FrameworkRelease(name="torch", version="2.7.1", cuda="12.6", pythons=("3.12",))
    survey = survey_source(write_tree(tmp_path, {**FILES, "PKG-INFO": info}))
    upstream = Upstream(project="tiny", version="1.0", sha256="0" * 64)

    recipe = draft_of(upstream, survey, "someone", lambda _: release)

    framework = {"name": "torch", "version": "2.7.1"}
    assert value(recipe, "framework") == Call(name="Framework", keywords=framework)
    assert (value(recipe, "toolkits"), value(recipe, "archs")) == (("12.6",), ("80", "90"))


@pytest.mark.parametrize(
    "lines",
    [
        "try:\n    import cv2\nexcept ImportError:\n    pass",
        "if os.getenv('FORCE_MLU'):\n    import torch_mlu",
        "try:\n    import torch_npu\nexcept (OSError, ModuleNotFoundError):\n    pass",
    ],
)
def test_leaves_out_what_the_build_goes_without(lines: str, tmp_path: Path) -> None:
    recipe = draft(tmp_path, FILES, **{"setup.py": setup(lines)})

    assert value(recipe, "requires") == ("ninja", "setuptools", "wheel")
    assert [kind for field, kind, _ in recipe.notes if field == "requires"] == ["guess"]


def test_requires_what_the_build_ends_without(tmp_path: Path) -> None:
    lines = "try:\n    import psutil\nexcept ImportError as error:\n    raise SystemExit(error)"

    recipe = draft(tmp_path, FILES, **{"setup.py": setup(lines)})

    assert value(recipe, "requires") == ("ninja", "psutil", "setuptools", "wheel")


def test_stops_where_nothing_compiles_the_kernels(tmp_path: Path) -> None:
    recipe = draft(tmp_path, {"setup.py": "import setuptools\nsetuptools.setup()\n", "x.cu": ""})

    assert any(note.startswith("build:") for note in recipe.notes_of("stops the build"))


def test_lists_what_stops_the_build_by_consequence(tmp_path: Path) -> None:
    files = {name: text for name, text in FILES.items() if not name.endswith(".cu")}

    recipe = draft(tmp_path, files, **{"PKG-INFO": "Name: tiny\n"})

    stops = [note.partition(":")[0] for note in recipe.notes_of("stops the build")]
    assert stops == ["source", "license", "homepage"]


def test_guesses_the_page_that_the_readme_names(tmp_path: Path) -> None:
    page = "https://github.com/maker/tiny"
    files = {"PKG-INFO": "Name: tiny\n", "README.md": f"See {page}.\n"}

    recipe = draft(tmp_path, FILES, **files)

    assert value(recipe, "homepage") == page
    assert "README.md:1" in notes(recipe, "homepage")


def test_leaves_blanks_that_the_check_names(tmp_path: Path) -> None:
    survey = survey_source(write_tree(tmp_path, {"setup.py": setup("'code=sm_80'")}))
    upstream = Upstream(project="tiny", version="1.0", sha256="0" * 64)

    recipe = draft_of(upstream, survey, "", no_torch)

    assert value(recipe, "maintainers") == (PLACEHOLDER_HANDLE,)
    assert (value(recipe, "license"), value(recipe, "homepage")) == ("", "")
    assert "which modules to import" in notes(recipe, "smoke")


def test_smoke_test_has_what_the_package_imports(tmp_path: Path) -> None:
    imports = "import einops\nimport numpy\nimport scatter_kernels\nimport tiny_draft_cuda\n"

    recipe = draft(tmp_path, FILES, **{"tiny_draft/__init__.py": imports})

    smoke = value(recipe, "smoke")
    assert isinstance(smoke, Call)
    assert smoke.keywords["requires"] == ("einops", "numpy")
    assert "guess: imported by the package, but not in its metadata: numpy (" in notes(
        recipe, "smoke"
    )
    question = "find out: whether the wheel's requirements bring scatter_kernels, which "
    assert f"{question}tiny_draft/__init__.py:3 imports" in notes(recipe, "smoke")


@pytest.mark.parametrize("required", ["numpy", "numpy[fast]"])
def test_smoke_test_has_extras_that_the_build_has_not(required: str, tmp_path: Path) -> None:
    metadata = f"Name: tiny\nRequires-Dist: {required}\n"

    recipe = draft(tmp_path, FILES, **{"PKG-INFO": metadata, "setup.py": setup("import numpy")})

    smoke = value(recipe, "smoke")
    assert isinstance(smoke, Call)
    assert smoke.keywords.get("requires") == ((required,) if "[" in required else None)


@pytest.mark.parametrize("wheel", ["", "tiny-1.0-py3-none-any.whl"])
def test_asks_whether_anything_is_compiled(wheel: str, tmp_path: Path) -> None:
    upstream = Upstream(project="tiny", version="1.0", sha256="0" * 64, universal=wheel)

    recipe = draft_of(upstream, survey_source(write_tree(tmp_path, FILES)), "someone", no_torch)

    assert ("whether it has to compile anything" in notes(recipe, "build")) == bool(wheel)


def test_starts_with_what_the_other_recipes_have() -> None:
    recipe = find_recipe("causal-conv1d", load_catalogue([ROOT])).recipe

    assert recipe is not None
    assert "13.0" in recipe.toolkits
    assert f"version='{TORCH}'" in repr(recipe.framework)


def test_sets_its_own_switch_alone(tmp_path: Path) -> None:
    more = 'option(USE_GPU "OpenCL" OFF)\noption(WITHOUT "" OFF)\n'
    cmake = f"{CMAKE_FILES['CMakeLists.txt']}{more}"
    changes = {"CMakeLists.txt": cmake, "libs/x/CMakeLists.txt": 'option(X_WITH_CUDA "" OFF)\n'}

    recipe = value(draft(tmp_path, CMAKE_FILES, **changes), "build")

    assert recipe == Call(
        name="CMake", keywords={"define": {"TINY_USE_CUDA": "ON", "TINY_NATIVE": "OFF"}}
    )


def test_links_by_headers_where_nothing_is_compiled_by_nvcc(tmp_path: Path) -> None:
    text = setup("try: import torch", "except ImportError: torch = None").replace(", torch", "")
    files = {"setup.py": text, "x.cpp": "#include <cuda.h>\n"}

    recipe = draft(tmp_path, files)

    assert value(recipe, "archs") == ()
    assert value(recipe, "build") == Call(name="Setuptools")  # torch doesn't compile it
    assert value(recipe, "link") == Call(name="Link", args=("cudart", "driver"))
    assert "driver: x.cpp:1 includes its header" in notes(recipe, "link")


def test_reads_oldest_cmake_of_a_folder(tmp_path: Path) -> None:
    files = {"sub/CMakeLists.txt": CMAKE_FILES["CMakeLists.txt"]}
    files["pyproject.toml"] = CMAKE_FILES["pyproject.toml"]

    requires = value(draft(tmp_path, files), "requires")

    assert isinstance(requires, tuple)
    assert "cmake>=3.21" in requires


def test_needs_no_supplier_of_other_accelerators(tmp_path: Path) -> None:
    text = setup('Extension("x", ["y.cu"], libraries=["rocblas", "hipfft", "amdhip64", "curand"])')

    recipe = draft(tmp_path, FILES, **{"setup.py": text})

    assert "what supplies" not in notes(recipe, "link")
