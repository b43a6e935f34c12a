"""What a package requires beyond what its recipe says: asked before anything is compiled."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.build.link_flags import cuda_components
from cuwheel.errors import CommandFailedError
from cuwheel.pypi.build_requirements import read_build_system, unmet_requirements
from cuwheel.pypi.run_requirements import stated_requirements, unlocked_requirements
from cuwheel.standalone import script
from cuwheel.system.files import remove_tree
from cuwheel.system.process import run
from cuwheel.workspace.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cuwheel.build.environment import BuildInputs
    from cuwheel.build.sandbox.path_map import PathMap
    from cuwheel.model.target import Target


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


def check_backend_requirements(
    target: Target,
    inputs: BuildInputs,
    path_map: PathMap,
    environment: Mapping[str, str],
    log: Path,
) -> list[Problem]:
    """What only the backend knows is in the locks: it may compute both kinds of requirements.

    Where its hooks fail nothing is said: the build fails in the same way, and that is explained.

    Args:
        target: what is built.
        inputs: from what; its tree stays as it is.
        path_map: where the build has its folders.
        environment: what the build sees.
        log: gets what the hooks print.
    """
    answer = _ask(inputs, path_map, environment, log)
    if answer is None:
        return []
    problems = [] if answer.run is None else _check_run(target, answer.run, "its backend says")
    unmet = unmet_requirements(answer.build, inputs.python.site_packages)
    if not unmet:
        return problems
    return [
        *problems,
        Problem(
            what="build requirements are missing from the lock",
            why=f"the backend asks for {', '.join(unmet)} too (get_requires_for_build_wheel)",
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
                what="the finished wheel requires what the smoke test's lock doesn't hold",
                why=f"{said} that it requires {', '.join(lacking)}; the smoke test installs all "
                f"that by hash, and {one.locked_smoke.path} has none that fits",
                fix=one.locked_smoke.way_to_add(*lacking),
            )
            problems.append(problem)
    return problems


def _ask(
    inputs: BuildInputs, path_map: PathMap, environment: Mapping[str, str], log: Path
) -> BackendAnswer | None:
    """Call the hooks where the build will run, on a copy of the source: they may write into it."""
    folder = inputs.tmp / "asked"
    tree, written = folder / "tree", folder / "answer.json"
    shutil.copytree(inputs.tree, tree, symlinks=True)
    (folder / "metadata").mkdir()
    shutil.copyfile(_SCRIPT, folder / _SCRIPT.name)
    system = read_build_system(tree)
    question = {
        "module": system.module,
        "object": system.object,
        "backend_path": system.backend_path,
        "metadata": str(folder / "metadata") if stated_requirements(tree) is None else "",
    }
    words = [inputs.python.python, folder / _SCRIPT.name, json.dumps(question), written]
    try:
        run(path_map.command(list(map(str, words)), tree), env=environment, cwd=tree, log=log)
        answer = json.loads(written.read_text())
    except (CommandFailedError, OSError, ValueError):
        return None
    finally:
        remove_tree(folder)
    run_requires = answer["run"]
    return BackendAnswer(
        build=tuple(answer["build"]), run=None if run_requires is None else tuple(run_requires)
    )
