"""warp-rnnt: the loss of recurrent neural network transducers for PyTorch."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="warp-rnnt",
    version="0.7.0",
    license="MIT",
    homepage="https://github.com/1ytic/warp-rnnt",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="warp-rnnt",
        sha256="d50d34defc1377856bbf79b854bc2699bb87f5e48d82f5eb0151e610782d98a5",
    ),
    toolkits=("13.0", "13.2"),
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(
        Patch(file="0001-compile-without-a-gpu.patch", why="setup.py refuses such a machine"),
        Patch(file="0002-read-the-version-by-importlib.patch", why="setuptools 82 fails it"),
    ),
    # After setuptools and wheel: what setup.py requires of the build too.
    requires=("ninja", "setuptools", "wheel", "numpy", "pybind11"),
    build=TorchExtension(),
    link=Link("cudart", "torch"),
    smoke=Smoke(
        imports=("warp_rnnt", "warp_rnnt._C"),
        call="warp_rnnt.__version__.split('+')[0]",
        expect="'0.7.0'",
    ),
    upstream_tests=("warp_rnnt/test.py",),
)
