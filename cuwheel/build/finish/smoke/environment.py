"""A clean environment for a wheel: only its requirements, and the machine's CUDA hidden.

A wheel of another kind of machine has its Python under QEMU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel.build.finish.smoke.bytecode import bytecode_folder, keep_bytecode, lend_bytecode
from cuwheel.build.finish.smoke.hide_cuda import find_cuda, write_decoy
from cuwheel.build.finish.smoke.loaded_libraries import own_libraries, owners
from cuwheel.build.finish.smoke.packages import install_foreign_wheel, install_wheel
from cuwheel.build.finish.smoke.probe import SCRIPT, TIME_LIMIT, Probe, SmokeAnswer
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.build.toolchains.cross.emulation import Emulator, cuda_of_root, emulated_system
from cuwheel.build.workspace.job import Job, TargetRoot
from cuwheel.build.workspace.records import RepairedWheel

ENVIRONMENT = "environment"  # below the folder of one
# Seconds for the imports under QEMU: a framework takes ten times as long as without it.
_EMULATED_TIME_LIMIT = 3600.0


@dataclass(frozen=True, kw_only=True)
class SmokeEnvironment:
    """The environment in which a wheel is tried.

    Attributes:
        hidden: the machine's CUDA that can't be seen there; None: no sandbox hides it.
    """

    probe: Probe
    hidden: tuple[Path, ...] | None
    libraries: tuple[str, ...]

    def compile_imported(self, answer: SmokeAnswer, job: Job) -> None:
        """Compile the modules that a process has imported, for later processes and wheels."""
        base = self.probe.confinement.base
        # Another kind of machine's, or nothing protects the environment
        if base is None or job.sandbox == "none":
            return
        site, kept = self.probe.site, bytecode_folder(job)
        is_new = keep_bytecode(
            kept,
            site,
            canonicalize_name(job.target.project),
            imported=answer.sources,
            python=base,
        )
        if is_new:
            lend_bytecode(kept, site)


def prepare_environment(
    folder: Path,
    wheel: RepairedWheel,
    job: Job,
    driver_stub: bytes | None,
    emulator: Emulator | None = None,
) -> SmokeEnvironment:
    """Install a wheel where nothing else is, and hide the machine's CUDA.

    Args:
        folder: for the environment; an absolute path with nothing there, except from
            `packages.install_ahead`.
        job: of its build; the target's smoke lock pins the releases that are installed with it.
        driver_stub: replaces a driver that isn't there; None: none.
        emulator: runs a wheel of another kind of machine in that machine's root.

    Raises:
        InstallError: a requirement can't be installed, or isn't in the recipe's lock.
    """
    target, root = job.target, job.machine.target_root
    environment, is_sandboxed = folder / ENVIRONMENT, job.sandbox != "none"
    # The environment can't be written: its files may be hard links to those in the installer's
    # cache.
    confinement = Confinement(
        sandbox=job.sandbox, environment=environment, base=None, folder=folder / "output"
    )
    if root and emulator:
        site = _make_environment(environment, root, is_sandboxed=is_sandboxed)
        install_foreign_wheel(site, wheel.path, wheel.sha256, job)
        cuda = cuda_of_root(root, target.platform)
        decoy = write_decoy(folder / "no-library")
        system = emulated_system(root, target.platform, emulator, decoy)
        command = emulator.command(root, is_sandboxed=is_sandboxed)
        confinement = replace(confinement, system=system, emulator=command)
    else:
        base = job.python.path
        install_wheel(environment, base, wheel.path, wheel.sha256, job)
        [site] = (environment.resolve() / "lib").glob("python*/site-packages")
        if is_sandboxed:
            lend_bytecode(bytecode_folder(job), site)
        kept = (job.workspace.cache, job.workspace.work, base.resolve().parent.parent)
        cuda = find_cuda(job.workspace.environ, base, keep=(environment, *kept))
        decoy = write_decoy(folder / "no-library")
        confinement = replace(confinement, base=base, covered=cuda, decoy=decoy, has_gpu=True)
    stub = folder / "libcuda-stub.so" if driver_stub else None
    if stub and driver_stub:
        stub.write_bytes(driver_stub)
    read = tuple(path.absolute() for path in (SCRIPT, target.smoke_script, stub) if path)
    owned = owners(site)
    probe = Probe(
        python=environment / "bin" / "python",
        site=site,
        owned=owned,
        confinement=replace(confinement, read=read),
        log=job.workspace.log("smoke"),
        name=target.id,
        stub=stub,
        time_limit=_EMULATED_TIME_LIMIT if emulator else TIME_LIMIT,
    )
    return SmokeEnvironment(
        probe=probe,
        hidden=cuda if is_sandboxed or not cuda else None,
        libraries=own_libraries(site, owned, parse_wheel_filename(wheel.path.name)[0]),
    )


def _make_environment(folder: Path, root: TargetRoot, *, is_sandboxed: bool) -> Path:
    """Make an empty environment of the root's Python, as its `venv` would (PEP 405).

    Returns:
        Its site-packages, links followed.
    """
    is_free_threaded = root.soabi.split("-")[1].endswith("t")
    name = f"python{root.release}{'t' if is_free_threaded else ''}"
    site = folder / "lib" / name / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    # By the path that the program sees.
    python = root.python if is_sandboxed else root.folder / root.python.relative_to("/")
    (folder / "bin" / "python").symlink_to(python)
    settings = f"home = {python.parent}\ninclude-system-site-packages = false\n"
    (folder / "pyvenv.cfg").write_text(settings, encoding="utf-8")
    return site.resolve()
