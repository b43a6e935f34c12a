"""jax-finufft: the nonuniform FFT of FINUFFT and cuFINUFFT for JAX."""

from cuwheel import MIB, CMake, External, Link, Patch, Recipe, Sdist, Smoke

RECIPE = Recipe(
    name="jax-finufft",
    version="1.3.1",
    # jax-finufft and FINUFFT; xsimd and nanobind; nanobind's hash table; FFTW, and GCC's OpenMP,
    # which are copied into the wheel.
    license="Apache-2.0 AND BSD-3-Clause AND MIT AND GPL-2.0-or-later AND "
    "GPL-3.0-or-later WITH GCC-exception-3.1",
    homepage="https://github.com/flatironinstitute/jax-finufft",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="jax-finufft",
        sha256="821d981bf180916ba8c5076bd6e267a4d0e1cb0b01ea60c029859f78db5a55f1",
    ),
    toolkits=("12.2", "12.4", "12.8", "13.0"),
    never_built=("12.2", "12.8"),  # conda-forge's files were out of reach
    # No PTX: the device link of separately compiled code leaves only machine code.
    archs={
        "12.2": ("70", "80", "90"),
        "12.4": ("70", "80", "90"),
        "12.8": ("70", "80", "90", "100", "120"),
        "13.0": ("75", "80", "90", "100", "120"),
    },
    requires_python=">=3.11",
    wheel_name="jax-finufft-cuda{cuda}x",
    patches=(
        Patch(file="0001-build-from-what-is-given.patch", why="its configure step downloads"),
        Patch(file="0002-say-none-for-not-mapped.patch", why="vmap fails with new releases of jax"),
    ),
    requires=(
        *("cmake", "nanobind>=2.9.0", "ninja", "scikit-build-core>=0.5", "setuptools-scm"),
        "jax==0.8.0",  # pyproject.toml pins it: its FFI headers are compiled against
        "pythran==0.19.0",  # for its xsimd, 14.1.0: FINUFFT needs 14, Debian and Ubuntu have less
    ),
    needs={"debian": ("libfftw3-dev",), "conda": ("fftw",)},  # copied in, as in upstream's wheels
    build=CMake(
        define={
            "JAX_FINUFFT_USE_CUDA": "ON",
            # Plain x86-64, as upstream's own wheels: a platform tag can't ask for a newer CPU.
            "FINUFFT_ARCH_FLAGS": "",
            "XSIMD_INCLUDE_DIR": "{site_packages}/pythran",
        },
        env={
            "SETUPTOOLS_SCM_PRETEND_VERSION": "{version}",  # a sdist has no git tags
            # What FINUFFT installs for C++ programs: static libraries that double the wheel.
            "SKBUILD_WHEEL_EXCLUDE": "jax_finufft/lib;jax_finufft/lib64;jax_finufft/include;"
            "jax_finufft/share/finufft",
        },
    ),
    # Behind upstream's own extras: `cuda13` brings JAX's CUDA and these, `cuda13-local` neither.
    link=Link(
        *("cudart", "cufft"),
        mode=External(extra="cuda{cuda}", local_extra="cuda{cuda}-local"),
        bundles=("libfftw3", "libfftw3_omp", "libfftw3f", "libfftw3f_omp", "libgomp"),
    ),
    # With Debian 12's static one (it calls arc4random) the wheel would need glibc 2.36, not 2.34.
    libstdcxx="shared",
    # Without jax_finufft_gpu the package works too, on the CPU alone, and says nothing.
    smoke=Smoke(
        imports=("jax_finufft", "jax_finufft.jax_finufft_gpu"),
        requires=("jax[cuda{cuda}]", "numpy", "pydantic>=2"),
        script="jax_finufft.py",
    ),
    upstream_tests=("tests/ops_test.py", "tests/options_test.py", "tests/shapes_test.py"),
    max_wheel_size=60 * MIB,
)
