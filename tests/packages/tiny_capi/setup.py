"""Compile the kernel with nvcc and link it into a C extension, as many CUDA packages do by hand."""

import os
import shlex
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CUDA_HOME = Path(os.environ["CUDA_HOME"])
GENCODE = shlex.split(os.environ["TINY_GENCODE"])


class BuildWithNvcc(build_ext):
    """`build_ext` that turns `.cu` into objects first."""

    def build_extension(self, extension: Extension) -> None:
        """Compile the `.cu` files, then go on as setuptools does."""
        kernels = [name for name in extension.sources if name.endswith(".cu")]
        extension.sources = [name for name in extension.sources if name not in kernels]
        extension.extra_objects = [self.compile_kernel(Path(name)) for name in kernels]
        super().build_extension(extension)

    def compile_kernel(self, kernel: Path) -> str:
        """Run nvcc on one file, by its absolute path, so that `__FILE__` is one."""
        made = Path(self.build_temp, kernel.stem + ".o")
        made.parent.mkdir(parents=True, exist_ok=True)
        nvcc = [CUDA_HOME / "bin" / "nvcc", "-O2", "-Xcompiler", "-fPIC", *GENCODE]
        self.spawn([*map(str, nvcc), "-c", str(kernel.absolute()), "-o", str(made)])
        return str(made)


setup(
    cmdclass={"build_ext": BuildWithNvcc},
    ext_modules=[
        Extension(
            "tiny_capi._native",
            sources=["src/native.cpp", "src/add.cu"],
            language="c++",
            include_dirs=[str(CUDA_HOME / "include")],
            library_dirs=[str(CUDA_HOME / "lib64")],
            libraries=["cudart"],
        )
    ],
)
