"""torch-cluster: sampling, neighbours and clusters of points and graphs, for PyTorch."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torch-cluster",
    version="1.6.3",
    # torch-cluster; nanoflann, whose header is compiled in.
    license="MIT AND BSD-2-Clause",
    homepage="https://github.com/rusty1s/pytorch_cluster",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torch-cluster",
        sha256="78d5a930a5bbd0d8788df8c6d66addd68d6dd292fe3edb401e3dacba26308152",
    ),
    toolkits=("13.0", "13.2"),
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(
        Patch(file="0001-compile-with-ninja.patch", why="one file at a time without it"),
        Patch(file="0002-reduce-without-a-race.patch", why="fps may take another point"),
    ),
    requires=("ninja", "setuptools", "wheel"),
    # The CUDA libraries hold the kernels for the CPU too, and are loaded in place of those for
    # the CPU alone.
    build=TorchExtension(env={"FORCE_ONLY_CUDA": "1"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("torch_cluster",), requires=("scipy",), script="torch_cluster.py"),
)
