"""What is installed into a clean environment: a wheel and what it declares, by the smoke lock.

Most of that is known before the wheel is there, and takes longer than the wheel itself. So it can
be installed ahead; what the wheel then doesn't declare is taken out again.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cuwheel.cuda.components import component_by_name
from cuwheel.errors import InstallError
from cuwheel.model.link import External
from cuwheel.pypi.lock_file import pinned_version
from cuwheel.pypi.uv import install, install_into, make_environment
from cuwheel.smoke.bytecode import bytecode_folder, lend_bytecode
from cuwheel.system.files import write_atomically
from cuwheel.system.whole_files import read_text
from cuwheel.workspace.records import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.system.parallel import Stop
    from cuwheel.workspace.job import Job

_READY = "ready"  # file beside an environment that holds all that is installed ahead


def install_ahead(environment: Path, job: Job, stop: Stop) -> None:
    """Make an environment with what a target's wheel will declare, as far as its recipe tells.

    Nothing is downloaded: the build environment, made before, has filled the cache.

    Args:
        environment: its folder, which isn't there yet.
        job: of the wheel's build.
        stop: ends it early once it asks for that.

    Raises:
        LockError: the lock is damaged.
        InstallError: something isn't in the cache.
        StoppedError: `stop` asked for the end.
    """
    target, workspace, log = job.target, job.workspace, job.workspace.log("smoke")
    base = workspace.load("environment", Environment).base_python
    make_environment(environment, base, cache=workspace.cache, log=log)
    stop.check()
    requirement = environment.with_name("ahead.txt")
    write_atomically(requirement, "".join(f"{pin}\n" for pin in _pins_ahead(target)))
    install(
        environment / "bin" / "python",
        target.smoke_lock,
        cache=workspace.cache,
        offline=True,
        log=log,
        console=workspace.console,
        only=requirement,
        stop=stop,
    )
    [site] = (environment.resolve() / "lib").glob("python*/site-packages")
    lend_bytecode(bytecode_folder(job), site, sandbox=job.sandbox)
    write_atomically(environment.with_name(_READY), _identity(base, job))


def take_ahead(environment: Path, job: Job) -> bool:
    """Whether an environment is as `install_ahead` leaves it for a job; True only once.

    Args:
        environment: its folder; may not be there.
        job: of the wheel's build.
    """
    base = job.workspace.load("environment", Environment).base_python
    ready = environment.with_name(_READY)
    with contextlib.suppress(FileNotFoundError):
        identity = read_text(ready)
        ready.unlink()
        return identity == _identity(base, job)
    return False


def install_wheel(environment: Path, base: Path, wheel: Path, sha256: str, job: Job) -> Path:
    """An environment with a wheel and what it declares, pinned and hashed by the smoke lock.

    The lock's other packages, the build's tools, stay out.

    Args:
        environment: its folder; where it is there, it was made by `install_ahead`.
        base: the interpreter that it is made from.
        wheel: the file.
        sha256: of it.
        job: of its target.

    Returns:
        The environment's interpreter.

    Raises:
        InstallError: what the wheel declares can't be installed, or isn't in the recipe's lock.
    """
    target, workspace, log = job.target, job.workspace, job.workspace.log("smoke")
    was_made_ahead = environment.is_dir()
    if not was_made_ahead:
        make_environment(environment, base, cache=workspace.cache, log=log)
    python = environment / "bin" / "python"
    add = partial(
        install,
        python,
        target.smoke_lock,
        cache=workspace.cache,
        log=log,
        console=workspace.console,
        only=_write_requirement(environment, wheel, sha256, target),
        unlocked_fix=_way_to_lock(target),
    )
    if was_made_ahead and not job.settings.offline:
        # All of it is there, mostly, and pinned by hash; still uv would ask the index for each.
        with contextlib.suppress(InstallError):
            add(offline=True)
            return python
    add(offline=job.settings.offline)
    return python


def install_foreign_wheel(site: Path, wheel: Path, sha256: str, job: Job) -> None:
    """The same for another kind of machine, of whose packages nothing can run here.

    Args:
        site: an empty folder, which gets the packages.
        wheel: the file.
        sha256: of it.
        job: of its target.

    Raises:
        InstallError: as `install_wheel`; or something has no wheel for that machine.
    """
    target, workspace = job.target, job.workspace
    install_into(
        site,
        target.smoke_lock,
        python=job.python.path,
        cache=workspace.cache,
        offline=job.settings.offline,
        log=workspace.log("smoke"),
        console=workspace.console,
        machine=target.platform.machine,
        only=_write_requirement(site, wheel, sha256, target),
        unlocked_fix=_way_to_lock(target),
    )


def _write_requirement(folder: Path, wheel: Path, sha256: str, target: Target) -> Path:
    """Write what is to be installed into a file beside a folder."""
    project = parse_wheel_filename(wheel.name)[0]
    requirement = folder.with_name(f"{project}.txt")
    extra = f"[{target.extra}]" if target.extra else ""
    pinned = f"{project}{extra} @ {wheel.absolute().as_uri()}"
    write_atomically(requirement, f"{pinned} --hash=sha256:{sha256}\n")
    return requirement


def _way_to_lock(target: Target) -> str:
    return "the wheel requires it and the recipe's lock doesn't have it: " + (
        target.locked_smoke.way_to_add("it")
    )


def _pins_ahead(target: Target) -> Iterator[str]:
    """What the lock pins of a target's framework and, where the wheel brings none, of CUDA."""
    names = [target.framework.name] if target.framework else []
    if isinstance(target.mode, External):
        links = target.recipe.link.components
        found = (component_by_name(name, target.toolkit.major) for name in links)
        names += [component.distribution for component in found]
    for name in dict.fromkeys(names):
        if version := pinned_version(target.smoke_lock, name):
            yield f"{name}=={version}"


def _identity(base: Path, job: Job) -> str:
    """What decides which environment it is.

    The sandbox too: made for one, it holds names of the cache's files, which a wheel could write
    where there is none.
    """
    return f"{base}\n{job.sandbox}\n{read_text(job.target.smoke_lock)}"
