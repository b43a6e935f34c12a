"""The links of an unpacked wheel's libraries, matched with its recipe's `link`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cuwheel.base.errors import AuditError
from cuwheel.base.formats.binaries.elf import Elf, ElfFormatError, is_elf, read_elf
from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.base.system.files import list_tree
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.recipe.link import DRIVER, Bundled, External, Link, Static, mode_name
from cuwheel.build.recipe.target import Target
from cuwheel.check.cuda.components import Component, component_by_name
from cuwheel.check.cuda.suppliers import component_of, is_cuda_library, is_from_driver
from cuwheel.check.linkage.loader_graph import LoaderGraph
from cuwheel.check.linkage.search_path import relative_entry


@dataclass(frozen=True, kw_only=True)
class Links:
    """The libraries that the wheel's libraries need from elsewhere, by soname."""

    external: dict[str, Component]
    bundled: dict[str, Component]
    driver: tuple[str, ...]

    @property
    def used(self) -> set[str]:
        """Names of all components that some library needs."""
        components = (*self.external.values(), *self.bundled.values())
        return {component.name for component in components}


def read_libraries(content: Path) -> LoaderGraph:
    """Read every linked ELF file of an unpacked wheel that runs on the host.

    Raises:
        AuditError: there is none, or one is damaged.
    """
    elves: dict[str, Elf] = {}
    for name in list_tree(content):
        with open_file(content / name) as stream:
            if not is_elf(stream):
                continue
            try:
                elf = read_elf(stream)
            except ElfFormatError as problem:
                raise AuditError(f"{name} in the built wheel is damaged: {problem}") from problem
        if elf.is_host_code:
            elves[name.as_posix()] = elf
    if not elves:
        raise AuditError(
            "the built wheel contains no compiled library",
            why="its build succeeded without compiling anything, as many packages do when they "
            "find no CUDA",
            fix="look in the build's log for the reason why the extension was skipped",
        )
    return LoaderGraph(elves=elves)


def find_links(target: Target, libraries: LoaderGraph) -> Links:
    """Match the libraries' needs with the recipe's `link`.

    Raises:
        AuditError: something is needed that isn't declared, can't be supplied, or doesn't go with
            the mode; all of it.
    """
    _check_copies_of_driver(target, libraries)
    declared = target.recipe.link.components
    external: dict[str, Component] = {}
    bundled: dict[str, Component] = {}
    driver: set[str] = set()
    problems: list[str] = []
    of_mode: list[str] = []
    missing: set[str] = set()
    needs = [
        (library, soname)
        for library, elf in libraries.elves.items()
        for soname in sorted(set(elf.needed))
        if not libraries.owners(soname)
    ]
    for library, soname in needs:
        component = component_of(soname, target.toolkit.major)
        if is_from_driver(soname):
            driver.add(soname)
            if not target.recipe.link.has_driver:
                missing.add(DRIVER)
                problems.append(f"{library} needs {soname} (of the GPU's driver)")
        elif component and component.name not in declared:
            missing.add(component.name)
            problems.append(f"{library} needs {soname} (component {component.name})")
        elif component:
            of_mode += _problems_of_mode(target, library, soname, component)
            is_copied = isinstance(target.mode, Bundled) and component.cuda is not None
            (bundled if is_copied else external)[soname] = component
        elif is_cuda_library(soname):
            problems.append(f"{library} needs {soname}, which no component supplies")
    if problems or of_mode:
        is_of_mode = bool(of_mode) and not isinstance(target.mode, External)
        _refuse(target, sorted([*problems, *of_mode]), missing, is_of_mode=is_of_mode)
    return Links(external=external, bundled=bundled, driver=tuple(sorted(driver)))


def rpath_entries(library: str, libraries: LoaderGraph, links: Links) -> tuple[str, ...]:
    """Return the folders of a library's needs, in this and in other wheels, in a fixed order."""
    path, needed = installed_path(library), libraries.elves[library].needed
    if path is None:
        return ()
    own = [installed_path(owner) for soname in needed for owner in libraries.owners(soname)]
    used = [links.external[soname] for soname in needed if soname in links.external]
    folders = [owner.parent for owner in own if owner]
    folders += [PurePosixPath(component.site_folder) for component in used]
    # What upstream wrote stays where it leads somewhere: it may serve a dlopen.
    known = {other.parent for name in libraries.elves if (other := installed_path(name))}
    known |= {PurePosixPath(component.site_folder) for component in links.external.values()}
    folders += [folder for folder in libraries.folders(library) if folder in known]
    return tuple(dict.fromkeys(relative_entry(path, folder) for folder in folders))


def unused_components(target: Target, links: Links) -> tuple[Component, ...]:
    """Return declared components that no library needs; none where all is linked in."""
    if isinstance(target.mode, Static):
        return ()
    names = (name for name in target.recipe.link.components if name not in links.used)
    return tuple(component_by_name(name, target.toolkit.major) for name in names)


def _check_copies_of_driver(target: Target, libraries: LoaderGraph) -> None:
    copies = [
        f"{library} is named {name}"
        for library in libraries.elves
        # By its soname too: a stub's file may have any name.
        if (name := next(filter(is_from_driver, sorted(libraries.names(library))), ""))
    ]
    if copies:
        raise AuditError(
            f"{target.id}: the wheel contains a library of NVIDIA's driver, or a stub of it",
            why="\n".join(copies),
            fix="keep the package's build from copying what it links: the library comes with the "
            "driver of each machine, and a copy would be of another release",
        )


def _problems_of_mode(target: Target, library: str, soname: str, component: Component) -> list[str]:
    """Return why a library can't have what it needs in the way that the mode requires."""
    is_cuda = component.cuda is not None
    if installed_path(library) is None and (not is_cuda or isinstance(target.mode, External)):
        return [f"{library} needs {soname}, and no relative rpath from its folder leads to it"]
    if is_cuda and isinstance(target.mode, Static):
        return [f"{library} needs {soname}, which its build should have linked statically"]
    opened = _opened_by(component, target.toolkit.major)
    if is_cuda and isinstance(target.mode, Bundled) and opened:
        why = f"which loads {', '.join(opened)} by name: a copy would not be found"
        return [f"{library} needs {soname}, {why}"]
    return []


def _opened_by(component: Component, cuda: int) -> tuple[str, ...]:
    """Return the names that a component, or one that it needs in turn, loads."""
    queue, opened = [component], list[str]()
    for current in queue:
        opened += current.opens
        needed = (component_of(soname, cuda) for soname in current.needs)
        queue += [other for other in needed if other and other not in queue]
    return tuple(dict.fromkeys(opened))


def _refuse(target: Target, problems: list[str], missing: set[str], *, is_of_mode: bool) -> None:
    what, fix = "that can't be supplied", "add it to cuwheel/check/cuda/nvidia_wheels.py"
    fix = f"build against a library of CUDA {target.toolkit.major}, or {fix}"
    if missing:
        what, fix = "that its recipe doesn't declare", link_advice(target.recipe.link, missing)
    elif is_of_mode:
        name = mode_name(target.mode)
        fix = f"this package can't be linked in mode `{name}`: use another mode (`link`, --link)"
    what = f"{target.id}: the wheel needs libraries {what}"
    raise AuditError(what, why="\n".join(problems), fix=fix)


def link_advice(link: Link, names: Iterable[str] = (), bundles: Iterable[str] = ()) -> str:
    """Return how to extend a recipe's `link`; its mode stays."""
    known = [f'"{name}"' for name in (*link.names, *sorted(names))]
    copied = [f'"{name}"' for name in dict.fromkeys((*link.bundles, *sorted(bundles)))]
    field = f"bundles=({', '.join(copied)},)" if copied else ""
    if link.mode == External():
        return f"write link=Link({', '.join([*known, *([field] if field else [])])})"
    added = ", ".join(known[len(link.names) :])
    return f"write {field} into `link`" if bundles else f"add {added} to `link`"
