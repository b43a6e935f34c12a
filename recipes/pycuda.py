"""pycuda: the CUDA driver's interface, arrays and kernels from Python."""

from cuwheel import Link, Patch, Recipe, Sdist, Setuptools, Smoke

RECIPE = Recipe(
    name="pycuda",
    version="2026.1",
    # PyCUDA; Thrust's scan; CPython's struct module; STLport's complex numbers; Boost.Python.
    license="MIT AND Apache-2.0 AND PSF-2.0 AND Boehm-GC-without-fee AND BSL-1.0",
    homepage="https://mathema.tician.de/software/pycuda",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="pycuda",
        sha256="759516160628ba06f32ce7e563e3f5b9214691dc9528a03ea99ea1073f4e14ba",
    ),
    toolkits=("13.0",),
    archs=(),  # its kernels are compiled when they are used
    patches=(
        Patch(file="0001-state-numpy-and-cudart.patch", why="it needs both"),
        Patch(file="0002-include-no-header-that-is-gone.patch", why="with pycuda-helpers.hpp"),
    ),
    requires=(
        *("numpy>=1.24", "setuptools", "wheel"),
        "nvidia-cuda-profiler-api==13.0.85",  # cudaProfiler.h: the toolkit's lock is without it
    ),
    build=Setuptools(env={"CXXFLAGS": "-O2 -DNDEBUG -g0 -I{site_packages}/nvidia/cu13/include"}),
    link=Link("cudart", "curand", "driver"),
    smoke=Smoke(
        imports=("pycuda", "pycuda._pvt_struct", "pycuda.driver"),
        requires=("mako", "numpy", "platformdirs>=2.2.0", "pytools>=2011.2"),
    ),
)
