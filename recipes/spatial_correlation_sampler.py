"""spatial-correlation-sampler: the correlation layer of optical flow networks, for PyTorch."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="spatial-correlation-sampler",
    version="0.5.0",
    license="MIT",
    homepage="https://github.com/ClementPinard/Pytorch-Correlation-extension",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="spatial-correlation-sampler",
        sha256="872d720d3740f3caf0d15620af5180af8a1971568f9c7cda3664757262688d11",
    ),
    toolkits=("13.0", "13.2"),
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(Patch(file="0001-use-pytorchs-openmp.patch", why="it links a second libgomp"),),
    requires=("ninja", "setuptools", "wheel"),
    cxx_standard={"torch>=2.14": "20"},  # its headers; setup.py sets 17
    build=TorchExtension(),
    link=Link("cudart", "torch"),
    smoke=Smoke(
        imports=("spatial_correlation_sampler",),
        requires=("numpy",),
        script="spatial_correlation_sampler.py",
    ),
)
