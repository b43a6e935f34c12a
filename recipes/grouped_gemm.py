"""grouped-gemm: matrix products in groups of different sizes, as in mixtures of experts."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="grouped-gemm",
    version="0.3.0",
    # grouped-gemm; CUTLASS, whose headers are compiled in.
    license="Apache-2.0 AND BSD-3-Clause",
    homepage="https://github.com/tgale06/grouped_gemm",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="grouped-gemm",
        sha256="f0555da33a975610e9160f52449082c5e699525524581a0e5f990b14b02676a3",
    ),
    toolkits=("13.0",),
    archs=("80", "90", "100", "120"),
    framework=Framework(name="torch", version="2.11.0"),
    patches=(Patch(file="0001-take-newer-pytorch.patch", why="it refuses what it works with"),),
    requires=("ninja", "packaging>=21.0.0", "setuptools<81.0.0", "wheel"),
    build=TorchExtension(),
    link=Link("cudart", "torch", "cublas"),
    smoke=Smoke(
        imports=("grouped_gemm", "grouped_gemm_backend"),
        call="callable(grouped_gemm.backend.backend.gmm)",
        expect="True",
    ),
)
