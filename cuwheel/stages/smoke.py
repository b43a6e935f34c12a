"""Stage smoke: install the wheel with only what it declares, import it, see what got loaded."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cuwheel.artefacts import Environment, RepairedWheel, Smoke
from cuwheel.errors import SmokeError
from cuwheel.files import naming_full_disk, remove_tree, write_atomically
from cuwheel.installer import install, make_environment
from cuwheel.linkage import component_of, is_cuda_library, is_from_driver
from cuwheel.lockfile import read_pins
from cuwheel.process import run
from cuwheel.wheelfile import open_wheel
from cuwheel.wheelmeta import header

if TYPE_CHECKING:
    from typing import Any

    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_PROBE = Path(__file__).parent.parent / "probes" / "smoke_probe.py"
_PATIENCE = 300.0  # seconds for an import; torch's takes several on a slow disk
_TRACEBACK = 6  # last lines of a traceback that the error shows


def smoke(target: Target, space: Workspace) -> Smoke:
    """See that the wheel works where nothing else is installed.

    `LD_LIBRARY_PATH`, `PYTHONPATH` and every other variable of the caller are absent, so a library
    that was found was found through the wheel's own rpath or the framework.

    Raises:
        SmokeError: an import or the recipe's call failed, or a library came from elsewhere.
        InstallError: what the wheel declares can't be installed.
    """
    wheel = space.load("repair", RepairedWheel)
    folder = space.work / "smoke"
    remove_tree(folder)
    with naming_full_disk(space.work):
        python = _clean_environment(folder, wheel, target, space)
        answer = _ask(python, target)
    _check_answer(answer, target)
    site = Path(answer["site"])
    libraries = [path for path in map(Path, answer["libraries"]) if _is_of_interest(path.name)]
    _check_origins(libraries, site, target)
    inside = [path for path in libraries if path.is_relative_to(site)]
    remove_tree(folder)
    return Smoke(
        sha256=wheel.sha256,
        imported=tuple(answer["imported"]),
        libraries=tuple((path.name, str(path.relative_to(site))) for path in inside),
    )


def _clean_environment(
    folder: Path, wheel: RepairedWheel, target: Target, space: Workspace
) -> Path:
    log = space.log("smoke")
    log.unlink(missing_ok=True)
    base = space.load("environment", Environment)
    make_environment(folder, base.base_python, cache=space.cache, log=log)
    requirements = space.work / "smoke.txt"
    write_atomically(requirements, _requirements(wheel, target, base))
    python = folder / "bin" / "python"
    install(
        python,
        requirements,
        cache=space.cache,
        offline=space.offline,
        log=log,
        console=space.console,
    )
    return python


def _requirements(wheel: RepairedWheel, target: Target, base: Environment) -> str:
    """The wheel, and what it declares, each pinned and hashed as in the recipe's lock.

    The lock holds the build's tools as well; they must not be there, so what the wheel needs is
    followed from package to package through the metadata that the build environment has of them.
    """
    pins = {canonicalize_name(pin.requirement.name): pin for pin in _valid_pins(target, base)}
    with open_wheel(wheel.path) as opened:
        declared = header(opened.read_text("METADATA"), "Requires-Dist")
    needed = _closure(declared, base, target)
    lines = [f"{target.recipe.name} @ {wheel.path.as_uri()} --hash=sha256:{wheel.sha256}"]
    for name in sorted(needed):
        if name not in pins:
            raise SmokeError(
                f"{target.id}: the wheel requires {name}, which the recipe's lock doesn't hold",
                why="the smoke test installs only what was locked with a hash",
                fix=f"add {name} to envs/build/{target.recipe.folder}.in, then "
                f"`nox -s lock -- build:{target.recipe.name}`",
            )
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in pins[name].hashes)
        lines.append(f"{name}=={pins[name].version} {hashes}")
    return "\n".join(lines) + "\n"


def _valid_pins(target: Target, base: Environment) -> list[Any]:
    """The pins of the lock that hold for the environment's Python."""
    markers = {"python_version": target.python, "python_full_version": base.base_version}
    return [
        pin
        for pin in read_pins(target.lock)
        if pin.requirement.marker is None or pin.requirement.marker.evaluate(markers)
    ]


def _closure(declared: tuple[str, ...], base: Environment, target: Target) -> set[str]:
    """Names of everything that these requirements bring, extras they ask for included."""
    site = [str(base.site_packages)]
    installed = {
        canonicalize_name(found.metadata["Name"]): found.requires or ()
        for found in importlib.metadata.distributions(path=site)
    }
    markers = {"python_version": target.python, "python_full_version": base.base_version}
    seen: set[tuple[str, str]] = set()
    queue = [(Requirement(text), "") for text in declared]
    while queue:
        wanted, extra = queue.pop()
        if wanted.marker and not wanted.marker.evaluate({**markers, "extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        for asked in ("", *wanted.extras):
            if (name, asked) not in seen:
                seen.add((name, asked))
                queue += [(Requirement(text), asked) for text in installed.get(name, ())]
    return {name for name, _ in seen}


def _ask(python: Path, target: Target) -> dict[str, Any]:
    wanted = target.recipe.smoke
    question = {"imports": wanted.imports, "call": wanted.call, "expect": wanted.expect}
    finished = run(
        [python, "-I", "-W", "ignore", _PROBE, json.dumps(question)],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        timeout=_PATIENCE,
        check=False,
    )
    lines = finished.output.strip().splitlines()
    if finished.status == 0 and lines:
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer
    raise SmokeError(
        f"{target.id}: the interpreter died while it imported the wheel",
        why=f"it ended with status {finished.status}" + (f": {lines[-1]}" if lines else ""),
        fix="a crash at import is most often a library built for another release of the framework",
    )


def _check_answer(answer: dict[str, Any], target: Target) -> None:
    wanted = target.recipe.smoke
    if answer["error"]:
        last = "\n    ".join(answer["error"].strip().splitlines()[-_TRACEBACK:])
        raise SmokeError(
            f"{target.id}: the installed wheel doesn't work",
            why=f"in a clean environment:\n    {last}",
            fix="undefined symbols: the framework differs from the one built against; a library "
            "that can't be opened: declare its component in the recipe's `link`",
        )
    if wanted.expect and answer["value"] != wanted.expect:
        raise SmokeError(
            f"{target.id}: {wanted.call} gives {answer['value']}, not {wanted.expect}",
            why="the recipe's smoke test says what it has to give",
            fix="correct the package or the recipe",
        )


def _is_of_interest(name: str) -> bool:
    return is_cuda_library(name) or component_of(name) is not None


def _check_origins(libraries: list[Path], site: Path, target: Target) -> None:
    """Only the driver's own libraries may come from the machine."""
    foreign = [
        path
        for path in libraries
        if not is_from_driver(path.name) and not path.is_relative_to(site)
    ]
    if foreign:
        raise SmokeError(
            f"{target.id}: {len(foreign)} libraries were taken from the machine, not from wheels",
            why="; ".join(f"{path.name} is {path}" for path in foreign),
            fix="declare the component in the recipe's `link`, so that the wheel requires and finds "
            "it; such a wheel works only where the library lies about by chance",
        )
