"""graphgp-cuda: Gaussian processes on graphs of nearest neighbours, for JAX."""

from cuwheel import CMake, Link, Patch, Recipe, Sdist, Smoke

RECIPE = Recipe(
    name="graphgp-cuda",
    version="0.0.4",
    # graphgp-cuda; the bitonic sort of cudaBitonic, which is compiled in.
    license="MIT AND Apache-2.0",
    homepage="https://github.com/stanford-ism/graphgp-cuda",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="graphgp-cuda",
        sha256="ad501ea521a0b5f27605a6edd74e4ba98234db1615bb0009943314174dbe39c4",
    ),
    toolkits=("13.0",),
    archs=("80", "90", "100", "120"),
    python="any",  # its library is loaded with ctypes
    requires_python=">=3.11",
    patches=(Patch(file="0001-take-archs-from-the-target.patch", why="it has a list of three"),),
    requires=("cmake>=3.18", "jax", "ninja", "scikit-build-core"),
    build=CMake(),
    link=Link("cudart"),
    smoke=Smoke(imports=("graphgp_cuda",), requires=("jax[cuda13]",)),
)
