"""gpunufft: the nonuniform FFT of gpuNUFFT, for the reconstruction of MRI."""

from cuwheel import CMake, Link, Patch, Recipe, Sdist, Smoke

RECIPE = Recipe(
    name="gpunufft",
    version="0.10.8",
    license="MIT AND BSD-3-Clause",  # gpuNUFFT; pybind11
    homepage="https://github.com/andyschwarzl/gpuNUFFT",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="gpunufft",
        sha256="de2bf601047d53675e73d1bfd1f719005bd6328bbeb3fb58d53833959115d5d2",
    ),
    toolkits=("13.0",),
    archs=("75", "80", "86", "89", "90", "100", "120"),  # upstream's
    patches=(
        Patch(file="0001-take-archs-from-the-target.patch", why="it lists seven, and no numpy"),
        Patch(file="0002-compile-the-sources-once.patch", why="else a library for MATLAB too"),
        Patch(
            file="0003-take-no-weights-for-none.patch", why="else each adjoint is NaN by default"
        ),
    ),
    requires=("cmake>=3.18,<4", "ninja", "pybind11>=2.10.0", "setuptools>=42", "wheel"),
    build=CMake(env={"GPUNUFFT_GENCODE": "{gencode}"}),
    link=Link("cudart", "cublas", "cufft", "curand"),
    smoke=Smoke(imports=("gpuNUFFT",), requires=("numpy",)),
)
