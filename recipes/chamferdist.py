"""chamferdist: the chamfer distance of point clouds for PyTorch."""

from cuwheel import Framework, Link, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="chamferdist",
    version="1.0.3",
    # chamferdist; PyTorch3D's nearest neighbours, which are compiled in.
    license="MIT AND BSD-3-Clause",
    homepage="https://github.com/krrish94/chamferdist",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="chamferdist",
        sha256="ac9d3a723329d230bcdd5ee8a01f13632ebae31b2ae221116579637ed57a4567",
    ),
    toolkits=("13.0", "13.2"),
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    requires=("ninja", "setuptools", "wheel"),
    cxx_standard={"torch>=2.14": "20"},  # its headers; setup.py sets 17
    # Without it setup.py looks for a GPU, and without one it compiles no CUDA code.
    build=TorchExtension(env={"FORCE_CUDA": "1"}),
    link=Link("cudart", "torch"),
    smoke=Smoke(imports=("chamferdist", "chamferdist._C"), script="chamferdist.py"),
)
