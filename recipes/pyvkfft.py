"""pyvkfft: VkFFT's Fourier transforms for arrays of CuPy and PyCUDA."""

from cuwheel import Link, Patch, Recipe, Sdist, Setuptools, Smoke

RECIPE = Recipe(
    name="pyvkfft",
    version="2025.1.1",
    license="MIT",  # VkFFT too
    homepage="https://github.com/vincefn/pyvkfft",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="pyvkfft",
        sha256="359648e089cac0e3c82fc685dc7b8a9e1a249b338dcd7c94677d68207c9842bb",
    ),
    toolkits=("13.0",),
    archs=(),  # VkFFT writes its kernels when they are used, for NVRTC
    patches=(
        Patch(file="0001-compile-host-code-as-such.patch", why="else empty device code for sm_75"),
    ),
    requires=("setuptools", "wheel"),
    # Else its OpenCL part too, which needs the machine's libOpenCL.
    build=Setuptools(env={"VKFFT_BACKEND": "cuda"}),
    link=Link("cudart", "driver", "nvrtc"),
    smoke=Smoke(imports=("pyvkfft", "pyvkfft.base"), requires=("numpy", "psutil")),
)
