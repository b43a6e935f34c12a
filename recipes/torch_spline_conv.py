"""torch-spline-conv: the convolution of SplineCNN, by B-splines over edges, for PyTorch."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torch-spline-conv",
    version="1.2.2",
    license="MIT",
    homepage="https://github.com/rusty1s/pytorch_spline_conv",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torch-spline-conv",
        sha256="ed45a81da29f774665dbdd4709d7e534cdf16d2e7006dbd06957f35bd09661b2",
    ),
    toolkits=("13.0", "13.2"),
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
    smoke=Smoke(imports=("torch_spline_conv",), script="torch_spline_conv.py"),
)
