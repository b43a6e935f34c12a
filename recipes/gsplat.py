"""gsplat: differentiable rendering of Gaussian splats for PyTorch."""

from cuwheel import GIB, MIB, Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="gsplat",
    version="1.5.3",
    # gsplat; GLM, whose headers are compiled in.
    license="Apache-2.0 AND MIT",
    homepage="https://github.com/nerfstudio-project/gsplat",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="gsplat",
        sha256="343f080c470e891ba3c697c03bdf0952cb982d1d535fdc24adb23c2cb4fba906",
    ),
    toolkits=("12.4", "13.0"),
    archs={
        "12.4": ("80", "90"),
        "13.0": ("80", "90", "100", "120"),
    },
    framework={
        "12.4": Framework(name="torch", version="2.6.0"),
        "13.0": Framework(name="torch", version="2.11.0"),
    },
    patches=(
        Patch(file="0001-require-packaging.patch", why="it imports what it doesn't require"),
        Patch(file="0002-offsets-of-each-image.patch", why="packed pictures may never end"),
    ),
    # After setuptools and wheel: what the package imports.
    requires=("ninja", "setuptools", "wheel", "jaxtyping", "numpy", "packaging", "rich>=12"),
    cxx_standard={"torch>=2.14": "20"},  # its headers; setup.py sets 17
    build=TorchExtension(),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("gsplat", "gsplat.csrc")),
    upstream_tests=("tests/test_strategy.py",),  # the others need nerfacc, or a scene it leaves out
    memory_per_job=3 * GIB,
    max_wheel_size=60 * MIB,
)
