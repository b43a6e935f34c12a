"""torch-discounted-cumsum: discounted cumulative sums for PyTorch, with gradients."""

from cuwheel import Framework, Link, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torch-discounted-cumsum",
    version="1.1.0",
    license="BSD-3-Clause",
    homepage="https://www.github.com/toshas/torch-discounted-cumsum",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torch-discounted-cumsum",
        sha256="34e6a7e10f416a7aa84e5fb4e00d6a84a0cfbb0a68bcf22a3434488360f0ea37",
    ),
    toolkits=("13.0", "13.2"),
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    requires=("ninja", "setuptools>=38.2.5", "wheel"),
    # Its CUDA file has Python's assertions, with the paths of its headers.
    build=TorchExtension(env={"NVCC_PREPEND_FLAGS": "-DNDEBUG"}),
    link=Link("cudart", "torch"),
    # Without its libraries the package compiles them when it is imported.
    smoke=Smoke(
        imports=(
            *("torch_discounted_cumsum", "torch_discounted_cumsum_cpu"),
            "torch_discounted_cumsum_cuda",
        ),
        script="torch_discounted_cumsum.py",
    ),
)
