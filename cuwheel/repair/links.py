"""What the libraries of an unpacked wheel link, matched with what its recipe declares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.binaries.elf import Elf, ElfFormatError, is_elf, read_elf
from cuwheel.cuda.components import component_by_name
from cuwheel.cuda.suppliers import (
    component_of,
    is_cuda_library,
    is_from_driver,
    relative_entry,
    resolve_entry,
)
from cuwheel.errors import RepairError
from cuwheel.model.link import DRIVER, Bundled, External, Static, mode_name
from cuwheel.system.files import list_tree
from cuwheel.wheel.metadata import installed_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.cuda.components import Component
    from cuwheel.model.link import Link
    from cuwheel.model.target import Target


@dataclass(frozen=True, kw_only=True)
class PlacedLibrary:
    """An ELF file in an unpacked wheel.

    Attributes:
        name: relative to the wheel's root.
        path: where it will be below site-packages; None when it goes elsewhere.
        elf: what it says.
    """

    name: str
    path: PurePosixPath | None
    elf: Elf

    @property
    def names(self) -> set[str]:
        """The names by which others may need it: its file name and its soname."""
        return {PurePosixPath(self.name).name, self.elf.soname} - {""}


@dataclass(frozen=True, kw_only=True)
class Links:
    """What the wheel's libraries take from elsewhere.

    Attributes:
        external: soname and who supplies it, in another wheel.
        bundled: soname and component of what has to be copied in.
        driver: sonames that the GPU's driver brings.
    """

    external: dict[str, Component]
    bundled: dict[str, Component]
    driver: tuple[str, ...]

    @property
    def used(self) -> set[str]:
        """Names of all components that some library needs."""
        return {one.name for one in (*self.external.values(), *self.bundled.values())}


def read_libraries(content: Path) -> tuple[PlacedLibrary, ...]:
    """Every linked ELF file of an unpacked wheel that runs on the host.

    Raises:
        RepairError: there is none, or one is damaged.
    """
    found = tuple(_iter_libraries(content))
    if not found:
        raise RepairError(
            "the built wheel contains no compiled library",
            why="its build succeeded without compiling anything, as many packages do when they "
            "find no CUDA",
            fix="look in the build's log for the reason why the extension was skipped",
        )
    return found


def find_links(target: Target, libraries: tuple[PlacedLibrary, ...]) -> Links:
    """Match what the libraries need with what the recipe declares.

    Raises:
        RepairError: something is needed that isn't declared, can't be supplied, or doesn't go with
            the mode; all of it.
    """
    own = {name for library in libraries for name in library.names}
    declared = target.recipe.link.components
    external: dict[str, Component] = {}
    bundled: dict[str, Component] = {}
    driver: set[str] = set()
    problems = [*_copies_of_driver(libraries)]
    if problems:
        raise RepairError(
            f"{target.id}: the wheel contains a library of NVIDIA's driver, or a stub of it",
            why="\n".join(problems),
            fix="keep the package's build from copying what it links: the library comes with the "
            "driver of each machine, and a copy would be of another release",
        )
    of_mode: list[str] = []
    missing: set[str] = set()
    for library, soname in _needs(libraries, own):
        component = component_of(soname, target.toolkit.major)
        if is_from_driver(soname):
            driver.add(soname)
            if not target.recipe.link.has_driver:
                missing.add(DRIVER)
                problems.append(f"{library.name} needs {soname} (of the GPU's driver)")
        elif component and component.name not in declared:
            missing.add(component.name)
            problems.append(f"{library.name} needs {soname} (component {component.name})")
        elif component:
            faults = _faults_of_mode(target, library, soname, component)
            problems += faults
            of_mode += faults
            is_copied = isinstance(target.mode, Bundled) and component.cuda is not None
            (bundled if is_copied else external)[soname] = component
        elif is_cuda_library(soname):
            problems.append(f"{library.name} needs {soname}, which no component supplies")
    if problems:
        is_of_mode = bool(of_mode) and not isinstance(target.mode, External)
        _refuse(target, sorted(problems), missing, is_of_mode=is_of_mode)
    return Links(external=external, bundled=bundled, driver=tuple(sorted(driver)))


def rpath_entries(
    library: PlacedLibrary, libraries: tuple[PlacedLibrary, ...], links: Links
) -> tuple[str, ...]:
    """Where a library finds what it needs, in the wheel and in other wheels, in a fixed order."""
    return tuple(dict.fromkeys(_iter_entries(library, libraries, links)))


def unused_components(target: Target, links: Links) -> tuple[Component, ...]:
    """Declared components that no library of the wheel needs; none where all is linked in."""
    if isinstance(target.mode, Static):
        return ()
    names = (name for name in target.recipe.link.components if name not in links.used)
    return tuple(component_by_name(name, target.toolkit.major) for name in names)


def _iter_libraries(content: Path) -> Iterator[PlacedLibrary]:
    for name in list_tree(content):
        with (content / name).open("rb") as stream:
            if not is_elf(stream):
                continue
            try:
                elf = read_elf(stream)
            except ElfFormatError as problem:
                raise RepairError(f"{name} in the built wheel is damaged: {problem}") from problem
        if elf.is_host_code:
            path = installed_path(name.as_posix())
            yield PlacedLibrary(name=name.as_posix(), path=path, elf=elf)


def _copies_of_driver(libraries: tuple[PlacedLibrary, ...]) -> Iterator[str]:
    """By its soname too: a stub's file may have any name."""
    for library in libraries:
        if found := next(filter(is_from_driver, sorted(library.names)), ""):
            yield f"{library.name} is named {found}"


def _needs(
    libraries: tuple[PlacedLibrary, ...], own: set[str]
) -> Iterator[tuple[PlacedLibrary, str]]:
    for library in libraries:
        for soname in sorted(set(library.elf.needed) - own):
            yield library, soname


def _faults_of_mode(
    target: Target, library: PlacedLibrary, soname: str, component: Component
) -> list[str]:
    """Why a library can't have what it needs in the way that the mode requires."""
    is_cuda = component.cuda is not None
    if library.path is None and (not is_cuda or isinstance(target.mode, External)):
        return [f"{library.name} needs {soname}, and no relative rpath from its folder leads to it"]
    if is_cuda and isinstance(target.mode, Static):
        return [f"{library.name} needs {soname}, which its build should have linked statically"]
    opened = _opened_by(component, target.toolkit.major)
    if is_cuda and isinstance(target.mode, Bundled) and opened:
        why = f"which loads {', '.join(opened)} by name: a copy would not be found"
        return [f"{library.name} needs {soname}, {why}"]
    return []


def _opened_by(component: Component, cuda: int) -> tuple[str, ...]:
    """What a component, or one that it needs in turn, loads by name."""
    queue, opened = [component], list[str]()
    for one in queue:
        opened += one.opens
        needed = (component_of(soname, cuda) for soname in one.needs)
        queue += [other for other in needed if other and other not in queue]
    return tuple(dict.fromkeys(opened))


def _refuse(target: Target, problems: list[str], missing: set[str], *, is_of_mode: bool) -> None:
    if missing:
        what, fix = "that its recipe doesn't declare", say_link(target.recipe.link, missing)
    elif is_of_mode:
        name = mode_name(target.mode)
        what = "that can't be supplied"
        fix = f"this package can't be linked in mode `{name}`: use another mode (`link`, --link)"
    else:
        what = "that can't be supplied"
        fix = (
            f"build against a library of CUDA {target.toolkit.major}, or add it to "
            "cuwheel/cuda/nvidia_wheels.py"
        )
    raise RepairError(
        f"{target.id}: the wheel needs libraries {what}", why="\n".join(problems), fix=fix
    )


def say_link(link: Link, names: Iterable[str] = (), bundles: Iterable[str] = ()) -> str:
    """What to write in a recipe so that its `link` has more; a mode that it names stays as it is.

    Args:
        link: as the recipe has it.
        names: that are missing.
        bundles: that are missing.
    """
    known = [f'"{name}"' for name in (*link.names, *sorted(names))]
    copied = [f'"{name}"' for name in dict.fromkeys((*link.bundles, *sorted(bundles)))]
    field = f"bundles=({', '.join(copied)},)" if copied else ""
    if link.mode == External():
        return f"write link=Link({', '.join([*known, *([field] if field else [])])})"
    added = ", ".join(known[len(link.names) :])
    return f"write {field} into `link`" if bundles else f"add {added} to `link`"


def _iter_entries(
    library: PlacedLibrary, libraries: tuple[PlacedLibrary, ...], links: Links
) -> Iterator[str]:
    path = library.path
    if path is None:
        return
    for soname in library.elf.needed:
        for other in libraries:
            if other.path and soname in other.names:
                yield relative_entry(path, other.path.parent)
    external = [links.external[soname] for soname in library.elf.needed if soname in links.external]
    for component in external:
        yield relative_entry(path, PurePosixPath(component.site_folder))
    # What upstream wrote stays where it leads somewhere: it may serve a dlopen.
    folders = {other.path.parent for other in libraries if other.path}
    folders |= {PurePosixPath(component.site_folder) for component in links.external.values()}
    for entry in library.elf.search_path:
        if (folder := resolve_entry(path, entry)) in folders and folder is not None:
            yield relative_entry(path, folder)
