"""The rebuild key: everything that decides what a wheel holds, by name, to explain rebuilds.

The files that a wheel's statement names are also compared before and after a build: a `git pull`,
an editor or an upgrade of Python can change them meanwhile.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.errors import InterpreterNotFoundError, NotReproducibleError
from cuwheel.base.fetch.urls import redact_url
from cuwheel.base.paths import ROOT
from cuwheel.base.system.compilers import output_of
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.pythons import read_interpreter
from cuwheel.build.inputs.tree import identify
from cuwheel.build.locks.lock_jobs import toolchain_locks
from cuwheel.build.pipeline.engine_code import code_of_builds, digest_of_code
from cuwheel.build.recipe.source import Folder, GitCommit
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.conda.lock_file import stated_content
from cuwheel.build.toolchains.cross.root_libraries import libraries_digest
from cuwheel.build.toolchains.from_system import identify_system
from cuwheel.build.workspace.job import Job, Machine
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.version import __version__

ABSENT = "absent"
_DIGEST = re.compile(r"\b[0-9a-f]{40,64}\b")
_SHORT = 12  # characters of a digest in a sentence
_URL = re.compile(r"[a-z+]+://[^'\"\s]+")
_ONLY_DIGEST = re.compile(r"[0-9a-f]{64}")
_LOCKS = ("lock", "smoke lock")


def key_of(job: Job) -> dict[str, str]:
    """Return each thing that decides the wheel's content, with its digest or value, in order.

    What is missing on this machine is `absent`: preflight raises for it.
    """
    target = job.target
    parts = {
        "target": target.id,
        "archs": " ".join(target.archs),
        "mode": repr(target.mode),
        **_of_recipe(target, job.workspace),
        **_of_locks(target, job.workspace),
        **_of_machine(job),
        "engine": f"{__version__} {digest_of_engine()}",
    }
    if target.cxx_standard:
        parts["C++ standard"] = target.cxx_standard
    if job.settings.build_tag:
        parts["build tag"] = str(job.settings.build_tag)
    return dict(sorted(parts.items()))


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """Return the differences of two keys, one line each; empty when they are equal."""
    return tuple(
        f"{name}: {_difference(name, old.get(name, ABSENT), new.get(name, ABSENT))}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def part_of_build(key: Mapping[str, str]) -> dict[str, str]:
    """Return what decides the wheel itself: a smoke test only decides if it is published."""
    return {
        name: value
        for name, value in key.items()
        if name != "recipe.smoke" and not name.startswith("smoke ")
    }


def digest_of_key(key: Mapping[str, str]) -> str:
    """Return the SHA-256 over a key."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


@functools.cache
def digest_of_engine() -> str:
    """Return the SHA-256 of the code that a build runs: a change in it may change the wheel."""
    return digest_of_code(code_of_builds())


@functools.cache
def banner_of(program: str) -> str:
    """Return the first line of `--version` of a program of the machine."""
    return output_of(program, "--version").partition("\n")[0] or ABSENT


def c_library(target: Target) -> str:
    """Return the release, or the SHA-256, of the C library that the machine's compilers link."""
    if not target.platform.is_foreign:
        return " ".join(platform.libc_ver())
    return _digest(target.platform.cross_libraries / "libc.so.6")


def _of_recipe(target: Target, workspace: Workspace) -> dict[str, str]:
    recipe = target.recipe
    fields = {  # without secrets in addresses: the key is published in `dist/`
        f"recipe.{field.name}": _URL.sub(
            lambda url: redact_url(url[0]), repr(getattr(recipe, field.name))
        )
        for field in dataclasses.fields(recipe)
        if field.compare  # the others decide nothing of a wheel
    }
    patches = {
        f"patch {patch.file}": _digest(target.patch_folder / patch.file) for patch in target.patches
    }
    script = target.smoke_script
    smoke = {f"smoke {script.name}": _digest(script)} if script else {}
    return {**fields, **patches, **smoke, "source": _source(target, workspace)}


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


def _of_locks(target: Target, workspace: Workspace) -> dict[str, str]:
    parts = {"lock build": _digest(target.lock), "lock engine": _digest(ROOT / "envs/engine.lock")}
    for path in {each.smoke_lock for each in (target, *target.served)} - {target.lock}:
        parts[f"smoke lock {path.stem}"] = _digest(path)
    # A conda lock that was verified has the same content, with more facts about it.
    locks = [stated_content(lock) or _digest(lock) for lock in toolchain_locks(target, workspace)]
    return {**parts, "lock toolchain": " ".join(locks) or target.provider}


def _of_machine(job: Job) -> dict[str, str]:
    target, machine = job.target, job.machine
    python = machine.python
    parts = {
        "python": f"{python.version} {python.abi} {python.path}" if python else ABSENT,
        # Only if there is one: its kind makes no difference to the build.
        "sandbox": {None: ABSENT, "none": "no"}.get(machine.sandbox, "yes"),
    }
    if machine.target_root:
        parts["target root"] = machine.target_root.fingerprint
        if target.system_packages:
            digest = libraries_digest(machine.target_root, target.platform)
            parts["target root's libraries"] = digest
    if machine.image:
        parts["container image"] = machine.image.digest
    if not target.has_own_compiler:  # else a lock names compiler, binutils and C library
        parts.update(_machine_compiler(target, machine))
    if target.provider == "system":
        identity = identify_system(target.toolkit.release, job.workspace.environ)
        parts["system toolkit"] = identity or ABSENT
    return parts


def _machine_compiler(target: Target, machine: Machine) -> dict[str, str]:
    fitting = [gcc for gcc in machine.compilers if gcc.major <= target.toolkit.max_gcc]
    prefix = target.platform.tool_prefix
    return {
        "host compiler": f"{fitting[0].cxx} {fitting[0].banner}" if fitting else ABSENT,
        "C library": c_library(target),
        "linker": banner_of(f"{prefix}ld"),
        "strip": banner_of(f"{prefix}strip"),
    }


def _digest(path: Path) -> str:
    try:
        return sha256_of_file(path)
    except OSError:
        return ABSENT


def _difference(name: str, old: str, new: str) -> str:
    if name == "source":
        return _source_difference(old, new)
    if name == "engine":
        before, now = (value.partition(" ")[0] for value in (old, new))
        return f"cuwheel {before} -> {now}" if before != now else "cuwheel's own code has changed"
    if _ONLY_DIGEST.fullmatch(old) and _ONLY_DIGEST.fullmatch(new):
        return "the lock has changed" if name.startswith(_LOCKS) else "the file has changed"
    return f"{_shortened(old)} -> {_shortened(new)}"


def _source_difference(old: str, new: str) -> str:
    """Compare two sources: of `--source` a path and a digest, pinned ones a digest alone."""
    before, now = (value.rpartition(" ")[0] for value in (old, new))
    if now and now != before:
        return f"{now}, given with --source, instead of {before or 'what the recipe pins'}"
    if before and not now:
        return f"what the recipe pins, instead of {before}"
    if now:
        return f"{now} has different content"
    return f"the recipe names a different one, {_shortened(old)} -> {_shortened(new)}"


def _shortened(value: str) -> str:
    return _DIGEST.sub(lambda digest: digest[0][:_SHORT], value)


def read_project_state(job: Job) -> dict[str, str]:
    """Return a digest or version by name of each input that can change while a build runs."""
    target, python = job.target, job.machine.python
    files = [*statement_locks(target, job.workspace), target.root / target.recipe.module]
    files += [target.smoke_script] if target.smoke_script else []
    state = {f"{path.parent.name}/{path.name}": _digest(path) for path in files}
    state["cuwheel's own code"] = digest_of_code(code_of_builds())
    if python:
        try:
            state["Python"] = read_interpreter(python.path, job.workspace.environ).version
        except InterpreterNotFoundError:
            state["Python"] = ABSENT
    return state


def check_project_state(before: Mapping[str, str], job: Job) -> None:
    """Compare the inputs with `read_project_state` of the start of the build.

    Raises:
        NotReproducibleError: some have changed.
    """
    now = read_project_state(job)
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if changed:
        raise NotReproducibleError(
            f"{job.target.id}: {', '.join(changed)} changed while the wheel was built",
            why="the wheel's statement would name other inputs than those that it was made from",
            fix="build it again: this one was not published",
        )


def statement_locks(target: Target, workspace: Workspace) -> tuple[Path, ...]:
    """Return the locks that the statement of a target's wheel names."""
    served = (other.smoke_lock for other in target.served)
    used = dict.fromkeys((target.lock, target.smoke_lock, *served, ROOT / "envs" / "engine.lock"))
    return (*used, *toolchain_locks(target, workspace))
