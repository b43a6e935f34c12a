from __future__ import annotations

import pytest

from cuwheel.base.errors import RecipeError
from cuwheel.build.recipe.link import External, Link
from cuwheel.build.recipe.recipe import CMake, Framework, Setuptools, Smoke
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Patch, Resource, Sdist
from cuwheel.check.cuda.library_choice import LibraryPerCuda
from tests.support.factories import make_recipe

_TORCH = Framework(name="torch", version="2.11.0")


def resource(to: str = "tiny", sha256: str = "0" * 64, url: str = "u") -> Resource:
    return Resource(name="tiny", source=Archive(url=url, sha256=sha256), to=to, why="a test")


def libraries(**changes: str) -> LibraryPerCuda:
    usual = {"file": "p/libp{toolkit_tag}.so", "framework": "torch"}
    return LibraryPerCuda(**{**usual, **changes})  # type: ignore[arg-type]


_BY_TOOLKIT = {"toolkits": ("12.8", "13.0"), "wheel_name": "tiny-cuda{cuda}x"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {**_BY_TOOLKIT, "has_local_version": False},
        {"source": GitCommit(repository="r", commit="a" * 40)},
        {"cxx_standard": {"torch>=2.14": "20"}, "framework": _TORCH},
    ],
)
def test_passes_sound_recipe(changes: dict[str, object]) -> None:
    check_recipe(make_recipe(**changes))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": "Tiny"}, "lower case"),
        ({"name": "tiny_cuda"}, "lower case"),
        ({"name": "tiny cuda!"}, '"-" between words: "tiny-cuda"'),
        ({"version": "one"}, 'version="one" is not a version'),
        ({"license": "BSD3"}, 'license="BSD3" is not an SPDX expression'),
        (
            {"homepage": "docs/how-to/tiny.md"},
            "is not a URL: write that of upstream's page, https://",
        ),
        (
            {"homepage": "http://example.invalid"},
            "is not a URL: write that of upstream's page, https://",
        ),
        ({"maintainers": ()}, "maintainers is empty"),
        ({"cxx_standard": "c++20"}, 'cxx_standard: "c++20"'),
        ({"cxx_standard": {"torch>=2": "20"}}, 'cxx_standard: "torch>=2" is not'),
        ({"cxx_standard": {"torch": "20"}, "framework": _TORCH}, 'cxx_standard: "torch" is not'),
        ({"maintainers": ("Some One",)}, '"Some One" is not a handle'),
        ({"maintainers": ("your-name",)}, '"your-name" is not a handle'),
        ({"requires_python": "3.10"}, 'requires_python="3.10"'),
        ({"requires_python": "<3.13"}, "has to start with the oldest"),
        ({"requires": ("setuptools >",)}, 'requires: "setuptools >" is not a requirement'),
        ({"requires": ("?op_builder",)}, '"?op_builder" is a question of the draft'),
        ({"requires": ("x @ git+https://example.invalid/x",)}, "names an address"),
        ({"requires": ("cutensor-cu{cudda}",)}, 'did you mean "cuda"?'),
        ({"needs": {"debain": ("libfftw3-dev",)}}, 'did you mean "debian"?'),
        (
            {"framework": _TORCH, "requires": ("Torch>=2",)},
            "framework already pins Torch",
        ),
        (
            {"smoke": Smoke(imports=("p",), requires=("jax[cuda{cuda}",))},
            'smoke.requires: "jax[cuda{cuda}" is not a requirement',
        ),
        ({"link": Link(bundles=("gomp",))}, 'such as "libgomp"'),
        ({"link": Link(bundles=("libgomp.so.1",))}, 'without ".so"'),
        ({"link": Link(bundles=("libcufft",))}, "name its component"),
        ({"link": Link(bundles=("libcuda",))}, "name its component"),
        ({"smoke": Smoke(imports=())}, "smoke.imports is empty"),
        ({"toolkits": ("13.7",)}, "cuwheel doesn't know CUDA 13.7"),
        ({"archs": ("90", "35")}, "cannot compile for sm_35"),
        ({"link": Link("cudart", "cublaslt")}, 'did you mean "cublasLt"?'),
        ({"source": Sdist(project="p", sha256="abc")}, "64 hexadecimal digits"),
        ({"source": Sdist(project="p", sha256="x" * 64)}, "64 hexadecimal digits"),
        ({"source": Sdist(project="p", sha256="A" * 64)}, "letters small"),
        (
            {"source": Sdist(project="p", version="{verison}", sha256="0" * 64)},
            'source.version: {verison}: did you mean "version"?',
        ),
        (
            {"source": Archive(url="https://x.invalid/{toolkit}", sha256="0" * 64)},
            "source.url: {toolkit}",
        ),
        ({"build": Setuptools(env={"ARCHS": "{arch}"})}, 'did you mean "archs"?'),
        ({"build": CMake(define={"JOBS": "{job}"})}, 'did you mean "jobs"?'),
        ({"build": CMake(env={"OPEN": "{"})}, "write a literal brace twice"),
        ({"source": GitCommit(repository="r", commit="abc")}, "40 hexadecimal digits"),
        ({"source": Folder(path="../x")}, "a folder inside the project"),
        ({"source": Folder(path="/etc")}, "a folder inside the project"),
        ({"source": Folder(path="./")}, "a folder inside the project"),
        ({"archs": {"13.0": ("35",)}}, "cannot compile for sm_35"),
        (
            {"archs": {"13.0": ("90",), "12.8": ("90",)}},
            'archs names "12.8", which isn\'t in toolkits',
        ),
        (
            {"toolkits": ("12.8", "13.0"), "archs": {"13.0": ("90",)}},
            'archs has no entry for "12.8"',
        ),
        (
            {"toolkits": ("12.8", "13.0"), "framework": {"13.0": _TORCH}},
            'framework has no entry for "12.8"',
        ),
        (
            {"framework": {"13.0": _TORCH}, "requires": ("Torch>=2",)},
            "framework already pins Torch",
        ),
        (
            {"patches": (Patch(file="0001-x.patch", why="x", toolkits=("12.8",)),)},
            'toolkits of 0001-x.patch names "12.8"',
        ),
        ({"build": CMake(define={"A": {"12.8": "1"}})}, 'A names "12.8", which isn\'t in toolkits'),
        ({"build": CMake(define={"A": {"13.0": "{arch}"}})}, 'did you mean "archs"?'),
        ({"resources": (resource(to="/etc/x"),)}, "leads outside of the folder"),
        ({"resources": (resource(to="a/../../x"),)}, "leads outside of the folder"),
        ({"resources": (resource(to="x"), resource(to="x"))}, "two resources overlap"),
        ({"resources": (resource(to="x"), resource(to="x/y"))}, "two resources overlap"),
        ({"resources": (resource(sha256="abc"),)}, "resource tiny: source.sha256"),
        ({"resources": (resource(url="u-{version}"),)}, "resource tiny: source.url: {version}"),
        (
            {"smoke": Smoke(imports=("p",), call="p.f()\np.g()")},
            "smoke.call is too long: make it a script",
        ),
        ({"smoke": Smoke(imports=("p",), script="../p.py")}, "has to name a file in recipes/smoke"),
        ({"library_per_cuda": libraries(file="p/{tolkit}.so")}, 'did you mean "toolkit"?'),
        ({"library_per_cuda": libraries(file="p/libp.so")}, "has to contain the CUDA release once"),
        ({"library_per_cuda": libraries(file="/p/{cuda}.so")}, "a path below site-packages"),
        ({"library_per_cuda": libraries(success="FINE")}, "check and success need each other"),
        ({"library_per_cuda": libraries(framework="troch")}, 'did you mean "torch"?'),
        ({"toolkits": ("12.8", "13.0"), "link": Link("cublaslt")}, 'did you mean "cublasLt"?'),
        (
            {"build": CMake(define={"CMAKE_CUDA_COMPILER": "x"})},
            "compilers come from the toolchain",
        ),
        ({"build": Setuptools(env={"CXX": "g++-13"})}, "compilers come from the toolchain"),
        (
            {"build": Setuptools(env={"FLAGS": "-ccbin g++-13"})},
            "compilers come from the toolchain",
        ),
        ({"wheel_name": "tiny-cu{major}"}, "wheel_name=tiny-cu{major}: {major}"),
        ({"link": Link("cudart", mode=External(extra="cu{toolkit}"))}, "extra=cu{toolkit}"),
        ({"link": Link("cudart", mode=External(local_extra="local"))}, "local_extra without extra"),
        ({"toolkits": ("12.4", "12.8"), "has_local_version": False}, "get the same name"),
        ({"ptx": "lst"}, 'ptx="lst": did you mean "last"?'),
        ({"ptx": "last", "archs": ("90a",)}, 'PTX of 90a doesn\'t run on newer GPUs: add "90"'),
        ({"python": "eech"}, 'python="eech": did you mean "each"?'),
        ({"has_local_version": "no"}, "has_local_version has to be True or False"),
        ({"max_wheel_size": "1 GB"}, "max_wheel_size has to be a number of bytes"),
        (
            {"link": Link("cudart", mode=External(search="rupath"))},  # type: ignore[arg-type]
            'link: search="rupath": did you mean "runpath"?',
        ),
        ({"wheel_name": "tiny cuda{cuda}"}, "not a valid wheel name"),
        ({"link": Link("cudart", mode=External(extra="bad extra!"))}, "not a valid wheel name"),
        (
            {"link": Link("cudart", mode=External(extra="cuda", local_extra="cuda"))},
            'extra and local_extra are both "cuda"',
        ),
    ],
)
def test_names_fault(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check_recipe(make_recipe(**changes))

    assert fault in caught.value.why
    assert "1 error" in caught.value.what


def test_names_all_faults_together() -> None:
    with pytest.raises(RecipeError) as caught:
        check_recipe(make_recipe(archs=("35",), link=Link("cuda"), maintainers=()))

    assert caught.value.what == "tiny-cuda: the recipe has 3 errors"
