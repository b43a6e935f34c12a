"""A new environment with a locked stack, and the proof that its packages can be loaded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.caller import Caller
from cuwheel.base.errors import SmokeError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import empty, remove_tree
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.build.environments.installed import damaged_projects
from cuwheel.build.environments.uv import OWN_PYTHON, forget, make_environment, run_uv
from cuwheel.build.finish.smoke.loaded_libraries import owners
from cuwheel.build.finish.smoke.probe import SCRIPT, Probe, SmokeAnswer
from cuwheel.build.finish.smoke.top_modules import top_modules
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.target import declared_target
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.confinement import Confinement, confine_environment
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.check.cuda.suppliers import DRIVER_SONAME
from cuwheel.check.diagnose.facts.environment import PythonEnvironment, read_environment
from cuwheel.publish.stack.lock import StackLock, write_lock

LOCK_NAME = "pylock.toml"
_ANY_PYTHON = "3.12"  # of a target whose imports are read


@dataclass(frozen=True, kw_only=True)
class LoadProof:
    """The import of a package in the new environment, in a process of its own.

    Attributes:
        project: normalised name.
        imported: modules that were.
        libraries: of CUDA, framework and driver that were loaded, each with its supplier.
        left_out: why nothing was imported; empty: it was.
    """

    project: str
    imported: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class GetOptions:
    """Options of `get`.

    Attributes:
        folder: of the new environment.
        python: the interpreter that it is made from.
        lock: the file for the lock.
        projects: to import.
        sandbox: `--sandbox`, for the imports.
    """

    folder: Path
    python: Path
    lock: Path
    projects: tuple[str, ...]
    environ: Mapping[str, str]
    sandbox: str = "auto"


def get_stack(
    lock: StackLock,
    options: GetOptions,
    entries: Iterable[CatalogueEntry],
    console: Console,
    caller: Caller,
) -> tuple[LoadProof, ...]:
    """Make an environment, install a lock into it, and import its packages.

    Args:
        entries: recipes, which know what to import.

    Raises:
        UsageError: the folder is there.
        InstallError: it can't be made, or a file is missing or has another hash; the folder is
            removed, as after any other error and an interrupt.
        SmokeError: a package can't be imported; the environment is kept.
    """
    sandbox = choose_sandbox(options.sandbox)
    workspace = bare_workspace(console, caller)
    logs = caller.cache / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / "get.log"
    with _new_folder(options.folder), temporary_folder() as folder:
        make_environment(options.folder, options.python, workspace, log=log)
        # Before any package is there: a `.pth` of one would run at each start of Python.
        environment = read_environment(options.folder / "bin" / "python", options.environ)
        prover = _Prover(
            environment=environment,
            site=environment.scheme["purelib"],  # which is for both kinds here
            place=confine_environment(
                environment.python,
                environment.prefix,
                environment.sites,
                sandbox,
                folder / "interpreter",
            ),
            declared=dict(_declared_imports(entries)),
            log=log,
        )
        write_lock(lock, options.lock)
        _sync(options, console, caller, log)
        if damaged := damaged_projects(prover.site):
            console.warn(f"files of {', '.join(damaged)} differ from RECORD: downloaded again")
            forget(damaged, workspace)
            empty(options.folder)
            make_environment(options.folder, options.python, workspace, log=log)
            write_lock(lock, options.lock)
            _sync(options, console, caller, log)
        with console.live("importing the packages"):
            return tuple(map(prover.prove, options.projects))


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Create a folder, and remove it if the block fails, unless packages can't be imported.

    What another process or the user has in its place stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        raise folder_exists(folder) from None
    own = folder.stat()
    try:
        yield
    except SmokeError:
        raise
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(own, folder.lstat()):
                remove_tree(folder)
        raise


def folder_exists(folder: Path) -> UsageError:
    """Return the error for a folder that isn't new."""
    return UsageError(
        f"{folder} exists already",
        why="`get` makes a new environment, so that nothing that is installed changes",
        fix="name another folder with --to, or remove this one",
    )


def _declared_imports(entries: Iterable[CatalogueEntry]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the imports of each recipe's smoke test, by the wheel's project."""
    for entry in entries:
        recipe = entry.recipe
        for release in recipe.toolkits if recipe else ():
            if recipe:
                target = declared_target(recipe, release, _ANY_PYTHON, entry.root)
                yield canonicalize_name(target.project), recipe.smoke.imports


def _sync(options: GetOptions, console: Console, caller: Caller, log: Path) -> None:
    """Install what the lock names, each file by its hash.

    Copies: writing into a file with several names would change uv's cache too.
    """
    python = (options.folder / "bin" / "python").absolute()
    strict = ("--only-binary", ":all:", "--link-mode", "copy", "--require-hashes")
    with console.live("installing") as line:
        run_uv(
            ("pip", "sync", *strict, *OWN_PYTHON, python, options.lock.absolute()),
            cache=caller.cache,
            environ=options.environ,
            log=log,
            what=f"the packages of {options.lock.name} could not be installed",
            show=line.show,
            with_pips=True,
        )


@dataclass(frozen=True, kw_only=True)
class _Prover:
    environment: PythonEnvironment
    site: Path
    place: Confinement
    declared: Mapping[str, tuple[str, ...]]
    log: Path

    def prove(self, project: str) -> LoadProof:
        """Import a package; raise SmokeError if that fails, unless only the driver is missing."""
        there = self.environment
        probe = Probe(
            python=there.python,
            site=self.site.resolve(),
            owned=owners(self.site),
            confinement=replace(self.place, read=(*self.place.read, SCRIPT)),
            log=self.log,
            name=project,
        )
        imports = self.declared.get(project) or top_modules(self.site, project)
        if not imports:
            return LoadProof(project=project, left_out="it has no module to import")
        answer = probe.run(imports=imports)
        if answer.lacking == DRIVER_SONAME:
            why = f"{DRIVER_SONAME} of NVIDIA's driver is missing"
            return LoadProof(project=project, left_out=why)
        if answer.failure:
            raise SmokeError(
                f"{project} can't be imported in {there.prefix}",
                why=answer.last_line,
                fix=f"the environment is kept: `nox -s diagnose -- {project} --python "
                f"{there.prefix}` says what is wrong with it",
            )
        loads = tuple(_loads(answer))
        return LoadProof(project=project, imported=answer.imported, libraries=loads)


def _loads(answer: SmokeAnswer) -> Iterator[tuple[str, str]]:
    for load in answer.loads:
        yield load.soname, load.supplier or load.location
