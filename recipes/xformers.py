"""xformers: building blocks of transformers for PyTorch, most of all memory-efficient attention."""

from cuwheel import GIB, MIB, Framework, Link, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="xformers",
    version="0.0.35",
    # xformers; CUTLASS, which is compiled in.
    license="BSD-3-Clause",
    homepage="https://github.com/facebookresearch/xformers",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="xformers",
        sha256="f7fc183a58e4bf0e2ae339a18fb1b1d4a37854c0f2545b4f360fef001646ab76",
    ),
    toolkits=("13.0",),
    archs=("80", "90", "100", "120"),
    python="any",  # its library registers operators with PyTorch and uses nothing of Python
    # Nothing but PyTorch's stable ABI (TORCH_STABLE_ONLY in its setup.py): one wheel for them all.
    framework=Framework(name="torch", version="2.11.0", serves=("2.13.0", "2.15.0")),
    requires=("ninja", "numpy", "setuptools>=64", "wheel"),
    build=TorchExtension(
        env={
            "FORCE_CUDA": "1",
            # Its default embeds line numbers, and with them paths.
            "XFORMERS_BUILD_TYPE": "Release",
            # PyTorch has the kernels of its memory-efficient attention. Without this a PyTorch
            # that they don't fit makes setup.py compile its own, and say nothing.
            "XFORMERS_PT_CUTLASS_ATTN": "1",
        }
    ),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("xformers", "xformers.ops")),
    memory_per_job=4 * GIB,
    max_wheel_size=100 * MIB,
)
