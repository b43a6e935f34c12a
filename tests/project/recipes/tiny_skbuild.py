"""tiny-skbuild: a templated kernel behind ctypes, built with scikit-build-core."""

from cuwheel import MIB, Archive, CMake, Link, Recipe, Smoke

RECIPE = Recipe(
    name="tiny-skbuild",
    version="1.0.0",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-skbuild",
    maintainers=("cuwheel-maintainers",),
    # Always built with --source tests/packages/tiny_skbuild: nothing answers at this address.
    source=Archive(url="http://127.0.0.1:9/tiny_skbuild-{version}.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("80", "90"),
    ptx="last",
    python="any",
    # What the smoke test installs beside the wheel is pinned here too.
    requires=("cmake", "ninja", "nvidia-cuda-runtime==13.0.96", "scikit-build-core"),
    build=CMake(),
    link=Link("cudart"),
    smoke=Smoke(imports=("tiny_skbuild",), script="tiny_skbuild.py"),
    memory_per_job=512 * MIB,
    disk=256 * MIB,
    max_wheel_size=2 * MIB,
)
