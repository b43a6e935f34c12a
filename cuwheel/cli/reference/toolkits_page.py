"""docs/reference/toolkits.md: CUDA releases, libraries to link, conda toolchains."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from cuwheel.binaries.archs import DeviceCode, runs_on, sort_archs
from cuwheel.cli.reference.pages import MARK, code, page, read_docstring, table
from cuwheel.conda.lock_file import read_conda_lock
from cuwheel.cuda import components, toolkits
from cuwheel.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


_ARCHS_INTRO = """\
Valid values for `archs` of a recipe and for `--arch`: all that the toolkit's own nvcc accepts. GPUs
are named by their compute capability.

- A plain arch (`90`): its machine code runs on GPUs of the same major release with the same or a
  newer minor release, its PTX on all newer ones too.
- An architecture-specific one (`90a`) has instructions that no other GPU has: its machine code and
  its PTX run only on that one. Hopper's and Blackwell's fastest kernels need it.
- A family-specific one (`100f`) has those that a family of GPUs shares, which is the rest of its
  major release.

`ptx="last"` embeds the PTX of the last plain arch. Machine code for Jetson's GPUs (`53`, `62`,
`72`, `87`, `101`, `110`) and that for the others don't run on each other, whatever the table says
("CUDA C++ Programming Guide", section "Binary Compatibility")."""
_ARCH_COLUMNS = ("arch", "compiled by CUDA", "machine code runs on", "PTX runs on")
_COMPONENTS_INTRO = """\
Valid names for `link` of a recipe. Unless the recipe's `mode` says otherwise, a wheel contains none
of them: it requires the wheel that supplies them, and finds them there by a relative rpath. In
addition there is `driver`, for the libraries of the machine's NVIDIA driver, which no wheel has.
[how-to/link-to-nvidia-wheels.md](../how-to/link-to-nvidia-wheels.md) shows how."""
_SUPPLIERS_INTRO = """\
Which wheel on the package index supplies them, what our wheel requires for it, and where recipe
authors find the same elsewhere. `read from` names the releases whose files and metadata the rows
were read from; tests/e2e/test_component_facts.py reads them again. conda-forge's names are those of
its index; none of its packages could be opened here. The static libraries are those of a complete
toolkit; of NVIDIA's wheels only `nvidia-cuda-runtime` has one that a recipe can link,
`cudart_static`."""
_LOST_INTRO = """\
NVIDIA's libraries find each other by their own rpath. These don't, in the wheels' layout, in the
releases listed: something else has to load the other library first, as `import torch` does with
most (`cuwheel/cuda/frameworks.py` says which)."""
_LIBRARY_COLUMNS = ("component", "CUDA", "sonames", "needs", "opens", "may open")
_SUPPLIER_COLUMNS = (
    *("wheel", "components", "requirement", "folder", "brings", "conda-forge", "archives"),
    "read from",
)
_LOST_COLUMNS = ("component", "CUDA", "doesn't reach", "in releases")
_CONDA_INTRO = """\
What the provider `conda` installs, from `envs/cuda<tag>/conda-lock.yml`;
More in [how-to/toolchains.md](../how-to/toolchains.md)."""
_CONDA_COLUMNS = ("toolkit", "nvcc", "GCC", "sysroot", "packages", "download", "files")


def toolkits_page() -> str:
    """The page."""
    conda_locks = sorted((ROOT / "envs").glob("cuda*/conda-lock.yml"))
    return page(
        [
            "# CUDA releases and components",
            MARK.format(source="cuwheel/cuda/toolkits.py, nvidia_wheels.py and the conda locks"),
            "## Releases",
            "Valid values for `toolkits` of a recipe.",
            _releases_table(),
            "## Archs",
            _ARCHS_INTRO,
            table(_ARCH_COLUMNS, [_arch_row(arch) for arch in _known_archs()]),
            "## Components",
            *_component_parts(),
            "## Conda toolchains",
            _CONDA_INTRO,
            table(_CONDA_COLUMNS, [_conda_row(lock) for lock in conda_locks]),
        ]
    )


def _releases_table() -> str:
    """A row for each toolkit, above it what each column means; archs have a table of their own."""
    columns = [name for name in read_docstring(toolkits.Toolkit).entries if name != "archs"]
    rows = [[_cell(getattr(one, name)) for name in columns] for one in toolkits.TOOLKITS]
    return f"{_meanings(toolkits.Toolkit)}\n\n{table(columns, rows)}"


def _known_archs() -> tuple[str, ...]:
    return sort_archs(arch for one in toolkits.TOOLKITS for arch in one.archs)


def _arch_row(arch: str) -> list[str]:
    compiling = tuple(one.release for one in toolkits.TOOLKITS if arch in one.archs)
    gpus = tuple(other for other in _known_archs() if other.isdigit())
    sass = tuple(gpu for gpu in gpus if runs_on(DeviceCode(sass=(arch,)), gpu))
    ptx = f"{code(arch)} and all newer" if arch.isdigit() else _cell(sass)
    return [code(arch), _cell(compiling), _cell(sass), ptx]


def _component_parts() -> Iterator[str]:
    """What the libraries are, who supplies them, and which of them don't find each other."""
    rows = components.COMPONENTS
    yield _COMPONENTS_INTRO
    yield _meanings(components.Component)
    fields = [(one.name, one.cuda, one.sonames, one.needs, one.opens, one.may_open) for one in rows]
    yield table(_LIBRARY_COLUMNS, [list(map(_cell, row)) for row in fields])
    yield "### Suppliers"
    yield _SUPPLIERS_INTRO
    groups = itertools.groupby(rows, key=lambda one: (one.cuda, one.distribution))
    yield table(_SUPPLIER_COLUMNS, [_supplier_row(list(group)) for _, group in groups])
    yield "### Libraries that don't find each other"
    yield _LOST_INTRO
    yield table(_LOST_COLUMNS, [row for one in rows for row in _lost_rows(one)])


def _supplier_row(group: Sequence[components.Component]) -> list[str]:
    """A row of a wheel; its components have all but names and archives in common."""
    first = group[0]
    fields = (
        first.distribution,
        tuple(one.name for one in group),
        first.requirement.removeprefix(first.distribution),
        first.site_folder,
        first.brings,
        first.conda,
        tuple(dict.fromkeys(name for one in group for name in one.static)),
    )
    return [*(_cell(field) for field in fields), first.source.partition(" ")[2]]


def _lost_rows(one: components.Component) -> Iterator[list[str]]:
    for soname, releases in one.lost:
        wheel = code(one.distribution)
        where = f"{wheel} {code(releases)}" if releases else f"every {wheel} that was read"
        yield [code(one.name), _cell(one.cuda), code(soname), where]


def _conda_row(path: Path) -> list[str]:
    lock = read_conda_lock(path)
    versions = {package.name: package.version for package in lock.packages}
    tag = path.parent.name.removeprefix("cuda")
    return [
        toolkits.toolkit_by_release(tag).release,
        versions["cuda-nvcc"],
        versions["gcc_linux-64"],
        f"glibc {versions['sysroot_linux-64']}",
        str(len(lock.packages)),
        f"{lock.download_size >> 20} MiB",
        lock.files,
    ]


def _meanings(kind: type) -> str:
    columns = read_docstring(kind).entries
    return "\n".join(f"- {code(name)}: {text}" for name, text in columns.items())


def _cell(value: str | int | tuple[str | tuple[str, str], ...] | None) -> str:
    """What a field holds; a pair is two words, nothing is an empty cell."""
    if isinstance(value, tuple):
        return " ".join(code(one if isinstance(one, str) else " ".join(one)) for one in value)
    return code(str(value)) if value not in {"", None} else ""
