"""hello-cuda: a kernel behind ctypes, to see that everything works; remove it when it has."""

from cuwheel import MIB, CMake, Folder, Link, Recipe, Smoke

RECIPE = Recipe(
    name="hello-cuda",
    version="1.0.0",
    license="MIT",
    homepage="https://docs.nvidia.com/cuda/",
    maintainers=("cuwheel-maintainers",),  # of yours: you, as on GitHub
    source=Folder(path="packages/hello-cuda"),
    toolkits=("13.0",),
    archs=("80", "90"),
    ptx="last",
    python="any",  # ctypes, not the C API: one wheel serves every Python
    # The smoke test installs the runtime library beside the wheel, so it is pinned here too.
    requires=("cmake", "ninja", "nvidia-cuda-runtime==13.0.96", "scikit-build-core"),
    build=CMake(),
    link=Link("cudart"),
    # What needs no GPU: the library is found, and answers.
    smoke=Smoke(imports=("hello_cuda",), call="hello_cuda.runtime_version() // 1000", expect="13"),
    memory_per_job=512 * MIB,
    disk=256 * MIB,
    max_wheel_size=2 * MIB,
)
