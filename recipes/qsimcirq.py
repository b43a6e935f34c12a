"""qsimcirq: qsim's simulators of quantum circuits for Cirq, on the CPU and on GPUs."""

from cuwheel import CMake, Link, Patch, Recipe, Sdist, Smoke

RECIPE = Recipe(
    name="qsimcirq",
    version="0.22.0",
    # qsim; pybind11; GCC's OpenMP, which is copied into the wheel.
    license="Apache-2.0 AND BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1",
    homepage="https://github.com/quantumlib/qsim",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="qsimcirq",
        sha256="90326abcfdfacd840cff61ca6c559ffc06ccf3bf6e631a5e44118894ff3109cb",
    ),
    toolkits=("13.0",),
    archs=("80", "90", "100", "120"),
    patches=(
        Patch(file="0001-take-pybind11-from-the-environment.patch", why="CMake downloads it"),
    ),
    requires=(
        *("cmake~=3.31.0", "ninja", "packaging", "setuptools>=75.2.0", "wheel"),
        "pybind11[global]==2.13.6",  # upstream's; newer ones find Python in another way
    ),
    # Without CUQUANTUM_ROOT its module for cuStateVec is left out.
    build=CMake(define={"pybind11_DIR": "{site_packages}/pybind11/share/cmake/pybind11"}),
    link=Link("cudart", bundles=("libgomp",)),
    smoke=Smoke(
        imports=("qsimcirq", "qsimcirq.qsim_cuda"),
        requires=(
            *("absl-py", "cirq-core~=1.0", "numpy>=1.26.0", "pybind11[global]"),
            *("setuptools>=75.2.0", "typing-extensions"),
        ),
        script="qsimcirq.py",
    ),
)
