"""flash-attn: exact attention for PyTorch that doesn't write the scores to memory."""

from cuwheel import GIB, MIB, Framework, Link, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="flash-attn",
    version="2.8.3",
    license="BSD-3-Clause",
    homepage="https://github.com/Dao-AILab/flash-attention",
    maintainers=("cuwheel-maintainers",),
    # It holds CUTLASS, which upstream's repository has as a submodule.
    source=Sdist(
        project="flash-attn",
        sha256="1e71dd64a9e0280e0447b8a0c2541bad4bf6ac65bdeaa2f90e51a9e57de0370d",
    ),
    toolkits=("12.1", "12.4", "13.0"),
    never_built=("12.1", "12.4"),  # conda-forge's files were out of reach
    # Those that its setup.py takes, and no others: 80 serves 86 and 89 too, 120 serves 121.
    archs={
        "12.1": ("80", "90"),
        "12.4": ("80", "90"),
        "13.0": ("80", "90", "100", "120"),
    },
    # The newest that PyTorch built with each. 2.4.1 has no wheel for a Python after 3.12.
    framework={
        "12.1": Framework(name="torch", version="2.4.1"),
        "12.4": Framework(name="torch", version="2.6.0"),
        "13.0": Framework(name="torch", version="2.11.0"),
    },
    # einops: the package imports it.
    requires=("einops", "ninja", "packaging", "psutil", "setuptools", "wheel"),
    cxx_standard={"torch>=2.14": "20"},  # its headers; setup.py sets 17
    build=TorchExtension(
        env={
            # Without it setup.py tries to download a wheel instead of building one.
            "FLASH_ATTENTION_FORCE_BUILD": "TRUE",
            "FLASH_ATTN_CUDA_ARCHS": "{archs}",
            # Upstream's 4 multiply the memory of each compile; the jobs fill the cores.
            "NVCC_THREADS": "1",
        }
    ),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("flash_attn", "flash_attn_2_cuda")),
    memory_per_job=5 * GIB,
    disk=8 * GIB,
    max_wheel_size=400 * MIB,
)
