"""torch-sparse: sparse matrices with gradients, and sampling of graphs, for PyTorch."""

from cuwheel import Framework, Link, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torch-sparse",
    version="0.6.18",
    # torch-sparse; parallel-hashmap, whose headers are compiled in.
    license="MIT AND Apache-2.0",
    homepage="https://github.com/rusty1s/pytorch_sparse",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torch-sparse",
        sha256="2f14c510a6e93f404c6ea357210615b3c15a71731f9dbd86f25434e34fb5a741",
    ),
    toolkits=("13.0", "13.2"),
    never_built=("13.2",),  # not tried yet
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    requires=("ninja", "setuptools", "wheel"),
    # The CUDA libraries hold the kernels for the CPU too, and are loaded in place of those for
    # the CPU alone.
    build=TorchExtension(env={"FORCE_ONLY_CUDA": "1"}),
    link=Link("cudart", "torch"),
    # Its Python code imports torch-scatter, of which the index has no wheel: the script loads the
    # libraries alone.
    smoke=Smoke(imports=("torch",), requires=("numpy", "scipy"), script="torch_sparse.py"),
)
