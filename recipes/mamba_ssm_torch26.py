"""mamba-ssm 2.2.6.post3, the last that works with PyTorch 2.6 and its Triton 3.2."""

from cuwheel import GIB, MIB, Framework, Link, Patch, Recipe, Sdist, Smoke, TorchExtension

RECIPE = Recipe(
    name="mamba-ssm-torch26",
    version="2.2.6.post3",
    license="Apache-2.0",
    homepage="https://github.com/state-spaces/mamba",
    maintainers=("cuwheel-maintainers",),
    held_back="for code that needs PyTorch 2.6; mamba-ssm is the recipe that follows upstream",
    source=Sdist(
        project="mamba-ssm",
        sha256="826a3cdb651959f191dac64502f8a29627d9116fe6bb7c57e4f562da1aea7bf3",
    ),
    toolkits=("12.4",),
    archs=("80", "90"),
    framework=Framework(name="torch", version="2.6.0"),
    wheel_name="mamba-ssm",
    patches=(
        Patch(file="0001-take-archs-from-the-target.patch", why="it has a fixed list of eight"),
        Patch(file="0002-drop-lineinfo.patch", why="it embeds absolute paths and time stamps"),
        Patch(file="0003-require-transformers-below-5.patch", why="it can't be imported with 5"),
        Patch(file="0004-halve-the-stride-of-groups.patch", why="complex gradients are wrong"),
    ),
    # After the first four: what the package requires when it runs.
    requires=("ninja", "packaging", "setuptools", "wheel", "einops", "transformers<5"),
    # Without FORCE_BUILD its setup.py tries to download a wheel instead of building one.
    build=TorchExtension(env={"MAMBA_FORCE_BUILD": "TRUE"}),
    link=Link("cudart", "torch"),
    # Without a GPU, `import mamba_ssm` fails in Triton 3.2: its autotuner begins with the driver.
    smoke=Smoke(imports=("selective_scan_cuda",)),
    memory_per_job=4 * GIB,
    max_wheel_size=400 * MIB,
)
