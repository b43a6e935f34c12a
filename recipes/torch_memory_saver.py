"""torch-memory-saver: GPU memory of PyTorch's tensors given back and taken again, for SGLang."""

from cuwheel import Link, Patch, Recipe, Sdist, Setuptools, Smoke

RECIPE = Recipe(
    name="torch-memory-saver",
    version="0.0.10",
    license="MIT",
    homepage="https://github.com/fzyzcjy/torch_memory_saver",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torch-memory-saver",
        sha256="480fe8e35e5b8cb5005d816d21e5382a1dc970c47d405dd36d8c5a21844dc427",
    ),
    toolkits=("13.2",),
    archs=(),  # no device code: the driver maps memory, and unmaps it
    python="abi3",
    requires_python=">=3.11",  # of PyTorch 2.15
    patches=(
        Patch(file="0001-state-requirements-and-abi.patch", why="numpy, torch and abi3 in none"),
    ),
    requires=("setuptools", "wheel"),
    # Names the libraries, which are loaded by the CUDA release of PyTorch.
    build=Setuptools(env={"TMS_CUDA_MAJOR": "13", "TMS_PLATFORM": "cuda"}),
    link=Link("cudart", "driver"),
    smoke=Smoke(
        imports=("torch_memory_saver",),
        requires=("numpy", "torch==2.15.0"),
        script="torch_memory_saver.py",
    ),
)
