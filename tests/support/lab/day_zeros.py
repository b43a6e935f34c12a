"""A stand-in framework on an index over HTTP, and packages that are compiled against it."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from pathlib import Path

from tests.support.factories import write_wheel
from tests.support.servers.http import Site

_PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
_TAG = f"{_PYTHON}-{_PYTHON}-manylinux_2_17_{platform.machine()}"
_OTHER_TAG = f"cp39-cp39-manylinux_2_17_{platform.machine()}"
_OLD = "#define FRAMEWORK_OLD 1\n"
# GCC 10 has 201709 for C++20.
_NEW = """\
#ifdef WANTS_MODERN
#if __cplusplus <= 201703L
#error "C++20 or later is required to use tinyfw"
#endif
#endif
"""
_SETUP = """\
import os, shlex
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NVCC = [os.environ["CUDA_HOME"] + "/bin/nvcc", "-std=c++17", "-Xcompiler", "-fPIC"]
NVCC += [*shlex.split(os.environ["TINY_GENCODE"]), "-I" + os.environ["TINYFW"]]


class Build(build_ext):
    def build_extension(self, extension):
        kernels = [name for name in extension.sources if name.endswith(".cu")]
        extension.sources = [name for name in extension.sources if name not in kernels]
        os.makedirs(self.build_temp, exist_ok=True)
        for name in kernels:
            made = f"{self.build_temp}/{name}.o"
            self.spawn([*NVCC, "-c", os.path.abspath(name), "-o", made])
            extension.extra_objects.append(made)
        super().build_extension(extension)


setup(
    name="%s",
    version="1.0",
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            "%s",
            sources=["small.cu", "large.cu", "native.c"],
            library_dirs=[os.environ["CUDA_HOME"] + "/lib64"],
            libraries=["cudart", "stdc++"],
        )
    ],
)
"""
_RECIPE = """\
from cuwheel import Folder, Framework, Link, Recipe, Setuptools, Smoke

RECIPE = Recipe(
    name="{name}",
    version="1.0",
    license="MIT",
    homepage="https://example.invalid/{name}",
    maintainers=("someone",),
    source=Folder(path="sources/{name}"),
    toolkits=("13.0",),
    archs=("90",),
    framework=Framework(name="tinyfw", version="1.0"),
    requires=("nvidia-cuda-runtime==13.0.96", "setuptools", {more}"wheel"),
    build=Setuptools(env={{"TINY_GENCODE": "{{gencode}}", "TINYFW": "{{site_packages}}/tinyfw"}}),
    link=Link("cudart"),
    smoke=Smoke(imports=("{name}",)),
)
"""


def publish_framework(site: Site, folder: Path) -> None:
    """Publish tinyfw 1.0 and 2.0, 3.0 for another Python, and two releases of what 2.0 requires."""
    toolkit = "cuda-toolkit==13.0.2"
    for version, header, tag, requires in (
        ("1.0", _OLD, _TAG, (toolkit,)),
        ("2.0", _NEW, _TAG, (toolkit, "tinydep>=2")),
        ("3.0", _NEW, _OTHER_TAG, (toolkit,)),
    ):
        files: dict[str, bytes | Path] = {
            "tinyfw/__init__.py": b"",
            "tinyfw/version.py": b"cuda = '13.0'\n",
            "tinyfw/tinyfw.h": header.encode(),
        }
        write_wheel(folder, files, name="tinyfw", version=version, tag=tag, requires=requires)
    for version in ("1.0", "2.0"):
        write_wheel(folder, {}, name="tinydep", version=version, tag="py3-none-any")
    site.headers["Content-Type"] = "application/vnd.pypi.simple.v1+json"
    for project in ("tinyfw", "tinydep"):
        listed = []
        for path in sorted(folder.glob(f"{project}-*.whl")):
            site.files[f"/files/{path.name}"] = path.read_bytes()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entry = {"filename": path.name, "url": site.url(f"/files/{path.name}")}
            times = {"upload-time": "2026-01-01T00:00:00Z", "size": path.stat().st_size}
            listed.append({**entry, **times, "hashes": {"sha256": digest}})
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": listed, "versions": []}
        site.files[f"/simple/{project}/"] = json.dumps(page).encode()


def add_package(project: Path, name: str, large: str, more: str = "") -> None:
    """Add a recipe and its source: a small and a large CUDA file; `more` are requirements."""
    source = project / "sources" / name
    source.mkdir(parents=True)
    (source / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools"]\n')
    (source / "setup.py").write_text(_SETUP % (name, name))
    (source / "small.cu").write_text("__global__ void small_kernel() {}\n")
    kernel = "__global__ void large_kernel(float *out) { out[0] = 1.0f; }\n"
    (source / "large.cu").write_text(f'{large}#include "tinyfw.h"\n{kernel}')
    (source / "native.c").write_text(
        "#include <Python.h>\n"
        f'static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}"}};\n'
        f"PyMODINIT_FUNC PyInit_{name}(void) {{ return PyModule_Create(&module); }}\n"
    )
    recipes = project / "recipes"
    recipes.mkdir(exist_ok=True)
    (recipes / f"{name}.py").write_text(_RECIPE.format(name=name, more=more))
