"""tiny-rdc: two separately compiled parts and cuBLAS, built with scikit-build-core."""

from cuwheel import MIB, Archive, CMake, Link, Recipe, Smoke

RECIPE = Recipe(
    name="tiny-rdc",
    version="1.0.0",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-rdc",
    maintainers=("cuwheel-maintainers",),
    # Always built with --source tests/packages/tiny_rdc: nothing answers at this address.
    source=Archive(url="http://127.0.0.1:9/tiny_rdc-{version}.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    python="any",
    # What the smoke test installs beside the wheel is pinned here too.
    requires=(
        "cmake",
        "ninja",
        "nvidia-cublas==13.1.0.3",
        "nvidia-cuda-runtime==13.0.96",
        "scikit-build-core",
    ),
    build=CMake(),
    link=Link("cudart", "cublas"),
    smoke=Smoke(imports=("tiny_rdc",), call="tiny_rdc.answer()", expect="42"),
    memory_per_job=512 * MIB,
    disk=256 * MIB,
    max_wheel_size=2 * MIB,
)
