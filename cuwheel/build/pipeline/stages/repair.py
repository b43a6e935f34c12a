"""Stage repair: the built wheel made portable, with metadata that names its requirements."""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.formats.wheel.archive import pack, unpack_wheel
from cuwheel.base.formats.wheel.metadata import (
    dist_info_of,
    file_name,
    header,
    set_build_tag,
    set_tags,
)
from cuwheel.base.formats.wheel.publication import newest_build, published_sha256
from cuwheel.base.system.files import remove_tree, sha256_of_file
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.compile.link_flags import cuda_components
from cuwheel.build.finish.repair.contents import check_bundles, leave_out
from cuwheel.build.finish.repair.links import (
    Links,
    find_links,
    read_libraries,
    rpath_entries,
    unused_components,
)
from cuwheel.build.finish.repair.metadata import add_sbom, copied_in, rewrite_metadata
from cuwheel.build.finish.repair.tools import RepairTools
from cuwheel.build.recipe.link import DRIVER, External, Mode, mode_name
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.cross.root_libraries import library_folders
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import (
    BuiltWheel,
    Environment,
    RepairedWheel,
    SourceTree,
    Toolchain,
)
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.suppliers import DRIVER_SONAME


def repair(job: Job) -> RepairedWheel:
    """Strip, set relative rpaths, let auditwheel graft and tag, rewrite the metadata, normalise.

    Raises:
        AuditError: `leave_out` fits nothing, the wheel holds no library, needs CUDA or framework
            libraries that the recipe doesn't declare, or auditwheel refuses it.
        UnsafeArchiveError: the output of the build is not a wheel.
        DiskFullError: no space is left for the unpacked wheel.
    """
    target, workspace = job.target, job.workspace
    built = workspace.load("build", BuiltWheel)
    if not built.path.is_file():
        raise workspace.left_nothing("build")
    epoch = workspace.load("patch", SourceTree).epoch
    remove_tree(workspace.work / "repaired")
    remove_tree(workspace.work / "repair")
    scratch = workspace.folder("repair")
    tools = _tools(job, scratch, epoch)
    content = _unpacked(built.path, scratch / "built")
    left_out = leave_out(content, target)
    links = find_links(target, read_libraries(content))
    _warn_of_unused(target, workspace, links)
    # Before patchelf, never after: stripping a patched file can break it (pypa/auditwheel#716).
    # Sections that get loaded, .nv_fatbin among them, stay.
    for library in read_libraries(content).elves:
        tools.strip(content / library)
    _set_rpaths(tools, content, links, target.mode)
    set_tags(content, _plain_tags(target, content))
    plain = scratch / file_name(content)
    pack(content, plain, epoch=epoch, level=0)  # auditwheel's alone
    grafted = _graft(tools, plain, links)
    final = _unpacked(grafted, scratch / "final")
    for name in check_bundles(target, final):
        workspace.console.warn(
            f'{target.id}: the recipe bundles "{name}", but no library of the wheel needs it'
        )
    # Again, since auditwheel drops entries that lead out of the wheel.
    _set_rpaths(tools, final, links, target.mode)
    requires = rewrite_metadata(target, final, links, workspace.load("patch", SourceTree))
    add_sbom(target, workspace, final, requires)
    bundled = tuple(copied_in(final))
    path = _pack_for_publication(job, final, epoch)
    remove_tree(scratch)
    if links.bundled:
        workspace.console.note(
            "the wheel contains libraries of NVIDIA: their licence terms say how it may be "
            "distributed"
        )
    return RepairedWheel(
        path=path,
        sha256=sha256_of_file(path),
        size=path.stat().st_size,
        platform_tag=path.stem.rpartition("-")[2],
        external=tuple(sorted(links.external)),
        requires=requires,
        tools=tools.versions(),
        mode=mode_name(target.mode),
        bundled=bundled,
        left_out=left_out,
    )


def _tools(job: Job, scratch: Path, epoch: int) -> RepairTools:
    target, workspace, root = job.target, job.workspace, job.machine.target_root
    return RepairTools(
        owner=target.id,
        scratch=scratch,
        log=workspace.log("repair"),
        epoch=epoch,
        programs=workspace.load("toolchain", Toolchain).programs,
        libraries=_folders_to_copy_from(target, workspace),
        triplet=target.platform.triplet if target.platform.is_foreign else "",
        system=library_folders(root, target.platform) if root else None,
    )


def _pack_for_publication(job: Job, content: Path, epoch: int) -> Path:
    """Pack the finished wheel under a name that no wheel with other bytes was published under."""
    workspace, build_tag = job.workspace, job.settings.build_tag
    newest = newest_build(workspace.dist, file_name(content))
    if build_tag or newest:
        set_build_tag(content, build_tag or newest or 0)
    path = workspace.folder("repaired") / file_name(content)
    pack(content, path, epoch=epoch)
    if build_tag or newest is None or job.settings.replace:
        return path
    if published_sha256(workspace.dist / path.name) in {"", sha256_of_file(path)}:
        return path
    path.unlink()
    set_build_tag(content, newest + 1)
    following = path.with_name(file_name(content))
    pack(content, following, epoch=epoch)
    workspace.console.note(
        f"{path.name} is already published with different bytes: this wheel gets the build tag "
        f"{newest + 1}, which installers prefer; --replace overwrites instead"
    )
    return following


def _unpacked(wheel: Path, folder: Path) -> Path:
    folder.mkdir()
    unpack_wheel(wheel, folder)
    return folder


def _warn_of_unused(target: Target, workspace: Workspace, links: Links) -> None:
    for component in unused_components(target, links):
        workspace.console.warn(
            f'{target.id}: the recipe declares link "{component.name}", but no library of the '
            f"wheel needs {' or '.join(component.sonames)}"
        )
    if target.recipe.link.has_driver and not links.driver:
        workspace.console.warn(
            f'{target.id}: the recipe declares link "{DRIVER}", but no library of the wheel needs '
            f"{DRIVER_SONAME}"
        )


def _set_rpaths(tools: RepairTools, content: Path, links: Links, mode: Mode) -> None:
    kind = mode.search if isinstance(mode, External) else "runpath"
    libraries = read_libraries(content)
    for library, elf in libraries.elves.items():
        if not elf.is_dynamic:
            continue
        entries = rpath_entries(library, libraries, links)
        present = {"runpath": elf.runpath, "rpath": elf.rpath}
        if present != {"runpath": (), "rpath": (), kind: entries}:
            tools.set_rpath(content / library, entries, kind)


def _plain_tags(target: Target, content: Path) -> list[str]:
    """Return the tags before auditwheel: of the target's platform, and the Pythons it serves."""
    text = read_text(dist_info_of(content) / "WHEEL")
    prefixes = dict.fromkeys(tag.rpartition("-")[0] for tag in header(text, "tag"))
    prefixes = {"py3-none": None} if target.recipe.python == "any" else prefixes
    return [f"{prefix}-{target.platform.name}" for prefix in prefixes]


def _graft(tools: RepairTools, wheel: Path, links: Links) -> Path:
    """Let auditwheel copy libraries that few systems have, and find the platform tag.

    Without compression, as the wheel is unpacked at once.
    """
    excludes = [f"--exclude={soname}" for soname in sorted({*links.external, *links.driver})]
    folder = wheel.parent / "grafted"
    tools.auditwheel("repair", "--plat=auto", "-z0", *excludes, "-w", folder, wheel)
    return next(folder.glob("*.whl"))


def _folders_to_copy_from(target: Target, workspace: Workspace) -> tuple[Path, ...]:
    """Return the folders in which the build found the libraries that auditwheel copies."""
    toolchain = workspace.load("toolchain", Toolchain)
    home = toolchain.home
    folders = [
        home / "lib64",
        home / "lib",
        *filter(None, [toolchain.compiler and toolchain.libraries]),
    ]
    if workspace.has("environment"):
        site = workspace.load("environment", Environment).linked_packages
        folders += [site / component.site_folder for component in cuda_components(target)]
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))
