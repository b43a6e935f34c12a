"""Requirements of a package beyond its recipe's, checked before anything is compiled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.errors import CommandFailedError, CuwheelError, PreflightError
from cuwheel.base.paths import script
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.compile.framework_headers import check_framework_headers
from cuwheel.build.compile.link_flags import cuda_components
from cuwheel.build.environments.requirements import (
    read_build_system,
    stated_requirements,
    unlocked_requirements,
    unmet_requirements,
)
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.path_map import PathMap
from cuwheel.build.workspace.serialization import read_record

_SCRIPT = script("build/pipeline/probes/backend.py")


@dataclass(frozen=True, kw_only=True)
class BackendAnswer:
    """Requirements of a package by its build backend.

    Attributes:
        build: of its build, in addition to the `[build-system]` requirements.
        run: the wheel's `Requires-Dist`; None: not requested, or the backend has no hook for it.
        standards: the C++ standards that setup.py sets, `17`, an empty one where an extension sets
            none; none: not known.
        sources: of its extensions, relative to the package.
    """

    build: tuple[str, ...]
    run: tuple[str, ...] | None
    standards: tuple[str, ...]
    sources: tuple[str, ...]


def check_stated_requirements(target: Target, tree: Path) -> Iterator[CuwheelError]:
    """Check that the smoke lock has the requirements that the source states for the wheel."""
    stated = stated_requirements(tree)
    if stated is not None:
        yield from _check_run(target, stated, "its source says")


def check_backend_requirements(  # noqa: PLR0913 - what is built, where, and what is kept
    target: Target,
    inputs: BuildInputs,
    path_map: PathMap,
    environment: Mapping[str, str],
    *,
    log: Path,
    cache: Path,
) -> Iterator[CuwheelError]:
    """Check that the locks have the requirements of both kinds that only the backend computes.

    The headers of the framework are tried too, with the C++ that it sets. Where its hooks fail
    there is no problem to report: the build fails in the same way, and that is explained.

    Args:
        inputs: of the build; its tree stays as it is.
        cache: has the trials of headers that succeeded.
    """
    answer = _call_hooks(inputs, path_map, environment, log)
    if answer is None:
        return
    if answer.run is not None:
        yield from _check_run(target, answer.run, "its backend says")
    if unmet := unmet_requirements(answer.build, inputs.python.site_packages):
        yield PreflightError(
            "build requirements are missing from the lock",
            why=f"the backend also requires {', '.join(unmet)} (get_requires_for_build_wheel)",
            fix=target.locked_build.way_to_add(*unmet),
        )
    yield from check_framework_headers(
        target, inputs, answer.standards, answer.sources, cache=cache
    )


def _check_run(target: Target, required: Iterable[str], source: str) -> Iterator[CuwheelError]:
    """Check the lock of each release of the framework that the wheel is tried with.

    Requirements on linked components don't count: the engine writes them itself.
    """
    required = tuple(required)
    without = {canonicalize_name(part.distribution) for part in cuda_components(target)}
    without |= {canonicalize_name(target.recipe.name), canonicalize_name(target.project)}
    for each in (target, *target.served):
        lacking = unlocked_requirements(
            required, each.smoke_lock, python=each.python, extra=each.extra, without=without
        )
        if lacking:
            yield PreflightError(
                "the finished wheel requires packages that the smoke test's lock doesn't have",
                why=f"{source} that it requires {', '.join(lacking)}; the smoke test installs "
                f"every package by hash, and {each.locked_smoke.path} has no matching one",
                fix=each.locked_smoke.way_to_add(*lacking),
            )


def _call_hooks(
    inputs: BuildInputs, path_map: PathMap, environment: Mapping[str, str], log: Path
) -> BackendAnswer | None:
    """Call the hooks where the build will run, on a copy of the source: they may write into it."""
    folder, system = inputs.tmp / "backend", read_build_system(inputs.tree)
    tree, output = folder / "tree", folder / "answer.json"
    shutil.copytree(inputs.tree, tree, symlinks=True)
    (folder / "metadata").mkdir()
    shutil.copyfile(_SCRIPT, folder / _SCRIPT.name)
    is_stated = stated_requirements(inputs.tree) is not None
    question = {
        "module": system.module,
        "object": system.object,
        "backend_path": system.backend_path,
        "metadata": "" if is_stated else str(folder / "metadata"),
    }
    argv = [inputs.python.python, folder / _SCRIPT.name, json.dumps(question), output]
    try:
        run(path_map.command(list(map(str, argv)), tree), env=environment, cwd=tree, log=log)
        return read_record(output, BackendAnswer)
    except (CommandFailedError, OSError):
        return None
    finally:
        remove_tree(folder)
