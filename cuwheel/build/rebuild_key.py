"""The rebuild key: everything that decides what a wheel holds, by name, to explain rebuilds."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import platform
import re
from typing import TYPE_CHECKING, Any

from cuwheel.build.engine_code import code_of_builds, digest_of_code
from cuwheel.conda.lock_file import stated_content
from cuwheel.cross.root_libraries import libraries_digest
from cuwheel.errors import CommandFailedError
from cuwheel.fetch.urls import redact_url
from cuwheel.locks.jobs import toolchain_lock
from cuwheel.model.source import Archive, Folder, GitCommit, Resource
from cuwheel.paths import ROOT
from cuwheel.sources.tree import identify
from cuwheel.system.files import sha256_of_file
from cuwheel.system.process import run
from cuwheel.toolchains.cuda_home import find_system_home, identify_home
from cuwheel.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.job import Job, Machine
    from cuwheel.workspace.workspace import Workspace


ABSENT = "absent"
_DIGEST = re.compile(r"\b[0-9a-f]{40,64}\b")
_SHORT = 12  # characters of a digest among other words
_ONLY_DIGEST = re.compile(r"[0-9a-f]{64}")
_LOCKS = ("lock", "smoke lock")


def key_of(job: Job) -> dict[str, str]:
    """Each thing that decides the wheel's content, with its digest or value, in a stable order.

    What is missing on this machine stands as `absent`: preflight is what complains.
    """
    target = job.target
    parts = {
        "target": target.id,
        "archs": " ".join(target.archs),
        "mode": repr(target.mode),
        **_of_recipe(target, job.workspace),
        **_of_locks(target),
        **_of_machine(target, job.machine),
        "engine": f"{__version__} {digest_of_engine()}",
    }
    if job.settings.build_tag:
        parts["build tag"] = str(job.settings.build_tag)
    return dict(sorted(parts.items()))


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """What differs between two keys, one line each; empty when they are equal."""
    return tuple(
        f"{name}: {_difference(name, old.get(name, ABSENT), new.get(name, ABSENT))}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def part_of_build(key: Mapping[str, str]) -> dict[str, str]:
    """What of a key decides the wheel itself: a smoke test only says whether it is published."""
    return {name: value for name, value in key.items() if not _is_of_smoke(name)}


def digest_of_key(key: Mapping[str, str]) -> str:
    """SHA-256 over a key."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


@functools.cache
def digest_of_engine() -> str:
    """SHA-256 of the code that a build runs: a change in any of it may change the wheel."""
    return digest_of_code(code_of_builds())


@functools.cache
def banner_of(program: str) -> str:
    """What a program of the machine calls itself, the first line of `--version`."""
    try:
        said = run([program, "--version"], env={"PATH": os.defpath, "LC_ALL": "C"}).output
    except CommandFailedError:
        return ABSENT
    return said.splitlines()[0]


def c_library(target: Target) -> str:
    """The C library that the machine's compilers link with: its release, or its file's SHA-256."""
    if not target.platform.is_foreign:
        return " ".join(platform.libc_ver())
    return _digest(target.platform.cross_libraries / "libc.so.6")


def _is_of_smoke(name: str) -> bool:
    return name == "recipe.smoke" or name.startswith("smoke ")


def _of_recipe(target: Target, workspace: Workspace) -> dict[str, str]:
    recipe = target.recipe
    fields = {
        f"recipe.{field.name}": repr(_shown(getattr(recipe, field.name)))
        for field in dataclasses.fields(recipe)
        if field.compare  # the others say nothing of a wheel
    }
    patches = {
        f"patch {patch.file}": _digest(target.patch_folder / patch.file) for patch in target.patches
    }
    script = target.smoke_script
    smoke = {f"smoke {script.name}": _digest(script)} if script else {}
    return {**fields, **patches, **smoke, "source": _source(target, workspace)}


def _shown(value: Any) -> Any:
    """A value of a recipe whose addresses hold no secret: the key lies in `dist/`, for everyone."""
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    if isinstance(value, Resource):
        return dataclasses.replace(value, source=_shown(value.source))
    if isinstance(value, Archive):
        return dataclasses.replace(value, url=redact_url(value.url))
    if isinstance(value, GitCommit):
        return dataclasses.replace(value, repository=redact_url(value.repository))
    return value


def _source(target: Target, workspace: Workspace) -> str:
    override = target.source_override
    if override is None:
        source = target.recipe.source
        if isinstance(source, Folder):
            folder = target.root.absolute() / source.path
            return identify(folder, without=workspace.folders) if folder.is_dir() else ABSENT
        return source.commit if isinstance(source, GitCommit) else source.sha256
    if override.is_dir():
        return f"{override} {identify(override, without=workspace.folders)}"
    return f"{override} {_digest(override)}"


def _of_locks(target: Target) -> dict[str, str]:
    found = {"lock build": _digest(target.lock), "lock engine": _digest(ROOT / "envs/engine.lock")}
    for tried in {one.smoke_lock for one in (target, *target.served)} - {target.lock}:
        found[f"smoke lock {tried.stem}"] = _digest(tried)
    lock = toolchain_lock(target)
    if lock is None:
        return {**found, "lock toolchain": target.provider}
    # A conda lock that was verified holds what it held, and says more about it.
    return {**found, "lock toolchain": stated_content(lock) or _digest(lock)}


def _of_machine(target: Target, machine: Machine) -> dict[str, str]:
    python = machine.python
    parts = {
        "python": f"{python.version} {python.abi} {python.path}" if python else ABSENT,
        # Whether there is one: which one makes no difference to the build.
        "sandbox": {None: ABSENT, "none": "no"}.get(machine.sandbox, "yes"),
    }
    if machine.target_root:
        parts["target root"] = machine.target_root.fingerprint
        if target.system_packages:
            digest = libraries_digest(machine.target_root, target.platform)
            parts["target root's libraries"] = digest
    if machine.image:
        parts["container image"] = machine.image.digest
    if target.provider != "conda":  # whose lock names compiler, binutils and C library
        parts.update(_machine_compiler(target, machine))
    if target.provider == "system":
        home, _ = find_system_home(target.toolkit.release, os.environ)
        parts["system toolkit"] = f"{home} {identify_home(home) if home else ABSENT}"
    return parts


def _machine_compiler(target: Target, machine: Machine) -> dict[str, str]:
    fitting = [found for found in machine.compilers if found.major <= target.toolkit.max_gcc]
    tools = target.platform.tool_prefix
    return {
        "host compiler": f"{fitting[0].cxx} {fitting[0].banner}" if fitting else ABSENT,
        "C library": c_library(target),
        "linker": banner_of(f"{tools}ld"),
        "strip": banner_of(f"{tools}strip"),
    }


def _digest(path: Path) -> str:
    try:
        return sha256_of_file(path)
    except OSError:
        return ABSENT


def _difference(name: str, old: str, new: str) -> str:
    if name == "source":
        return _of_source(old, new)
    if name == "engine":
        before, now = (value.partition(" ")[0] for value in (old, new))
        return f"cuwheel {before} -> {now}" if before != now else "cuwheel's own code has changed"
    if ABSENT in {old, new}:
        return f"{_shortened(old)} -> {_shortened(new)}"
    if _ONLY_DIGEST.fullmatch(old) and _ONLY_DIGEST.fullmatch(new):
        return "the lock has changed" if name.startswith(_LOCKS) else "the file has changed"
    return f"{_shortened(old)} -> {_shortened(new)}"


def _of_source(old: str, new: str) -> str:
    """A folder or archive that was given is a path and a digest, a pinned source a digest alone."""
    before, now = (value.rpartition(" ")[0] for value in (old, new))
    if now and now != before:
        return f"{now}, given with --source, instead of {before or 'what the recipe pins'}"
    if before and not now:
        return f"what the recipe pins, instead of {before}"
    if now:
        return f"{now} has different content"
    return f"the recipe names a different one, {_shortened(old)} -> {_shortened(new)}"


def _shortened(value: str) -> str:
    return _DIGEST.sub(lambda found: found[0][:_SHORT], value)
