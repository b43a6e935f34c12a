"""torchlpc: linear predictive coding filters that vary with time, for PyTorch, with gradients."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torchlpc",
    version="0.7.2",
    license="MIT",
    homepage="https://github.com/DiffAPF/torchlpc",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torchlpc",
        sha256="260a765645cdf0112d3fcfcebc41d11855ac52264b3185f24068ad873b1b0be3",
    ),
    toolkits=("13.0", "13.2"),
    never_built=("13.2",),  # not tried yet
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(
        Patch(file="0001-compile-without-a-gpu.patch", why="it leaves CUDA out there"),
        Patch(file="0002-use-pytorchs-openmp.patch", why="it links a second libgomp"),
    ),
    requires=("ninja", "numpy", "setuptools", "wheel"),
    # Its CUDA file has Python's assertions, with the paths of its headers.
    build=TorchExtension(env={"NVCC_PREPEND_FLAGS": "-DNDEBUG"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(
        imports=("torchlpc", "torchlpc._C"), requires=("numba", "numpy"), script="torchlpc.py"
    ),
)
