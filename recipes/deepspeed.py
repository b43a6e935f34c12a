"""deepspeed: training of large models, with its fused optimizers for GPUs."""

from cuwheel import Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="deepspeed",
    version="0.19.8",
    license="Apache-2.0 AND BSD-3-Clause",  # DeepSpeed; NVIDIA's apex, in the optimizers
    homepage="https://deepspeed.ai",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="deepspeed",
        sha256="9e491abd0827ea5c389dd702e15e11e13d83d904bac4a20d6c2a4cb37207a9af",
    ),
    toolkits=("13.0", "13.2"),
    never_built=("13.2",),  # not tried yet
    archs=("80", "90", "100", "120"),
    framework={
        "13.0": Framework(name="torch", version="2.11.0"),
        "13.2": Framework(name="torch", version="2.15.0"),
    },
    patches=(Patch(file="0001-drop-lineinfo.patch", why="it stores the build's paths and times"),),
    requires=("ninja", "setuptools", "wheel"),
    build=TorchExtension(  # what isn't compiled here is compiled when it is used
        env={
            "DS_ACCELERATOR": "cuda",  # else it looks for a GPU
            "DS_ENABLE_NINJA": "1",
            "DS_BUILD_FUSED_ADAM": "1",
            "DS_BUILD_FUSED_LAMB": "1",
            "DS_BUILD_FUSED_LION": "1",
        }
    ),
    link=Link("cudart", "torch"),
    smoke=Smoke(
        imports=("deepspeed",),
        requires=(
            *("einops", "hjson", "msgpack", "ninja", "numpy", "nvidia-ml-py", "packaging>=20.0"),
            *("psutil", "py-cpuinfo", "pydantic>=2.0.0", "tqdm"),
        ),
        script="deepspeed.py",
    ),
)
