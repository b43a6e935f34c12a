"""Stage provenance: state what the wheel was made from, how, and what was not under control."""

from __future__ import annotations

import importlib.metadata
import time
from typing import TYPE_CHECKING

from cuwheel.build.rebuild_key import banner_of, c_library, digest_of_engine
from cuwheel.cross.root_libraries import libraries_digest, package_version
from cuwheel.locks.jobs import toolchain_lock
from cuwheel.model.link import mode_name
from cuwheel.model.source import Folder
from cuwheel.paths import ROOT
from cuwheel.sources.checkouts import commit_of
from cuwheel.system.files import sha256_of_file, write_atomically
from cuwheel.toolchains.debian_packages import installed_version
from cuwheel.version import __version__
from cuwheel.wheel.provenance import BuildRecord, Material, statement
from cuwheel.wheel.publication import build_tag_of
from cuwheel.workspace.records import (
    BuiltWheel,
    Environment,
    Preflight,
    Provenance,
    RepairedWheel,
    SourceTree,
    Toolchain,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


def provenance(job: Job) -> Provenance:
    """Write the in-toto statement of the repaired wheel into the work folder.

    Raises:
        StageOrderError: an earlier stage has left nothing.
    """
    target, workspace, image = job.target, job.workspace, job.machine.image
    wheel = workspace.load("repair", RepairedWheel)
    built = workspace.load("build", BuiltWheel)
    record = BuildRecord(
        wheel=wheel.path.name,
        sha256=wheel.sha256,
        parameters=(
            *_parameters(target),
            ("container", image.reference if image else ""),
            ("left_out", wheel.left_out),
            ("build_tag", str(build_tag_of(wheel.path.name) or "")),
        ),
        environment=built.environment,
        jobs=workspace.load("preflight", Preflight).jobs,
        materials=(*_materials(target, workspace), *_system_packages(job), *_machine(job)),
        not_hermetic=built.not_hermetic,
        tools=(("cuwheel", __version__), *wheel.tools),
        started=built.started,
        finished=time.time(),
        log=built.log.name,
        log_sha256=sha256_of_file(built.log),
    )
    path = workspace.work / "provenance.json"
    write_atomically(path, statement(record))
    return Provenance(statement=path, sha256=wheel.sha256)


def _parameters(target: Target) -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    framework = target.framework
    return (
        ("recipe", target.recipe.name),
        ("version", target.recipe.version),
        ("toolkit", target.toolkit.release),
        ("python", target.python),
        ("framework", f"{framework.name}=={framework.version}" if framework else ""),
        ("archs", target.archs),
        ("ptx", target.ptx_archs),
        ("provider", target.provider),
        ("platform", target.platform.name),
        ("link", mode_name(target.mode)),
        ("source", _source_kind(target)),
    )


def _source_kind(target: Target) -> str:
    """Who answers for the source; the statement's materials hold its digest in any case."""
    if target.source_override:
        return "given with --source"
    return "folder of the project" if isinstance(target.recipe.source, Folder) else "pinned"


def _materials(target: Target, workspace: Workspace) -> list[Material]:
    tree = workspace.load("patch", SourceTree)
    toolchain = workspace.load("toolchain", Toolchain)
    environment = workspace.load("environment", Environment)
    origin = tree.origin if tree.pinned else target.recipe.name  # no path of this machine
    script = target.smoke_script
    return [
        *_code(target),
        Material(name=f"source {origin}", sha256=tree.sha256, uri=tree.origin * tree.pinned),
        *(Material(name=f"patch {name}", sha256=digest) for name, digest in tree.patches),
        *(
            Material(name=f"resource {name}", sha256=sha256, uri=origin)
            for name, origin, sha256 in tree.resources
        ),
        *(
            Material(name=f"lock {path.parent.name}/{path.name}", sha256=sha256_of_file(path))
            for path in _locks(target)
        ),
        *([Material(name=f"smoke {script.name}", sha256=sha256_of_file(script))] if script else ()),
        *_packages(environment),
        *(
            Material(name=f"conda {name}", uri=url, version=version, sha256=sha256)
            for name, version, url, sha256 in toolchain.packages
        ),
        Material(
            name=f"CUDA toolchain ({toolchain.provider})",
            sha256=toolchain.fingerprint,
            version=toolchain.version,
        ),
        Material(
            name="host compiler",
            version=workspace.load("preflight", Preflight).host_compiler_version,
        ),
        *_machine_tools(target),
        Material(name="Python", version=environment.base_version),
    ]


def _locks(target: Target) -> list[Path]:
    served = (other.smoke_lock for other in target.served)
    used = dict.fromkeys((target.lock, target.smoke_lock, *served, ROOT / "envs" / "engine.lock"))
    toolchain = toolchain_lock(target)
    return [*used, toolchain] if toolchain else [*used]


def _code(target: Target) -> list[Material]:
    """What has built it: cuwheel's code, and the commits in which that and the recipe are."""
    recipe = target.recipe.module
    commits = {"checkout of cuwheel": commit_of(ROOT)}
    if target.root != ROOT:
        commits["checkout of the recipe"] = commit_of(target.root)
    return [
        Material(name="cuwheel", sha256=digest_of_engine(), version=__version__),
        Material(name=f"recipe {recipe}", sha256=sha256_of_file(target.root / recipe)),
        *(Material(name=name, git_commit=commit) for name, commit in commits.items() if commit),
    ]


def _machine_tools(target: Target) -> list[Material]:
    """What else of the machine decides host code and tags; a conda toolchain brings its own."""
    if target.provider == "conda":
        return []
    return [
        Material(name="C library", version=c_library(target)),
        Material(name="linker", version=banner_of(f"{target.platform.tool_prefix}ld")),
    ]


def _machine(job: Job) -> list[Material]:
    """Where this machine's own files weren't: an image, another machine's root folder."""
    image, root = job.machine.image, job.machine.target_root
    found = []
    if image:  # compiler, C library and programs are its own
        uri = image.package_url
        found.append(Material(name="container image", sha256=image.digest, uri=uri))
    if root:
        found.append(Material(name="root folder of the machine", sha256=root.fingerprint))
    return found


def _system_packages(job: Job) -> list[Material]:
    """What the recipe declares that it takes of the machine, or of another one's root folder."""
    target, root = job.target, job.machine.target_root
    versions = {
        name: package_version(root.folder, name) if root else installed_version(name)
        for name in target.system_packages
    }
    found = [
        Material(name=f"Debian package {name}", version=version)
        for name, version in versions.items()
    ]
    if root and found:
        digest = libraries_digest(root, target.platform)
        found.append(Material(name="libraries of the root folder", sha256=digest))
    return found


def _packages(environment: Environment) -> list[Material]:
    """What the build environment holds; the lock, a material too, has the hashes of each."""
    folders = dict.fromkeys((environment.site_packages, environment.linked_packages))
    found = importlib.metadata.distributions(path=[*map(str, folders)])
    named = {(item.metadata["Name"].lower().replace("_", "-"), item.version) for item in found}
    return [
        Material(name=f"package {name}", uri=f"pkg:pypi/{name}@{version}", version=version)
        for name, version in sorted(named)
    ]
