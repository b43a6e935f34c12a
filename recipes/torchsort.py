"""torchsort: differentiable sorting and ranking for PyTorch."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="torchsort",
    version="0.1.10",
    # torchsort and fast-soft-sort; scikit-learn's isotonic regression, of which both are made.
    license="Apache-2.0 AND BSD-3-Clause",
    homepage="https://github.com/teddykoker/torchsort",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="torchsort",
        sha256="416a7dd2ab88332b27e98318d7fb2e0243b9fb6f1fffcf77760d63103d70dd04",
    ),
    toolkits=("13.0", "13.2"),
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(Patch(file="0001-compare-the-index-first.patch", why="its gradients may crash"),),
    requires=("ninja", "setuptools>=61.0", "wheel"),
    # Its CUDA file has Python's assertions, with the paths of its headers.
    build=TorchExtension(env={"NVCC_PREPEND_FLAGS": "-DNDEBUG"}),
    link=Link("cudart", "torch"),
    # Without its CUDA library torchsort is imported too, and fails at the first call.
    smoke=Smoke(imports=("torchsort", "torchsort.isotonic_cuda"), script="torchsort.py"),
)
