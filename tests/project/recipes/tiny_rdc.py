"""tiny-rdc: two separately compiled parts and cuBLAS, built with scikit-build-core."""

from cuwheel import Archive, CMake, Link, Recipe, Smoke

RECIPE = Recipe(
    name="tiny-rdc",
    version="1.0.0",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-rdc",
    # Always built with --source tests/packages/tiny_rdc: nothing answers at this address.
    source=Archive(url="http://127.0.0.1:9/tiny_rdc-1.0.0.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    python="any",
    build=CMake(),
    link=Link("cudart", "cublas"),
    smoke=Smoke(imports=("tiny_rdc",), call="tiny_rdc.answer()", expect="42"),
    memory_per_job=512 << 20,
    disk=256 << 20,
    max_wheel_size=2 << 20,
    maintainers=("cuwheel",),
)
