"""Build with PyTorch's builder, with a C++ standard of its own that newer PyTorchs refuse."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    cmdclass={"build_ext": BuildExtension},
    ext_modules=[
        CUDAExtension(
            "tiny_torch._native",
            sources=["native.cpp", "add.cu"],
            extra_compile_args={"cxx": ["-std=c++17"], "nvcc": ["-std=c++17"]},
        )
    ],
)
