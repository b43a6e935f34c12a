"""xformers 0.0.29.post3, the last that was made for PyTorch 2.6 and CUDA 12.4."""

from cuwheel import GIB, MIB, Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="xformers-torch26",
    version="0.0.29.post3",
    # xformers, CUTLASS and flash-attn; Sputnik. All are compiled in.
    license="BSD-3-Clause AND Apache-2.0",
    homepage="https://github.com/facebookresearch/xformers",
    maintainers=("cuwheel-maintainers",),
    held_back="for code that needs PyTorch 2.6; xformers is the recipe that follows upstream",
    # It holds CUTLASS, Sputnik and flash-attn, which upstream's repository has as submodules.
    source=Sdist(
        project="xformers",
        sha256="0b77c67ecc3c9fdd8a0e4399e675adf12e2ff40285e00974cca2d09108157f60",
    ),
    toolkits=("12.4",),
    archs=("80", "90"),
    framework=Framework(name="torch", version="2.6.0"),
    wheel_name="xformers",
    patches=(
        Patch(file="0001-leave-git-alone.patch", why="git may name a commit of another repository"),
        Patch(file="0002-leave-flash-attn-3-out.patch", why="its files aren't in the sdist"),
    ),
    requires=("ninja", "numpy", "setuptools", "wheel"),
    build=TorchExtension(
        env={
            "FORCE_CUDA": "1",
            # Its default embeds line numbers, and with them paths.
            "XFORMERS_BUILD_TYPE": "Release",
            # PyTorch 2.6 has the kernels of its memory-efficient attention and of flash-attn 2.
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
