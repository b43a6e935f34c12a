"""mamba-ssm: selective state space models for PyTorch."""

from cuwheel import GIB, MIB, Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="mamba-ssm",
    version="2.3.2.post1",
    license="Apache-2.0",
    homepage="https://github.com/state-spaces/mamba",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="mamba-ssm",
        sha256="104cc47e9101e5401a675fa2b784f2952b9b037f3b1dd83b5ac544394e95d028",
    ),
    toolkits=("13.0",),
    archs=("80", "90", "100", "120"),
    framework=Framework(name="torch", version="2.11.0"),
    patches=(
        Patch(file="0001-take-archs-from-the-target.patch", why="it has a fixed list of nine"),
        Patch(file="0002-drop-lineinfo.patch", why="it embeds absolute paths and time stamps"),
        Patch(file="0003-halve-the-stride-of-groups.patch", why="complex gradients are wrong"),
    ),
    # After the first four: what the package requires when it runs.
    requires=(
        *("ninja", "packaging", "setuptools", "wheel"),
        *("einops", "triton>=3.5.0", "transformers", "tilelang==0.1.8"),
        *("apache-tvm-ffi<=0.1.9", "quack-kernels>=0.3.4"),
    ),
    cxx_standard={"torch>=2.14": "20"},  # its headers; setup.py sets 17
    # Without FORCE_BUILD its setup.py tries to download a wheel instead of building one.
    build=TorchExtension(env={"MAMBA_FORCE_BUILD": "TRUE"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("mamba_ssm", "selective_scan_cuda")),
    upstream_tests=("tests",),
    memory_per_job=4 * GIB,
    max_wheel_size=400 * MIB,
)
