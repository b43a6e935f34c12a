"""Installation of a wheel and its requirements into a clean environment, by the smoke lock.

Most of the requirements are known before the wheel is there, and take longer than the wheel itself.
So they can be installed ahead; what the wheel then doesn't require is uninstalled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from packaging.utils import parse_wheel_filename

from cuwheel.base.errors import InstallError
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.parallel import Stop
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.environments.uv import install, make_environment
from cuwheel.build.finish.smoke.bytecode import bytecode_folder, lend_bytecode
from cuwheel.build.recipe.link import External
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.job import Job
from cuwheel.check.cuda.components import component_by_name

_READY = "ready"  # file next to an environment in which everything is installed ahead


def install_ahead(environment: Path, job: Job, stop: Stop) -> None:
    """Make an environment with the requirements of a target's wheel that its recipe shows.

    Nothing is downloaded: the build environment, made before, has filled the cache.

    Raises:
        LockError: the lock is damaged.
        InstallError: a package isn't in the cache.
        StoppedError: `stop` requested the end.
    """
    target, workspace, log = job.target, job.workspace, job.workspace.log("smoke")
    base = job.python.path
    make_environment(environment, base, workspace, log=log)
    stop.check()
    requirement = environment.with_name("ahead.txt")
    write_atomically(requirement, "".join(f"{pin}\n" for pin in _pins_ahead(target)))
    install(
        environment / "bin" / "python",
        target.smoke_lock,
        workspace,
        offline=True,
        log=log,
        only=requirement,
        stop=stop,
    )
    [site] = (environment.resolve() / "lib").glob("python*/site-packages")
    if job.sandbox != "none":
        lend_bytecode(bytecode_folder(job), site)
    write_atomically(environment.with_name(_READY), _identity(base, job))


def take_ahead(environment: Path, job: Job) -> bool:
    """Return True, only once, if an environment is as `install_ahead` leaves it for a job."""
    base = job.python.path
    ready = environment.with_name(_READY)
    with contextlib.suppress(FileNotFoundError):
        identity = read_text(ready)
        ready.unlink()
        return identity == _identity(base, job)
    return False


def install_wheel(environment: Path, base: Path, wheel: Path, sha256: str, job: Job) -> Path:
    """Make an environment with a wheel and its requirements, pinned and hashed by the smoke lock.

    The lock's other packages, the build's tools, are left out.

    Args:
        environment: its folder; if it exists, `install_ahead` made it.

    Returns:
        Its interpreter.

    Raises:
        InstallError: a requirement can't be installed, or isn't in the recipe's lock.
    """
    target, workspace, log = job.target, job.workspace, job.workspace.log("smoke")
    is_ahead = environment.is_dir()
    if not is_ahead:
        make_environment(environment, base, workspace, log=log)
    python = environment / "bin" / "python"
    add = partial(
        install,
        python,
        target.smoke_lock,
        workspace,
        log=log,
        only=_write_requirement(environment, wheel, sha256, target),
        unlocked_fix=_way_to_lock(target),
    )
    if is_ahead and not job.settings.offline:
        # Most is there, and pinned by hash; still uv would query the index for each package.
        with contextlib.suppress(InstallError):
            add(offline=True)
            return python
    add(offline=job.settings.offline)
    return python


def install_foreign_wheel(site: Path, wheel: Path, sha256: str, job: Job) -> None:
    """Install a wheel and its requirements for another kind of machine, whose code can't run here.

    Raises:
        InstallError: as `install_wheel`; or a package has no wheel for that machine.
    """
    target, workspace = job.target, job.workspace
    install(
        job.python.path,
        target.smoke_lock,
        workspace,
        offline=job.settings.offline,
        log=workspace.log("smoke"),
        machine=target.platform.machine,
        only=_write_requirement(site, wheel, sha256, target),
        unlocked_fix=_way_to_lock(target),
        into=site,
    )


def _write_requirement(folder: Path, wheel: Path, sha256: str, target: Target) -> Path:
    """Write the requirement of a wheel into a file next to a folder."""
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
    """Yield the lock's pins of a target's framework and, where the wheel brings none, of CUDA."""
    names = [target.framework.name] if target.framework else []
    if isinstance(target.mode, External):
        links = target.recipe.link.components
        components = (component_by_name(name, target.toolkit.major) for name in links)
        names += [component.distribution for component in components]
    for name in dict.fromkeys(names):
        if version := pinned_version(target.smoke_lock, name):
            yield f"{name}=={version}"


def _identity(base: Path, job: Job) -> str:
    """Return all that determines an environment's content.

    The sandbox too: made for one, it holds hard links to the cache's files, which a wheel could
    write without a sandbox.
    """
    return f"{base}\n{job.sandbox}\n{read_text(job.target.smoke_lock)}"
