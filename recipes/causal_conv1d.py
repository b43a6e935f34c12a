"""causal-conv1d: causal depthwise 1-D convolution for PyTorch, the kernel under Mamba."""

from cuwheel import MIB, Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="causal-conv1d",
    version="1.6.1",
    license="BSD-3-Clause",
    homepage="https://github.com/Dao-AILab/causal-conv1d",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="causal-conv1d",
        sha256="e4a697ec2db3906f012e675125569f8b510b4559bc53e3095143d91369e1221b",
    ),
    toolkits=("12.4", "13.0", "13.2"),
    # Machine code of one arch runs on every GPU of the same major capability and a higher minor
    # one: 80 serves 86 and 89 too, 100 serves 103, 120 serves 121 (CUDA C++ Programming Guide,
    # "Binary Compatibility").
    archs={
        "12.4": ("80", "90"),
        "13.0": ("80", "90", "100", "120"),
        "13.2": ("80", "90", "100", "120"),
    },
    # The release that PyTorch built with each; `--framework torch==2.13.0` is for 13.0 too.
    framework={
        "12.4": Framework(name="torch", version="2.6.0"),
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(
        Patch(file="0001-take-archs-from-the-target.patch", why="it has a fixed list of nine"),
        Patch(file="0002-drop-lineinfo.patch", why="it embeds absolute paths and time stamps"),
    ),
    requires=("ninja", "packaging", "setuptools", "wheel"),
    # Without FORCE_BUILD its setup.py tries to download a wheel instead of building one.
    build=TorchExtension(env={"CAUSAL_CONV1D_FORCE_BUILD": "TRUE"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("causal_conv1d", "causal_conv1d_cuda")),
    upstream_tests=("tests/test_causal_conv1d.py",),
    max_wheel_size=60 * MIB,
)
