"""torch-scatter: sums, means and other reductions of values by index, for PyTorch."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torch-scatter",
    version="2.1.2",
    license="MIT",
    homepage="https://github.com/rusty1s/pytorch_scatter",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torch-scatter",
        sha256="69b3aa435f2424ac6a1bfb6ff702da6eb73b33ca0db38fb26989c74159258e47",
    ),
    toolkits=("13.0", "13.2"),
    never_built=("13.2",),  # not tried yet
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(Patch(file="0001-compile-with-ninja.patch", why="one file at a time without it"),),
    requires=("ninja", "setuptools", "wheel"),
    # The CUDA libraries hold the kernels for the CPU too, and are loaded in place of those for
    # the CPU alone.
    build=TorchExtension(env={"FORCE_ONLY_CUDA": "1"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("torch_scatter",), script="torch_scatter.py"),
)
