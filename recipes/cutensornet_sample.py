"""cutensornet-sample: tensor networks with cuTensorNet, an example of linking to its wheel."""

from cuwheel import MIB, Folder, Link, Recipe, Setuptools, Smoke

RECIPE = Recipe(
    name="cutensornet-sample",
    version="0.1.0",
    license="Apache-2.0",
    # Of the library that it shows: the sample itself has no page but docs/how-to.
    homepage="https://docs.nvidia.com/cuda/cuquantum/latest/cutensornet/",
    maintainers=("cuwheel-maintainers",),
    source=Folder(path="samples/cutensornet"),
    toolkits=("12.4", "12.8", "13.0"),
    never_built=("12.8",),  # conda-forge's files were out of reach
    archs=(),  # no device code: the host compiler is all that it needs
    python="abi3",  # the stable ABI of 3.10, as its setup.py says
    # cuTensorNet: header and library to link; no part of the toolkit.
    requires=("cutensornet-cu{cuda}==2.14.0", "setuptools>=77.0.3"),
    build=Setuptools(
        env={"CUDA_INCLUDE_FLAGS": "{link_includes}", "CUDA_LINK_FLAGS": "{link_flags}"}
    ),
    # What the code calls. What cuTensorNet needs in turn, its own rpath finds.
    link=Link("cudart", "cusolver", "cutensornet"),
    # cuTensorNet plans a contraction without a GPU: 4 x 8 x 16 multiplications and as many sums.
    smoke=Smoke(
        imports=("cutensornet_sample",),
        requires=("cutensornet-cu{cuda}", "numpy"),
        call="cutensornet_sample.count_flops('ab,bc->ac', (4, 8), (8, 16))",
        expect="1024.0",
    ),
    max_wheel_size=1 * MIB,
)
