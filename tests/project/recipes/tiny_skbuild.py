"""tiny-skbuild: a templated kernel behind ctypes, built with scikit-build-core."""

from cuwheel import Archive, CMake, Link, Recipe, Smoke

RECIPE = Recipe(
    name="tiny-skbuild",
    version="1.0.0",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-skbuild",
    # Always built with --source tests/packages/tiny_skbuild: nothing answers at this address.
    source=Archive(url="http://127.0.0.1:9/tiny_skbuild-1.0.0.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("80", "90"),
    ptx="last",
    python="any",
    build=CMake(),
    link=Link("cudart"),
    smoke=Smoke(imports=("tiny_skbuild",), call="tiny_skbuild.answer()", expect="42"),
    memory_per_job=512 << 20,
    disk=256 << 20,
    max_wheel_size=2 << 20,
    maintainers=("cuwheel",),
)
