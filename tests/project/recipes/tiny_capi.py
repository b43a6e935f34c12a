"""tiny-capi: a kernel behind Python's C API, built by a setup.py that calls nvcc itself."""

from cuwheel import MIB, Archive, Link, Recipe, Setuptools, Smoke

RECIPE = Recipe(
    name="tiny-capi",
    version="1.0.0",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-capi",
    maintainers=("cuwheel-maintainers",),
    # Always built with --source tests/packages/tiny_capi: nothing answers at this address.
    source=Archive(url="http://127.0.0.1:9/tiny_capi-{version}.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    # What the smoke test installs beside the wheel is pinned here too.
    requires=("nvidia-cuda-runtime==13.0.96", "setuptools", "wheel"),
    build=Setuptools(env={"TINY_GENCODE": "{gencode}"}),
    link=Link("cudart"),
    smoke=Smoke(imports=("tiny_capi",), call="tiny_capi.answer()", expect="42"),
    memory_per_job=512 * MIB,
    disk=256 * MIB,
    max_wheel_size=2 * MIB,
)
