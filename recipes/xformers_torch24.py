"""xformers 0.0.28.post1, the last that was made for PyTorch 2.4 and CUDA 12.1."""

from cuwheel import GIB, MIB, Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="xformers-torch24",
    version="0.0.28.post1",
    # xformers and CUTLASS; Sputnik. All are compiled in.
    license="BSD-3-Clause AND Apache-2.0",
    homepage="https://github.com/facebookresearch/xformers",
    maintainers=("cuwheel-maintainers",),
    held_back="for code that needs PyTorch 2.4; xformers is the recipe that follows upstream",
    # It holds CUTLASS, Sputnik and flash-attn, which upstream's repository has as submodules.
    source=Sdist(
        project="xformers",
        sha256="5b292643885983950f6e2e3aed08dfd6b175ac8b725802f6f3e527b5a22e2a9b",
    ),
    toolkits=("12.1",),
    never_built=("12.1",),  # conda-forge's files were out of reach
    archs=("80", "90"),
    framework=Framework(name="torch", version="2.4.1"),
    wheel_name="xformers",
    patches=(
        Patch(file="0001-leave-git-alone.patch", why="git may name a commit of another repository"),
    ),
    requires=("ninja", "numpy", "setuptools", "wheel"),
    build=TorchExtension(
        env={
            "FORCE_CUDA": "1",
            # Its default embeds line numbers, and with them paths.
            "XFORMERS_BUILD_TYPE": "Release",
            # PyTorch 2.4 has the kernels of its memory-efficient attention and of flash-attn.
            # Without these a PyTorch that they don't fit makes setup.py compile its own, for
            # hours, and say nothing.
            "XFORMERS_PT_CUTLASS_ATTN": "1",
            "XFORMERS_PT_FLASH_ATTN": "1",
        }
    ),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("xformers", "xformers.ops")),
    memory_per_job=4 * GIB,
    max_wheel_size=100 * MIB,
)
