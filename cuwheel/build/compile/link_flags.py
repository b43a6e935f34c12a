"""The flags with which a build links a recipe's components: folders, names, headers.

NVIDIA's wheels hold no symbolic links, so there is no `libcufft.so` for `-lcufft` to find. A linker
takes a file's whole name too (`-l:libcufft.so.12`; GNU ld's manual, option `-l`), which works with
any layout and pins the major release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cuwheel.base.errors import PreflightError
from cuwheel.build.recipe.link import Static
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment, Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.components import Component, component_by_name

# Parts of the C library that code in NVIDIA's archives needs ("CUDA Compiler Driver NVCC", section
# "Library Search and Static Linking": `-ldl -lrt -lpthread` with `-lcudart_static`).
_SYSTEM_LIBRARIES = ("-ldl", "-lrt", "-lpthread")
# Archives in NVIDIA's wheels: what the toolchain of cuda-toolkit 13.0.2 holds.
_IN_WHEELS = frozenset({"cudart_static", "cudadevrt", "nvptxcompiler_static"})
_PLACEHOLDERS = ("{link_flags}", "{link_includes}")


def cuda_components(target: Target) -> tuple[Component, ...]:
    """Return the recipe's components of CUDA; a framework's libraries are the framework's."""
    names = target.recipe.link.components
    components = (component_by_name(name, target.toolkit.major) for name in names)
    return tuple(component for component in components if component.cuda is not None)


def link_flags(
    target: Target, home: Path, site_packages: Path, driver_stub: Path
) -> tuple[str, ...]:
    """Return linker options for the recipe's components, in the target's mode.

    Args:
        site_packages: of the build environment, for libraries that are no part of a toolkit.
    """
    driver = (f"-L{driver_stub}", "-lcuda") if target.recipe.link.has_driver else ()
    if isinstance(target.mode, Static):
        archives = (name for component in cuda_components(target) for name in component.static)
        names = [f"-l{name}" for name in dict.fromkeys(archives)]
        return (f"-L{home / 'lib64'}", *names, *driver, *_SYSTEM_LIBRARIES)
    return (*_shared_flags(cuda_components(target), home, site_packages), *driver)


def include_flags(target: Target, home: Path, site_packages: Path) -> tuple[str, ...]:
    """Return `-I` for each folder with headers of the recipe's components."""
    folders = [home / "include"]
    folders += [
        site_packages.joinpath(component.site_folder).parent / "include"
        for component in cuda_components(target)
        if _folder_of(component, home, site_packages) != home / "lib64"
    ]
    return tuple(dict.fromkeys(f"-I{folder}" for folder in folders))


def check_linkable(job: Job) -> None:
    """Raise PreflightError where libraries of the link flags are missing, as far as is known yet.

    A recipe without these flags leaves it to the package to find the libraries.
    """
    target, workspace = job.target, job.workspace
    if isinstance(target.mode, Static):
        _check_archives(target, workspace)
        return
    if not (workspace.has("toolchain") and workspace.has("environment")):
        return
    texts = target.recipe.settings_for(target.toolkit.release).values()
    if not any(name in text for text in texts for name in _PLACEHOLDERS):
        return
    home = workspace.load("toolchain", Toolchain).home
    site_packages = workspace.load("environment", Environment).linked_packages
    missing = [
        component
        for component in cuda_components(target)
        if not (_folder_of(component, home, site_packages) / _file_of(component)).exists()
    ]
    if missing:
        wheels = dict.fromkeys(component.distribution for component in missing)
        raise PreflightError(
            f"{', '.join(map(_file_of, missing))} was not found",
            why=f"it is neither in {home / 'lib64'} nor in the build environment",
            fix=target.locked_build.way_to_add(*wheels),
        )


def _shared_flags(
    components: Iterable[Component], home: Path, site_packages: Path
) -> Iterator[str]:
    known: set[Path] = set()
    for component in components:
        folder = _folder_of(component, home, site_packages)
        if folder not in known:
            yield f"-L{folder}"
            known.add(folder)
        yield f"-l:{_file_of(component)}"


def _folder_of(component: Component, home: Path, site_packages: Path) -> Path:
    """Return the folder of a library, the toolchain's first: a wheel may be of another release."""
    own = home / "lib64"
    return own if (own / _file_of(component)).exists() else site_packages / component.site_folder


def _file_of(component: Component) -> str:
    """Return `libcudnn.so.9` for the pattern `libcudnn*.so.9`; a pattern's end can't be guessed."""
    stem, dot, version = component.sonames[0].partition(".so")
    return f"{stem.replace('*', '')}{dot}{version}"


def _check_archives(target: Target, workspace: Workspace) -> None:
    home = workspace.load("toolchain", Toolchain).home if workspace.has("toolchain") else None
    lacking = [
        component.name
        for component in cuda_components(target)
        if not component.static or not _has_archives(component, target.provider, home)
    ]
    if lacking:
        location = f"{home / 'lib64'}" if home else f"a toolchain of {target.provider}"
        raise PreflightError(
            f"{', '.join(lacking)} can't be linked statically",
            why=f"{location} has no static library of it; NVIDIA's wheels have one for the CUDA "
            "runtime only",
            fix="choose another mode (`link` in the recipe, --link), or a toolchain that has the "
            "static libraries (-- --toolchain redist or system)",
        )


def _has_archives(component: Component, provider: str, home: Path | None) -> bool:
    """Return True if a toolchain has them; before it exists, only NVIDIA's wheels are known."""
    if home is None:
        return provider not in {"pypi", "debian"} or _IN_WHEELS.issuperset(component.static)
    return all((home / "lib64" / f"lib{name}.a").exists() for name in component.static)
