"""Small CUDA packages, and an index in a folder that has them as source archives."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.factories import write_wheel

SETUP = """\
import os
import urllib.request

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

FORCE_BUILD = os.getenv("TINY_FORCE_BUILD", "FALSE") == "TRUE"
LINE_INFO = os.getenv("TINY_LINE_INFO", "0") == "1"
ARCHS = os.getenv("TINY_CUDA_ARCHS", "80;90").split(";")

nvcc = ["-O3", "--use_fast_math"]
if LINE_INFO:
    nvcc += ["-lineinfo"]
if not FORCE_BUILD:
    urllib.request.urlretrieve("https://example.invalid/tiny.whl", "tiny.whl")

setup(
    name="tiny-draft",
    ext_modules=[
        CUDAExtension(
            name="tiny_draft_cuda",
            sources=["csrc/tiny.cu", "csrc/lost.cu"],
            libraries=["cublas"],
            extra_compile_args={"nvcc": nvcc},
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
"""
PKG_INFO = """\
Metadata-Version: 2.1
Name: tiny-draft
Version: {version}
Summary: A tiny package.
Home-page: http://example.invalid/tiny-draft
License: MIT
Requires-Python: >=3.11
Requires-Dist: torch
Requires-Dist: einops

Text.
"""
FILES = {
    "PKG-INFO": PKG_INFO,
    "setup.py": SETUP,
    "csrc/tiny.cu": "__global__ void tiny() {}\n",
    "tiny_draft/__init__.py": "",
    "tiny_draft.egg-info/top_level.txt": "tiny_draft\ntiny_draft_cuda\n",
}
CMAKE = """\
cmake_minimum_required(VERSION 3.21...3.30)
project(tiny LANGUAGES CXX)
option(TINY_USE_CUDA "with CUDA" OFF)
option(TINY_NATIVE "for this CPU" ON)
option(TINY_DEBUG "for profilers" OFF)
if(TINY_USE_CUDA)
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES native)
  endif()
  target_link_libraries(tiny PRIVATE CUDA::cudart CUDA::cufft CUDA::cublas_static)
endif()
if(TINY_DEBUG)
  add_compile_options(-lineinfo)
endif()
FetchContent_Declare(dep GIT_REPOSITORY https://example.invalid/dep.git GIT_TAG v1)
"""
PYPROJECT = """\
[build-system]
requires = ["scikit-build-core>=0.10"]
build-backend = "scikit_build_core.build"

[project]
name = "tiny-cmake"
dependencies = ["numpy>=1.20"]

[tool.scikit-build]
wheel.py-api = "py3"
wheel.packages = ["python/tiny_cmake"]
"""
CMAKE_FILES = {"CMakeLists.txt": CMAKE, "pyproject.toml": PYPROJECT}


def write_tree(folder: Path, files: dict[str, str]) -> Path:
    """Write a source tree of these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{version}", "1.0"))
    return folder


@dataclass(frozen=True, kw_only=True)
class Index:
    """A package index in a folder (PEP 503)."""

    folder: Path

    @property
    def url(self) -> str:
        """Its address."""
        return self.folder.as_uri()

    def add_sdist(self, project: str, version: str, files: dict[str, str]) -> str:
        """Publish a source archive, and return its SHA-256."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            for name, text in files.items():
                data = text.replace("{version}", version).encode()
                member = tarfile.TarInfo(f"{project}-{version}/{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return self.add_file(project, f"{project}-{version}.tar.gz", content.getvalue())

    def add_wheel(self, project: str, version: str, files: dict[str, str]) -> str:
        """Publish a wheel with these files, and return its SHA-256."""
        name = project.replace("-", "_")
        content = {path: text.encode() for path, text in files.items()}
        with tempfile.TemporaryDirectory() as folder:
            wheel = write_wheel(
                Path(folder), content, name=name, version=version, tag="py3-none-any"
            )
            return self.add_file(project, wheel.name, wheel.read_bytes())

    def add_file(self, project: str, name: str, content: bytes = b"", attributes: str = "") -> str:
        """Publish a file, and return its SHA-256."""
        folder = self.folder / project
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        with (folder / "index.html").open("a") as page:
            page.write(f'<a href="{name}#sha256={digest}" {attributes}>{name}</a>\n')
        return digest
