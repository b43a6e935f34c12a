"""flash-attn 2.5.6, of the time of PyTorch 2.2, for those whose code asks for both."""

from cuwheel import GIB, MIB, Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="flash-attn-torch22",
    version="2.5.6",
    license="BSD-3-Clause",
    homepage="https://github.com/Dao-AILab/flash-attention",
    maintainers=("cuwheel-maintainers",),
    held_back="for code that needs PyTorch 2.2; flash-attn is the recipe that follows upstream",
    # It holds CUTLASS, which upstream's repository has as a submodule.
    source=Sdist(
        project="flash-attn",
        sha256="d25801aa060877cad997939bd7130faf620fdbeda947c3ffde5865906d430c36",
    ),
    toolkits=("12.1",),
    never_built=("12.1",),  # conda-forge's files were out of reach
    archs=("80", "90"),
    framework=Framework(name="torch", version="2.2.2"),
    wheel_name="flash-attn",
    patches=(
        Patch(file="0001-take-archs-from-the-target.patch", why="it has a fixed list of two"),
        Patch(file="0002-leave-git-alone.patch", why="it asks git for the CUTLASS that it has"),
    ),
    # einops: the package imports it. numpy: PyTorch warns without one; 2.2 was compiled against 1.
    requires=("einops", "ninja", "numpy<2", "packaging", "psutil", "setuptools", "wheel"),
    # Without FORCE_BUILD its setup.py tries to download a wheel instead of building one.
    build=TorchExtension(env={"FLASH_ATTENTION_FORCE_BUILD": "TRUE"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("flash_attn", "flash_attn_2_cuda")),
    memory_per_job=5 * GIB,
    disk=8 * GIB,
    max_wheel_size=400 * MIB,
)
