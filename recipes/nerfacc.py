"""nerfacc: sampling and volume rendering of radiance fields for PyTorch."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="nerfacc",
    version="0.5.3",
    # nerfacc; a header of NVIDIA's CUDA samples, which is compiled in.
    license="MIT AND BSD-3-Clause",
    homepage="https://github.com/KAIR-BAIR/nerfacc",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="nerfacc",
        sha256="01850cbbd71b6aeab059cbfb695755f8b6604f3fdfe48c44925b4b97c0c324db",
    ),
    toolkits=("13.0", "13.2"),
    never_built=("13.2",),  # not tried yet
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(
        Patch(file="0001-compile-with-ninja.patch", why="one file at a time without it"),
        Patch(file="0002-leave-lerp-to-newer-cxx.patch", why="C++20 has one of its own"),
    ),
    requires=("ninja", "setuptools", "wheel"),
    build=TorchExtension(),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("nerfacc", "nerfacc.csrc"), requires=("rich>=12",), script="nerfacc.py"),
    upstream_tests=(  # that of cameras needs tqdm
        *("tests/test_grid.py", "tests/test_pack.py", "tests/test_pdf.py"),
        *("tests/test_rendering.py", "tests/test_scan.py"),
    ),
)
