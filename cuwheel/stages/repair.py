"""Repair: make the built wheel portable, and make it say what it needs."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.version import Version

from cuwheel import __version__
from cuwheel.artefacts import BuiltWheel, RepairedWheel, SourceTree, Toolchain
from cuwheel.components import component_by_name, requirement_for
from cuwheel.elf import Elf, ElfFormatError, is_elf, read_elf
from cuwheel.errors import RepairError
from cuwheel.files import list_tree, naming_full_disk, remove_tree, sha256_of_file
from cuwheel.linkage import (
    component_of,
    is_cuda_library,
    is_from_driver,
    relative_entry,
    resolve_entry,
)
from cuwheel.provenance import SBOM_NAME, Contents, Part, wheel_sbom
from cuwheel.recipe import Sdist
from cuwheel.repairtools import RepairTools
from cuwheel.wheelfile import pack, unpack
from cuwheel.wheelmeta import (
    change_version,
    dist_info_of,
    file_name,
    header,
    installed_path,
    project_of,
    require,
    set_tags,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.components import Component
    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_CANONICAL_TAG = re.compile(r"manylinux_\d+_\d+_\w+")  # PEP 600; the others are its aliases


@dataclass(frozen=True, kw_only=True)
class _Library:
    """An ELF file in the wheel: its name there, its place in site-packages, what it says."""

    name: str
    place: PurePosixPath | None
    elf: Elf


@dataclass(frozen=True, kw_only=True)
class _Links:
    """What the wheel's libraries take from elsewhere: soname → component, and from the driver."""

    external: dict[str, Component]
    driver: tuple[str, ...]


def repair(target: Target, space: Workspace) -> RepairedWheel:
    """Strip, set relative rpaths, let auditwheel graft and tag, rewrite the metadata, normalise.

    Raises:
        RepairError: the wheel holds no library, needs CUDA or framework libraries that the recipe
            doesn't declare, or auditwheel refuses it.
        UnsafeArchiveError: what the build made is not a wheel.
        DiskFullError: no space is left for the unpacked wheel.
    """
    built = space.load("build", BuiltWheel)
    epoch = space.load("patch", SourceTree).epoch
    remove_tree(space.work / "repaired")
    remove_tree(space.work / "repair")
    scratch = space.folder("repair")
    tools = RepairTools(
        owner=target.id,
        scratch=scratch,
        log=space.log("repair"),
        epoch=epoch,
        programs=space.load("toolchain", Toolchain).programs,
    )
    with naming_full_disk(scratch):
        content = _unpacked(built.path, scratch / "built")
        links = _find_links(target, _read_libraries(content))
        _warn_of_unused(target, space, links)
        _strip(tools, content)
        _set_rpaths(tools, content, links)
        set_tags(content, _plain_tags(target, content))
        plain = scratch / file_name(content)
        pack(content, plain, epoch=epoch)
        grafted = _graft(tools, plain, links)
        final = _unpacked(grafted, scratch / "final")
        _set_rpaths(tools, final, links)  # auditwheel drops entries that lead out of the wheel
        requires = _rewrite_metadata(target, final, links)
        _add_sbom(target, space, final, requires)
        path = space.folder("repaired") / file_name(final)
        pack(final, path, epoch=epoch)
    remove_tree(scratch)
    return RepairedWheel(
        path=path,
        sha256=sha256_of_file(path),
        size=path.stat().st_size,
        platform_tag=path.stem.rpartition("-")[2],
        external=tuple(sorted(links.external)),
        requires=requires,
        tools=tools.versions(),
    )


def _unpacked(wheel: Path, folder: Path) -> Path:
    folder.mkdir()
    unpack(wheel, folder)
    return folder


def _read_libraries(content: Path) -> tuple[_Library, ...]:
    """Every linked ELF file that runs on the host.

    Raises:
        RepairError: there is none.
    """
    found = tuple(_iter_libraries(content))
    if not found:
        raise RepairError(
            "the built wheel holds no compiled library",
            why="its build succeeded without compiling anything, as many do when they find no CUDA",
            fix="look in the build's log for why the extension was left out",
        )
    return found


def _iter_libraries(content: Path) -> Iterator[_Library]:
    for name in list_tree(content):
        with (content / name).open("rb") as stream:
            if not is_elf(stream):
                continue
            try:
                elf = read_elf(stream)
            except ElfFormatError as problem:
                raise RepairError(f"{name} in the built wheel is damaged: {problem}") from problem
        if elf.is_host_code:
            yield _Library(name=name.as_posix(), place=installed_path(name.as_posix()), elf=elf)


def _find_links(target: Target, libraries: tuple[_Library, ...]) -> _Links:
    """Match what the libraries need with what the recipe declares.

    Raises:
        RepairError: something is needed that isn't declared, or can't be supplied; all of it.
    """
    own = _own_names(libraries)
    declared = target.recipe.link.components
    external: dict[str, Component] = {}
    driver: set[str] = set()
    problems: list[str] = []
    missing: set[str] = set()
    for library in libraries:
        for soname in set(library.elf.needed) - own:
            component = component_of(soname, target.toolkit.major)
            if is_from_driver(soname):
                driver.add(soname)
            elif component and component.name in declared and library.place:
                external[soname] = component
            elif component and component.name in declared:
                problems.append(
                    f"{library.name} needs {soname}, and from its folder no rpath reaches it"
                )
            elif component:
                missing.add(component.name)
                problems.append(f"{library.name} needs {soname} (component {component.name})")
            elif is_cuda_library(soname):
                problems.append(f"{library.name} needs {soname}, which no component supplies")
    if problems:
        _refuse_links(target, sorted(problems), missing)
    return _Links(external=external, driver=tuple(sorted(driver)))


def _refuse_links(target: Target, problems: list[str], missing: set[str]) -> None:
    names = ", ".join(f'"{name}"' for name in (*target.recipe.link.components, *sorted(missing)))
    raise RepairError(
        f"{target.id}: the wheel needs libraries that its recipe doesn't declare",
        why="\n".join(problems),
        fix=f"write link=Link({names})"
        if missing
        else f"build against a library of CUDA {target.toolkit.major}, or add it to "
        "cuwheel/components.py",
    )


def _own_names(libraries: tuple[_Library, ...]) -> set[str]:
    """File names and sonames of the wheel's own libraries."""
    names = {PurePosixPath(library.name).name for library in libraries}
    return names | {library.elf.soname for library in libraries if library.elf.soname}


def _warn_of_unused(target: Target, space: Workspace, links: _Links) -> None:
    used = {component.name for component in links.external.values()}
    for name in target.recipe.link.components:
        if name not in used:
            space.console.warn(
                f'{target.id}: the recipe declares link "{name}" and no library of the wheel needs '
                f"{' or '.join(component_by_name(name, target.toolkit.major).sonames)}"
            )


def _strip(tools: RepairTools, content: Path) -> None:
    # Before patchelf, never after: stripping a patched file can break it (pypa/auditwheel#716).
    # Sections that get loaded, .nv_fatbin among them, stay.
    for library in _read_libraries(content):
        tools.strip(content / library.name)


def _set_rpaths(tools: RepairTools, content: Path, links: _Links) -> None:
    libraries = _read_libraries(content)
    folders = {library.place.parent for library in libraries if library.place}
    for library in libraries:
        if not library.elf.is_dynamic:
            continue
        entries = tuple(dict.fromkeys(_rpath_entries(library, libraries, folders, links)))
        # An RPATH becomes a RUNPATH: see docs/adr/0006.
        if entries != library.elf.runpath or library.elf.rpath:
            tools.set_rpath(content / library.name, entries)


def _rpath_entries(
    library: _Library,
    libraries: tuple[_Library, ...],
    folders: set[PurePosixPath],
    links: _Links,
) -> Iterator[str]:
    """Where a library finds what it needs, in the wheel and in other wheels, in a fixed order."""
    place = library.place
    if place is None:
        return
    for soname in library.elf.needed:
        for other in libraries:
            if other.place and soname in _own_names((other,)):
                yield relative_entry(place, other.place.parent)
    external = [links.external[soname] for soname in library.elf.needed if soname in links.external]
    supplied = {PurePosixPath(component.site_folder) for component in links.external.values()}
    for component in external:
        yield relative_entry(place, PurePosixPath(component.site_folder))
    # What upstream wrote stays where it leads somewhere: it may serve a dlopen.
    for entry in library.elf.search_path:
        if (folder := resolve_entry(place, entry)) in folders | supplied and folder is not None:
            yield relative_entry(place, folder)


def _plain_tags(target: Target, content: Path) -> list[str]:
    """The tags before auditwheel: of this machine; of every Python where the recipe says so."""
    text = (dist_info_of(content) / "WHEEL").read_text("utf-8")
    prefixes = dict.fromkeys(tag.rpartition("-")[0] for tag in header(text, "tag"))
    prefixes = {"py3-none": None} if target.recipe.python == "any" else prefixes
    return [f"{prefix}-linux_{platform.machine()}" for prefix in prefixes]


def _graft(tools: RepairTools, wheel: Path, links: _Links) -> Path:
    """Let auditwheel copy what isn't on every system and find the platform tag."""
    excludes = [f"--exclude={soname}" for soname in sorted({*links.external, *links.driver})]
    folder = wheel.parent / "grafted"
    tools.auditwheel("repair", "--plat=auto", *excludes, "-w", folder, wheel)
    return next(folder.glob("*.whl"))


def _rewrite_metadata(target: Target, content: Path, links: _Links) -> tuple[str, ...]:
    """Tags, version and requirements; gives back the requirements that supply the libraries."""
    dist_info = dist_info_of(content)
    tags = header((dist_info / "WHEEL").read_text("utf-8"), "tag")
    set_tags(content, [tag for tag in tags if _CANONICAL_TAG.fullmatch(tag.rpartition("-")[2])])
    upstream = Version(header((dist_info / "METADATA").read_text("utf-8"), "version")[0])
    change_version(content, f"{upstream.public}+{target.local_version}")
    requires = _requirements(target, links)
    require(content, requires)
    return requires


def _add_sbom(target: Target, space: Workspace, content: Path, requires: Iterable[str]) -> None:
    """Put a bill of materials where PEP 770 wants it."""
    dist_info = dist_info_of(content)
    metadata = (dist_info / "METADATA").read_text("utf-8")
    recipe, tree = target.recipe, space.load("patch", SourceTree)
    needed = [(project_of(text), text) for text in requires]
    contents = Contents(
        wheel=Part(
            name=recipe.name, version=header(metadata, "version")[0], license=recipe.license
        ),
        source=Part(
            name=recipe.source.project if isinstance(recipe.source, Sdist) else recipe.name,
            version=recipe.version,
            purl_type="pypi" if tree.pinned and isinstance(recipe.source, Sdist) else "generic",
            sha256=tree.sha256,
            license=recipe.license,
        ),
        contained=_grafted(content),
        required=tuple(Part(name=name, description=text) for name, text in needed),
        tools=(
            Part(name="cuwheel", version=__version__, purl_type="generic"),
            Part(
                name="nvcc", version=space.load("toolchain", Toolchain).version, purl_type="generic"
            ),
        ),
        epoch=tree.epoch,
    )
    folder = dist_info / "sboms"
    folder.mkdir(exist_ok=True)
    (folder / SBOM_NAME).write_bytes(wheel_sbom(contents))


def _grafted(content: Path) -> tuple[Part, ...]:
    """What auditwheel copied into the wheel: its folders end in `.libs`."""
    names = [name for name in list_tree(content) if name.parts[0].endswith(".libs")]
    return tuple(
        Part(name=name.name, purl_type="generic", sha256=sha256_of_file(content / name))
        for name in names
    )


def _requirements(target: Target, links: _Links) -> tuple[str, ...]:
    used = {component.name for component in links.external.values()}
    names = (name for name in target.recipe.link.components if name in used)
    components = (component_by_name(name, target.toolkit.major) for name in names)
    texts = (
        requirement_for(component, target.toolkit, target.framework_release)
        for component in components
    )
    return tuple(dict.fromkeys(texts))
