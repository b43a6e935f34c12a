"""What a package requires beyond what its recipe says: asked before anything is compiled."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.build.environment import UNPINNED
from cuwheel.build.link_flags import cuda_components
from cuwheel.build.unpinned_programs import called_unpinned
from cuwheel.errors import CommandFailedError
from cuwheel.pypi.build_requirements import read_build_system, unmet_requirements
from cuwheel.pypi.run_requirements import stated_requirements, unlocked_requirements
from cuwheel.standalone import script
from cuwheel.system.files import (
    remove_tree,
    sha256_of_file,
    sha256_of_tree,
    write_atomically,
)
from cuwheel.system.process import run
from cuwheel.workspace.problems import Problem
from cuwheel.workspace.serialization import read_record, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cuwheel.build.environment import BuildInputs
    from cuwheel.model.target import Target
    from cuwheel.sandbox.path_map import PathMap


_SCRIPT = script("probes/backend.py")


@dataclass(frozen=True, kw_only=True)
class BackendAnswer:
    """What a backend says that a package requires.

    Attributes:
        build: what its build requires beside the `[build-system]` requirements.
        run: the wheel's `Requires-Dist`; None where it wasn't asked, or has no hook for it.
    """

    build: tuple[str, ...]
    run: tuple[str, ...] | None


def check_stated_requirements(target: Target, tree: Path) -> list[Problem]:
    """What the source itself states of the finished wheel's requirements is in the smoke lock.

    Args:
        target: what is built.
        tree: its source.
    """
    stated = stated_requirements(tree)
    return [] if stated is None else _check_run(target, stated, "its source says")


def check_backend_requirements(  # noqa: PLR0913 - of what, where, and what is left behind
    target: Target,
    inputs: BuildInputs,
    path_map: PathMap,
    environment: Mapping[str, str],
    *,
    log: Path,
    kept: Path | None,
) -> list[Problem]:
    """What only the backend knows is in the locks: it may compute both kinds of requirements.

    Where its hooks fail nothing is said: the build fails in the same way, and that is explained.
    They take seconds where they import PyTorch. What they said in a sandbox follows from the source
    and what the build pins, so it is kept.

    Args:
        target: what is built.
        inputs: from what; its tree stays as it is.
        path_map: where the build has its folders.
        environment: what the build sees.
        log: gets what the hooks print.
        kept: folder for answers; None: the backend is asked each time.
    """
    system = read_build_system(inputs.tree)
    question = {
        "module": system.module,
        "object": system.object,
        "backend_path": system.backend_path,
        "asks_metadata": stated_requirements(inputs.tree) is None,
    }
    key = _key(question, inputs, environment)
    record = kept / f"{key}.json" if kept and path_map.is_sandboxed else None
    answer = read_record(record, BackendAnswer) if record else None
    if answer is None:
        answer = _ask(question, inputs, path_map, environment, log)
        if answer is None:
            return []
        # A program that was refused is told of by who called it.
        if record and not called_unpinned(inputs):
            write_atomically(record, to_json(answer))
    problems = [] if answer.run is None else _check_run(target, answer.run, "its backend says")
    unmet = unmet_requirements(answer.build, inputs.python.site_packages)
    if not unmet:
        return problems
    return [
        *problems,
        Problem(
            what="build requirements are missing from the lock",
            why=f"the backend also requires {', '.join(unmet)} (get_requires_for_build_wheel)",
            fix=target.locked_build.way_to_add(*unmet),
        ),
    ]


def _check_run(target: Target, required: Iterable[str], said: str) -> list[Problem]:
    """Beside each release of the framework that the wheel is tried with.

    Requirements on what the wheel links are the engine's own affair: it writes them anew.
    """
    required = tuple(required)
    linked = {canonicalize_name(one.distribution) for one in cuda_components(target)}
    own = {canonicalize_name(target.recipe.name), canonicalize_name(target.project)}
    problems = []
    for one in (target, *target.served):
        lacking = unlocked_requirements(
            required,
            one.smoke_lock,
            python=one.python,
            extra=one.extra,
            without=linked | own,
        )
        if lacking:
            problem = Problem(
                what="the finished wheel requires packages that the smoke test's lock doesn't have",
                why=f"{said} that it requires {', '.join(lacking)}; the smoke test installs every "
                f"package by hash, and {one.locked_smoke.path} has no matching one",
                fix=one.locked_smoke.way_to_add(*lacking),
            )
            problems.append(problem)
    return problems


def _key(
    question: Mapping[str, object], inputs: BuildInputs, environment: Mapping[str, str]
) -> str:
    """SHA-256 over all that decides what a backend says."""
    resources = sha256_of_tree(inputs.resources) if inputs.resources.is_dir() else ""
    refused = sorted(path.name for path in (inputs.launcher / UNPINNED).glob("*"))
    parts = (
        *(resources, inputs.toolbox.name, json.dumps(refused)),
        *(sha256_of_file(_SCRIPT), json.dumps(question), sha256_of_tree(inputs.tree)),
        *(inputs.python.fingerprint, inputs.toolchain.fingerprint),
        *(inputs.machine.host_compiler_version, json.dumps(sorted(environment.items()))),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _ask(
    question: Mapping[str, object],
    inputs: BuildInputs,
    path_map: PathMap,
    environment: Mapping[str, str],
    log: Path,
) -> BackendAnswer | None:
    """Call the hooks where the build will run, on a copy of the source: they may write into it."""
    folder = inputs.tmp / "asked"
    tree, written = folder / "tree", folder / "answer.json"
    shutil.copytree(inputs.tree, tree, symlinks=True)
    (folder / "metadata").mkdir()
    shutil.copyfile(_SCRIPT, folder / _SCRIPT.name)
    metadata = str(folder / "metadata") if question["asks_metadata"] else ""
    text = json.dumps({**question, "metadata": metadata})
    words = [inputs.python.python, folder / _SCRIPT.name, text, written]
    try:
        run(path_map.command(list(map(str, words)), tree), env=environment, cwd=tree, log=log)
        return read_record(written, BackendAnswer)
    except (CommandFailedError, OSError):
        return None
    finally:
        remove_tree(folder)
