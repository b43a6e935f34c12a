"""A clean environment for a wheel of another kind of machine, whose Python runs under QEMU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cuwheel.cross.emulation import cuda_of_root, emulated_system
from cuwheel.sandbox.confinement import Confinement
from cuwheel.smoke.environment import ENVIRONMENT, SmokeEnvironment
from cuwheel.smoke.hide_cuda import write_decoy
from cuwheel.smoke.loaded_libraries import own_libraries, owners
from cuwheel.smoke.packages import install_foreign_wheel
from cuwheel.smoke.probe import SCRIPT, Probe

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.cross.emulation import Emulator
    from cuwheel.workspace.job import Job, TargetRoot
    from cuwheel.workspace.records import RepairedWheel

_TIME_LIMIT = 3600.0  # seconds for the imports: a framework takes ten times as long as without QEMU


def prepare_emulated(  # noqa: PLR0913 - what, for what, and by what it runs
    folder: Path,
    wheel: RepairedWheel,
    job: Job,
    driver_stub: bytes | None,
    *,
    root: TargetRoot,
    emulator: Emulator,
) -> SmokeEnvironment:
    """Install a wheel where nothing else is, for the machine that it is for.

    Args:
        folder: for the environment; an absolute path with nothing there.
        wheel: what to install.
        job: of its build.
        driver_stub: as for `environment.prepare_environment`, for that machine.
        root: of the other machine.
        emulator: runs its Python.

    Raises:
        InstallError: what the wheel declares can't be installed, or isn't in the recipe's lock.
    """
    target, is_sandboxed = job.target, job.sandbox != "none"
    site = _make_environment(folder / ENVIRONMENT, root, is_sandboxed=is_sandboxed)
    install_foreign_wheel(site, wheel.path, wheel.sha256, job)
    decoy = write_decoy(folder / "no-library")
    stub = folder / "libcuda-stub.so" if driver_stub else None
    if stub and driver_stub:
        stub.write_bytes(driver_stub)
    owned = owners(site)
    environment = site.parent.parent.parent
    given = (SCRIPT, target.smoke_script, stub)
    confinement = Confinement(
        sandbox=job.sandbox,
        environment=environment,
        base=None,
        folder=environment.with_name("asked"),
        read=tuple(path.absolute() for path in given if path),
        system=emulated_system(root, target.platform, emulator, decoy),
        emulator=emulator.words(root, is_sandboxed=is_sandboxed),
    )
    probe = Probe(
        python=environment / "bin" / "python",
        site=site,
        owned=owned,
        confinement=confinement,
        log=job.workspace.log("smoke"),
        name=target.id,
        stub=stub,
        time_limit=_TIME_LIMIT,
    )
    cuda = cuda_of_root(root, target.platform)
    return SmokeEnvironment(
        probe=probe,
        hidden=cuda if is_sandboxed or not cuda else None,
        libraries=own_libraries(site, owned, parse_wheel_filename(wheel.path.name)[0]),
        sources={},
    )


def _make_environment(folder: Path, root: TargetRoot, *, is_sandboxed: bool) -> Path:
    """An empty environment of the root's Python, as its `venv` would make it (PEP 405).

    Returns:
        Its site-packages, links followed.
    """
    is_free_threaded = root.soabi.split("-")[1].endswith("t")
    name = f"python{root.release}{'t' if is_free_threaded else ''}"
    site = folder / "lib" / name / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    # As it is seen where the program runs.
    here = root.python if is_sandboxed else root.folder / root.python.relative_to("/")
    (folder / "bin" / "python").symlink_to(here)
    settings = f"home = {here.parent}\ninclude-system-site-packages = false\n"
    (folder / "pyvenv.cfg").write_text(settings, encoding="utf-8")
    return site.resolve()
