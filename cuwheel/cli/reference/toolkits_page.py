"""docs/reference/toolkits.md: CUDA releases, libraries to link, locked toolchains."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cuwheel.base.formats.binaries.archs import JETSON_ARCHS, DeviceCode, runs_on, sort_archs
from cuwheel.base.paths import ROOT
from cuwheel.build.toolchains.conda.lock_file import read_conda_lock
from cuwheel.build.toolchains.redist.lock_file import PLATFORMS, read_redist_lock
from cuwheel.check.cuda import components, toolkits
from cuwheel.cli.reference.pages import MARK, code, page, read_docstring, table

_OLD, _NEW = ("`, `".join(archs) for archs in (JETSON_ARCHS[:2], JETSON_ARCHS[2:]))  # two lines
_ARCHS_INTRO = f"""\
Valid values for `archs` of a recipe and for `--arch`: all that the toolkit's own nvcc accepts. GPUs
are named by their compute capability.

- A plain arch (`90`): its machine code runs on GPUs of the same major release with the same or a
  newer minor release, its PTX on all newer ones too.
- An architecture-specific one (`90a`) has instructions that no other GPU has: its machine code and
  its PTX run only on that one. Hopper's and Blackwell's fastest kernels need it.
- A family-specific one (`100f`) has those that a family of GPUs shares, which is the rest of its
  major release. Its PTX runs where its machine code does.

`ptx="last"` embeds the PTX of the last plain arch. Machine code for Jetson's GPUs (`{_OLD}`,
`{_NEW}`) and that for the others don't run on each other, whatever the table says
("CUDA C++ Programming Guide", section "Binary Compatibility")."""
_COLUMNS = ("release", "nvcc", "max_gcc", "min_driver", "provider", "libraries")
_ARCH_COLUMNS = ("arch", "compiled by CUDA", "machine code runs on")
_COMPONENTS_INTRO = """\
Valid names for `link` of a recipe. Unless the recipe's `mode` says otherwise, a wheel contains none
of them: it requires the wheel that supplies them, and finds them there by a relative rpath. In
addition there is `driver`, for the libraries of the machine's NVIDIA driver, which no wheel has.
[how-to/link-to-nvidia-wheels.md](../how-to/link-to-nvidia-wheels.md) shows how. In the tables
`{cuda}` is CUDA's major release."""
_SUPPLIERS_INTRO = """\
Which wheel on the package index supplies them, what our wheel requires for it, and the package of
conda-forge's index with the same. `cuwheel/check/cuda/nvidia_wheels.py` names the releases that the
rows were read from; tests/e2e/tables/test_components.py reads them again."""
_LOST_INTRO = """\
NVIDIA's libraries find each other by their own rpath. These don't, in the wheels' layout, in the
releases listed: something else has to load the other library first, as `import torch` does with
most (`cuwheel/check/cuda/frameworks.py` says which)."""
_LIBRARY_COLUMNS = ("component", "CUDA", "sonames", "needs", "opens", "may open")
_SUPPLIER_COLUMNS = (*("wheel", "components", "requirement", "folder", "brings", "conda-forge"),)
_LOST_COLUMNS = ("component", "CUDA", "doesn't reach", "in releases")
_CONDA_INTRO = """\
What the provider `conda` installs, from `envs/cuda<tag>/conda-lock.yml`;
More in [how-to/toolchains.md](../how-to/toolchains.md)."""
_CONDA_COLUMNS = ("toolkit", "nvcc", "GCC", "sysroot", "packages", "download", "fetched")

_REDIST_INTRO = "What the provider `redist` installs, from `envs/cuda<tag>/redist.lock`."
_REDIST_COLUMNS = ("toolkit", "nvcc", "archives", *PLATFORMS.values(), "fetched")


def toolkits_page() -> str:
    """Return the page."""
    conda_locks = sorted((ROOT / "envs").glob("cuda*/conda-lock.yml"))
    redist_locks = sorted((ROOT / "envs").glob("cuda*/redist.lock"))
    return page(
        [
            "# CUDA releases and components",
            MARK.format(source="cuwheel/check/cuda/toolkits.py, nvidia_wheels.py and the locks"),
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
            "## Toolchains of NVIDIA's archives",
            _REDIST_INTRO,
            table(_REDIST_COLUMNS, [_redist_row(lock) for lock in redist_locks]),
        ]
    )


def _releases_table() -> str:
    """Return a row for each toolkit below the columns' meanings."""
    rows = [[_cell(getattr(toolkit, name)) for name in _COLUMNS] for toolkit in toolkits.TOOLKITS]
    return f"{_meanings(toolkits.Toolkit, _COLUMNS)}\n\n{table(_COLUMNS, rows)}"


def _known_archs() -> tuple[str, ...]:
    return sort_archs(arch for toolkit in toolkits.TOOLKITS for arch in toolkit.archs)


def _arch_row(arch: str) -> list[str]:
    compiling = [toolkit.release for toolkit in toolkits.TOOLKITS if arch in toolkit.archs]
    releases = " to ".join(map(code, dict.fromkeys((compiling[0], compiling[-1]))))
    gpus = tuple(other for other in _known_archs() if other.isdigit())
    sass = tuple(gpu for gpu in gpus if runs_on(DeviceCode(sass=(arch,)), gpu))
    return [code(arch), releases, _cell(sass)]


def _component_parts() -> Iterator[str]:
    """Yield the libraries, their suppliers, and those that don't find each other."""
    rows = components.COMPONENTS
    yield _COMPONENTS_INTRO
    yield _meanings(components.Component)
    libraries = [
        (row.cuda, [code(row.name), *map(_cell, (row.sonames, row.needs, row.opens, row.may_open))])
        for row in rows
    ]
    yield table(_LIBRARY_COLUMNS, _with_majors(libraries))
    yield "### Suppliers"
    yield _SUPPLIERS_INTRO
    groups = itertools.groupby(rows, key=lambda row: (row.cuda, row.distribution))
    suppliers = [(key[0], _supplier_row(list(group))) for key, group in groups]
    yield table(_SUPPLIER_COLUMNS, [cells for _, cells in _joined(suppliers)])
    yield "### Libraries that don't find each other"
    yield _LOST_INTRO
    lost = [
        (row.cuda, [code(row.name), _cell(tuple(sonames)), code(releases or "all read")])
        for row in rows
        for releases, sonames in _by_release(row.lost).items()
    ]
    yield table(_LOST_COLUMNS, _with_majors(lost))


_Row = tuple[int | None, list[str]]  # the major release of CUDA, and the cells


def _joined(rows: Iterable[_Row]) -> list[tuple[str, list[str]]]:
    """Return rows that differ only in CUDA's major release as one, with `{cuda}` in its place."""
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for cuda, cells in rows:
        own = [re.sub(rf"(?<=\.so\.){cuda}\b|(?<=cu){cuda}\b", "{cuda}", cell) for cell in cells]
        groups.setdefault(tuple(own), []).append((cuda, cells))
    return [
        (" ".join(_cell(cuda) for cuda, _ in group), list(own) if group[1:] else group[0][1])
        for own, group in groups.items()
    ]


def _with_majors(rows: Iterable[_Row]) -> list[list[str]]:
    """Return joined rows with CUDA's major releases as their second cell."""
    return [[cells[0], majors, *cells[1:]] for majors, cells in _joined(rows)]


def _by_release(lost: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the sonames for each releases of a wheel."""
    groups: dict[str, list[str]] = {}
    for soname, releases in lost:
        groups.setdefault(releases, []).append(soname)
    return groups


def _supplier_row(group: Sequence[components.Component]) -> list[str]:
    """Return a wheel's row; its components have all of it but their names in common."""
    first = group[0]
    fields = (
        first.distribution,
        tuple(difference.name for difference in group),
        first.requirement.removeprefix(first.distribution),
        first.site_folder,
        first.brings,
        first.conda,
    )
    return [_cell(field) for field in fields]


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
        _fetched(lock.files),
    ]


def _redist_row(path: Path) -> list[str]:
    lock = read_redist_lock(path)
    parts = [lock.for_machine(machine) for machine in PLATFORMS]
    sizes = [[archive.size for archive in archives] for archives in parts]
    versions = {archive.name: archive.version for archive in lock.archives}
    return [
        toolkits.toolkit_by_release(path.parent.name.removeprefix("cuda")).release,
        versions["cuda_nvcc"],
        str(len(versions)),
        *(f"{sum(known) >> 20} MiB" if all(known) else "?" for known in sizes),
        _fetched(lock.files),
    ]


def _fetched(files: str) -> str:
    return "no" if files.startswith("not ") else files


def _meanings(kind: type, chosen: Sequence[str] = ()) -> str:
    """Return the meanings of some fields; of all without a choice."""
    columns = read_docstring(kind).entries
    return "\n".join(f"- {code(name)}: {columns[name]}" for name in chosen or columns)


def _cell(value: str | int | tuple[str | tuple[str, str], ...] | None) -> str:
    """Return a field's text; a pair is two words joined by `=`."""
    if isinstance(value, tuple):
        return " ".join(code(item if isinstance(item, str) else "=".join(item)) for item in value)
    return code(str(value)) if value not in {"", None} else ""
