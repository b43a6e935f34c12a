"""Metadata of a finished wheel: tags, name, version, requirements, bill of materials."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.version import Version

from cuwheel.base.formats.wheel.metadata import (
    dist_info_of,
    header,
    offer,
    project_of,
    release,
    rename,
    require,
    set_tags,
)
from cuwheel.base.formats.wheel.publication import mark_source
from cuwheel.base.formats.wheel.sbom import SBOM_NAME, Contents, SbomComponent, wheel_sbom
from cuwheel.base.system.files import list_tree, sha256_of_file
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.compile.link_flags import cuda_components
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.finish.repair.links import Links
from cuwheel.build.inputs.identity import check_identity
from cuwheel.build.locks.lock_jobs import toolchain_lock
from cuwheel.build.recipe.link import Static
from cuwheel.build.recipe.source import Sdist
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.records import SourceTree, Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.components import COMPONENTS, Component, component_by_name, requirement_for
from cuwheel.check.cuda.suppliers import component_of_copy
from cuwheel.version import __version__

_CANONICAL_TAG = re.compile(r"manylinux_\d+_\d+_\w+")  # PEP 600; the others are its aliases
_NVIDIAS_TERMS = "LicenseRef-NVIDIA-Proprietary"  # as the METADATA of NVIDIA's wheels has it


def rewrite_metadata(
    target: Target, content: Path, links: Links, source: SourceTree
) -> tuple[str, ...]:
    """Write an unpacked wheel's tags, name, version and requirements.

    Args:
        source: what it was built from; the version is marked with one that no recipe pins.

    Raises:
        SourceError: a source of `--source` is of another package or release.

    Returns:
        The `Requires-Dist` lines that supply the libraries it links.
    """
    dist_info = dist_info_of(content)
    tags = header(read_text(dist_info / "WHEEL"), "tag")
    set_tags(content, [tag for tag in tags if _CANONICAL_TAG.fullmatch(tag.rpartition("-")[2])])
    metadata = read_text(dist_info / "METADATA")
    upstream = Version(header(metadata, "version")[0])
    if source.mark:
        check_identity(target.recipe, header(metadata, "name")[0], str(upstream))
    local = target.local_version
    version = f"{upstream.public}+{local}" if local else upstream.public
    version = mark_source(version, source.mark)
    rename(content, version=version, project=target.project if target.recipe.wheel_name else "")
    return _rewrite_requirements(target, content, _requirements(target, links))


def add_sbom(target: Target, workspace: Workspace, content: Path, requires: Iterable[str]) -> None:
    """Put a bill of materials where PEP 770 requires it."""
    dist_info = dist_info_of(content)
    metadata = read_text(dist_info / "METADATA")
    recipe, tree = target.recipe, workspace.load("patch", SourceTree)
    is_indexed = tree.pinned and isinstance(recipe.source, Sdist)
    contents = Contents(
        wheel=SbomComponent(
            name=target.project, version=header(metadata, "version")[0], license=recipe.license
        ),
        source=SbomComponent(
            name=recipe.source.project if isinstance(recipe.source, Sdist) else recipe.name,
            version=recipe.version,
            purl_type="pypi" if is_indexed else "generic",
            sha256=tree.sha256,
            license=recipe.license,
        ),
        contained=tuple(_contained(target, workspace, content)),
        required=tuple(SbomComponent(name=project_of(text), description=text) for text in requires),
        tools=(
            SbomComponent(name="cuwheel", version=__version__, purl_type="generic"),
            SbomComponent(
                name="nvcc",
                version=workspace.load("toolchain", Toolchain).version,
                purl_type="generic",
            ),
        ),
        epoch=tree.epoch,
    )
    folder = dist_info / "sboms"
    folder.mkdir(exist_ok=True)
    (folder / SBOM_NAME).write_bytes(wheel_sbom(contents))


def copied_in(content: Path) -> Iterator[tuple[str, int]]:
    """Yield file and bytes of what auditwheel copied into a wheel: its folders end in `.libs`."""
    for name in list_tree(content):
        if name.parts[0].endswith(".libs"):
            yield name.as_posix(), (content / name).stat().st_size


def _rewrite_requirements(
    target: Target, content: Path, requires: tuple[str, ...]
) -> tuple[str, ...]:
    """Replace upstream's requirements of the wheels that supply what is linked."""
    linked = {component.distribution for component in cuda_components(target)}
    # Only CUDA's wheels can be left out: a framework is what the package works with.
    frameworks = {component.distribution for component in COMPONENTS if component.cuda is None}
    always = tuple(text for text in requires if not target.extra or project_of(text) in frameworks)
    release(content, linked - {project_of(text) for text in always})
    require(content, always)
    if target.local_extra:
        offer(content, target.local_extra, ())
    if not target.extra:
        return always
    optional = [text for text in requires if text not in always]
    return (*always, *offer(content, target.extra, optional))


def _requirements(target: Target, links: Links) -> tuple[str, ...]:
    """Return the requirements for the libraries that stay outside, without markers."""
    used = {component.name for component in links.external.values()}
    linked = (name for name in target.recipe.link.components if name in used)
    components = [component_by_name(name, target.toolkit.major) for name in linked]
    names = [component.distribution for component in components]
    pins = {name: pinned_version(target.lock, name) for name in names}
    releases = {name: version for name, version in pins.items() if version}
    framework = target.framework.specifier if target.framework else ""
    texts = (
        requirement_for(component, target.toolkit, framework, releases) for component in components
    )
    return tuple(dict.fromkeys(texts))


def _contained(target: Target, workspace: Workspace, content: Path) -> Iterator[SbomComponent]:
    """Yield other people's code in the wheel: copied by auditwheel, or linked statically."""
    for name, _ in copied_in(content):
        path = content / name
        yield _part(path, component_of_copy(path.name, target.toolkit.major), target, workspace)
    if not isinstance(target.mode, Static):
        return
    home = workspace.load("toolchain", Toolchain).home
    archives = {
        name: component for component in cuda_components(target) for name in component.static
    }
    for name, component in archives.items():
        yield _part(home / "lib64" / f"lib{name}.a", component, target, workspace)


def _part(
    path: Path, component: Component | None, target: Target, workspace: Workspace
) -> SbomComponent:
    digest = sha256_of_file(path)
    if component is None:
        return SbomComponent(name=path.name, purl_type="generic", sha256=digest)
    locks = [lock for lock in (toolchain_lock(target, workspace), target.lock) if lock]
    pinned = (pinned_version(lock, component.distribution) for lock in locks)
    return SbomComponent(
        name=path.name,
        version=next((version for version in pinned if version), ""),
        purl_type="generic",
        sha256=digest,
        license=_NVIDIAS_TERMS,
        description=f"of {component.distribution}",
    )
