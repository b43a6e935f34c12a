"""Stage provenance: the statement of what the wheel was made from, how, and what was not pinned."""

from __future__ import annotations

import importlib.metadata
import time

from cuwheel.base.formats.wheel.provenance import BuildRecord, Material, statement
from cuwheel.base.formats.wheel.publication import build_tag_of
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file, write_atomically
from cuwheel.build.inputs.checkouts import commit_of
from cuwheel.build.pipeline.rebuild_key import (
    banner_of,
    c_library,
    digest_of_engine,
    statement_locks,
)
from cuwheel.build.recipe.link import mode_name
from cuwheel.build.recipe.source import Folder
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.cross.root_libraries import libraries_digest, package_version
from cuwheel.build.toolchains.system_programs import installed_version
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.masking import refuse_secrets, refuse_secrets_in_wheels
from cuwheel.build.workspace.records import (
    BuiltWheel,
    Environment,
    Preflight,
    Provenance,
    RepairedWheel,
    SourceTree,
    Toolchain,
)
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.version import __version__


def provenance(job: Job) -> Provenance:
    """Write the in-toto statement of the repaired wheel into the work folder.

    Raises:
        UsageError: an earlier stage has left nothing.
        WheelIndexError: statement or wheel would publish a secret: a password in an address.
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
        materials=(*_materials(target, workspace), *_machine(job)),
        not_hermetic=built.not_hermetic,
        tools=(("cuwheel", __version__), *wheel.tools),
        started=built.started,
        finished=time.time(),
        log=built.log.name,
        log_sha256=sha256_of_file(built.log),
    )
    path = workspace.work / "provenance.json"
    write_atomically(path, statement(record))
    refuse_secrets([path])
    refuse_secrets_in_wheels([wheel.path])
    return Provenance(statement=path, sha256=wheel.sha256)


def _parameters(target: Target) -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    framework = target.framework
    source = "folder of the project" if isinstance(target.recipe.source, Folder) else "pinned"
    return (
        ("recipe", target.recipe.name),
        ("version", target.recipe.version),
        ("toolkit", target.toolkit.release),
        ("python", target.python),
        ("framework", f"{framework.name}=={framework.version}" if framework else ""),
        ("archs", target.archs),
        ("ptx", target.ptx_archs),
        ("provider", target.provider),
        ("host_compiler", "" if target.provider == "conda" else target.host_compiler),
        ("cxx_standard", target.cxx_standard),
        ("platform", target.platform.name),
        ("link", mode_name(target.mode)),
        ("source", "given with --source" if target.source_override else source),
    )


def _materials(target: Target, workspace: Workspace) -> list[Material]:
    tree = workspace.load("patch", SourceTree)
    toolchain = workspace.load("toolchain", Toolchain)
    environment = workspace.load("environment", Environment)
    origin = tree.origin if tree.pinned else target.recipe.name  # no path of this machine
    script = target.smoke_script
    return [
        *_code(target),
        Material(
            name=f"source {origin}",
            sha256=tree.sha256,
            uri=tree.origin * tree.pinned,
            version="" if tree.pinned else tree.state,
            git_commit="" if tree.pinned else tree.commit,
        ),
        *(Material(name=f"patch {name}", sha256=digest) for name, digest in tree.patches),
        *(
            Material(name=f"resource {name}", sha256=sha256, uri=origin)
            for name, origin, sha256 in tree.resources
        ),
        *(
            Material(name=f"lock {path.parent.name}/{path.name}", sha256=sha256_of_file(path))
            for path in statement_locks(target, workspace)
        ),
        *([Material(name=f"smoke {script.name}", sha256=sha256_of_file(script))] if script else ()),
        *_packages(environment),
        *(
            Material(name=name, uri=url, version=version, sha256=sha256)
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
        Material(name="Python", version=environment.base_version),
    ]


def _code(target: Target) -> list[Material]:
    """Return cuwheel's code, the recipe, and the commits of both."""
    recipe = target.recipe.module
    commits = {"checkout of cuwheel": commit_of(ROOT)}
    if target.root != ROOT:
        commits["checkout of the recipe"] = commit_of(target.root)
    return [
        Material(name="cuwheel", sha256=digest_of_engine(), version=__version__),
        Material(name=f"recipe {recipe}", sha256=sha256_of_file(target.root / recipe)),
        *(Material(name=name, git_commit=commit) for name, commit in commits.items() if commit),
    ]


def _machine(job: Job) -> list[Material]:
    """Return what else decides host code and tags, and what replaces this machine's files."""
    target, image, root = job.target, job.machine.image, job.machine.target_root
    materials = []
    if not target.has_own_compiler:
        linker = f"{target.platform.tool_prefix}ld"
        materials.append(Material(name="C library", version=c_library(target)))
        materials.append(Material(name="linker", version=banner_of(linker)))
    for name in target.system_packages:
        version = package_version(root.folder, name) if root else installed_version(name)
        materials.append(Material(name=f"Debian package {name}", version=version))
    if root and target.system_packages:
        digest = libraries_digest(root, target.platform)
        materials.append(Material(name="libraries of the root folder", sha256=digest))
    if image:  # compiler, C library and programs are its own
        uri = image.package_url
        materials.append(Material(name="container image", sha256=image.digest, uri=uri))
    if root:
        materials.append(Material(name="root folder of the machine", sha256=root.fingerprint))
    return materials


def _packages(environment: Environment) -> list[Material]:
    """Return the packages of the build environment; their hashes are in the lock."""
    folders = dict.fromkeys((environment.site_packages, environment.linked_packages))
    installed = importlib.metadata.distributions(path=[*map(str, folders)])
    packages = {
        (item.metadata["Name"].lower().replace("_", "-"), item.version) for item in installed
    }
    return [
        Material(name=f"package {name}", uri=f"pkg:pypi/{name}@{version}", version=version)
        for name, version in sorted(packages)
    ]
