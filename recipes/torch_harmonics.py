"""torch-harmonics: spherical harmonics, convolution and attention on the sphere for PyTorch."""

from cuwheel import Framework, Link, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torch-harmonics",
    version="0.8.0",
    license="BSD-3-Clause",
    homepage="https://github.com/NVIDIA/torch-harmonics",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torch-harmonics",
        sha256="b44340184416283a3636640a9050c2187515d6bd9858fa0421b048b66465f773",
    ),
    toolkits=("13.0",),
    archs=("80", "90", "100", "120"),
    framework=Framework(name="torch", version="2.11.0"),
    requires=("ninja", "setuptools", "setuptools-scm", "wheel"),
    # Without it setup.py looks for a GPU, and without one it compiles no CUDA code.
    build=TorchExtension(env={"FORCE_CUDA_EXTENSION": "1"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(
        imports=(
            *("torch_harmonics", "disco_helpers"),
            *("disco_cuda_extension", "attention_cuda_extension"),
        ),
        requires=("numpy>=1.22.4",),
        script="torch_harmonics.py",
    ),
)
