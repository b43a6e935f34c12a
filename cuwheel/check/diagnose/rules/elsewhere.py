"""Verdicts on what is elsewhere: projects, the `python` on `PATH`, the Python of a notebook."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.system.process import output_within, which
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.check.cuda.frameworks import version_constants
from cuwheel.check.diagnose.facts.environment import ChosenPython, Distribution, PythonEnvironment
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.import_failures import FIRST
from cuwheel.check.diagnose.verdict import Diagnosis, broken, warns

_PREFIXES = ("PIP_PREFIX", "VIRTUAL_ENV", "CONDA_PREFIX")  # that an installer may write below

_PREFIX_LIMIT = 5.0  # seconds
_NATIVE = "python3"  # the kernel of Jupyter's own environment


def judge_active(
    chosen: ChosenPython, environment: PythonEnvironment, environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Yield a verdict where `python` doesn't start the active environment's."""
    path = environ.get("PATH", os.defpath)
    program = which("python", path) or which("python3", path)
    if not chosen.is_active or not program:
        return
    command = [program, "-c", "import sys; print(sys.prefix)"]  # as one may be pyenv's shim
    lines = output_within(command, _PREFIX_LIMIT, environ)[0].splitlines()
    if not lines or os.path.realpath(lines[-1]) == os.path.realpath(environment.prefix):
        return
    activate = environment.prefix / "bin/activate"
    start = f". {shlex.quote(str(activate))}" if activate.is_file() else ""
    yield warns(
        "python-not-found",
        f"{chosen.how} is {environment.prefix}, and `python` starts {program}",
        f"that one comes first on PATH, and its environment is {lines[-1]}: what runs with "
        "`python` or `pip` doesn't see the packages of this report",
        f"activate the environment again, or unset {chosen.how[1:]} if {program} is the right one",
        start,
    )


def judge_kernels(
    environment: PythonEnvironment, environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Yield a verdict on each kernel of Jupyter for this environment that starts another Python."""
    home = environ.get("HOME") or str(Path.home())
    users = environ.get("JUPYTER_DATA_DIR") or f"{home}/.local/share/jupyter"
    has_own = (environment.prefix / "share/jupyter/kernels" / _NATIVE).is_dir()
    for folder in dict.fromkeys((environment.prefix / "share/jupyter", Path(users))):
        for file in sorted(folder.glob("kernels/*/kernel.json")):
            program, name = _program_of(file), file.parent.name
            is_inside = file.is_relative_to(environment.prefix)
            is_ours = name == environment.prefix.name or (
                name == _NATIVE and (is_inside or not has_own)
            )
            is_same = program and _folder_of(program) == _folder_of(environment.python)
            if not program or is_same or "ipykernel" not in environment.distributions:
                continue
            if is_ours or not program.exists():
                absent = "" if program.exists() else ", which isn't there"
                words = f"-m ipykernel install --prefix {environment.prefix} --name {name}"
                again = shlex.join((str(environment.python), *words.split(" ")))
                yield warns(
                    "python-not-found",
                    f"the kernel {name} of Jupyter starts {program}{absent}",
                    f"{file} names it, so notebooks don't run in {environment.prefix}",
                    "install the kernel of this environment again"
                    if is_ours
                    else f"remove {file.parent}, or install the kernel of its environment again",
                    again if is_ours else shlex.join(("rm", "-r", str(file.parent))),
                )


def _program_of(file: Path) -> Path | None:
    """Return the program that a kernel.json starts by its path; None: another one, or none."""
    try:
        words = parse_json(read_text(file))["argv"]
        return Path(words[0]) if str(words[0]).startswith("/") else None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _folder_of(program: Path) -> str:
    return os.path.realpath(program.parent)


def judge_absent(context: RuleContext, project: str, name: str) -> Diagnosis:
    """Judge a project that isn't installed.

    Args:
        name: as it was given, which may be a module's.
    """
    folder = _left_folder(context, name)
    if folder and not _has_other_cause(context, project):
        return _without_metadata(context, name, folder)
    fix = "install it, or name another environment with --python"
    command, cause = context.installer.install(project), "has no distribution of that name"
    if elsewhere := _elsewhere(context, project):
        cause += f"; {elsewhere} has one, and isn't on its sys.path"
        is_users = elsewhere.is_relative_to(_users_base(context))
        is_kept_from = is_users and context.environ.get("PYTHONNOUSERSITE")
        if is_kept_from and not (context.environment.prefix / "pyvenv.cfg").is_file():
            cause += ", as PYTHONNOUSERSITE keeps it from there"
            fix = command = "unset PYTHONNOUSERSITE"
    if _has_other_cause(context, project):
        fix, command = FIRST, ""
    return broken(
        "diagnose-not-installed",
        f"{name} isn't installed",
        f"{context.environment.python} {cause}",
        fix,
        command,
    )


def _users_base(context: RuleContext) -> Path:
    environ = context.environ
    home = environ.get("HOME", "/nonexistent")
    return Path(environ.get("PYTHONUSERBASE") or f"{home}/.local")


def _elsewhere(context: RuleContext, project: str) -> Path | None:
    """Return a folder of packages that pip writes into by mistake, and that has a project."""
    environment, environ = context.environment, context.environ
    prefixes = [_users_base(context), *(Path(environ.get(name) or "/-") for name in _PREFIXES)]
    inside = f"lib/python{environment.release}/site-packages"
    folders = [Path(environ.get("PIP_TARGET") or "/-"), *(one / inside for one in prefixes)]
    folders.append(Path(f"{environment.scheme.get('stdlib')}/site-packages"))
    for folder in dict.fromkeys(folders):
        found = folder.glob("*.dist-info") if folder not in environment.sites else ()
        if any(canonicalize_name(one.name.partition("-")[0]) == project for one in found):
            return folder
    return None


def _left_folder(context: RuleContext, name: str) -> Path | None:
    """Return the folder of a module in the environment's own packages that is nobody's."""
    module, environment = name.replace("-", "_").lower(), context.environment
    own = {environment.scheme.get(kind) for kind in ("purelib", "platlib")} - {None}
    if environment.is_conda or any(_has(one, module) for one in environment.distributions.values()):
        return None
    return next((site / module for site in own if site and (site / module).is_dir()), None)


def _has(distribution: Distribution, module: str) -> bool:
    try:
        rows = read_text(distribution.metadata / "RECORD").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(row.startswith(f"{module}/") for row in rows)


def _has_other_cause(context: RuleContext, project: str) -> bool:
    """Return True if the environment isn't whole: what it holds is for another Python, or lost."""
    environment, obstacle = context.environment, context.installer.obstacle
    names = {lost.name for lost in environment.lost}
    for site in environment.prefix.glob("lib/python3.*/site-packages"):
        if site not in environment.sites:
            found = site.glob("*.dist-info")
            names.update(canonicalize_name(one.name.partition("-")[0]) for one in found)
    return project in names or bool(obstacle and obstacle.level == "broken")


def _without_metadata(context: RuleContext, name: str, folder: Path) -> Diagnosis:
    constants = version_constants(folder / "version.py")
    release = str(constants.get("__version__") or "")
    of = f" {release}" if release else ""
    # A local version, `+cpu`, is on no index that is known here.
    again = (
        context.installer.install(f"{name}=={release}") if release and "+" not in release else ""
    )
    return broken(
        "diagnose-damaged-installation",
        f"{name} has files and no metadata",
        f"{folder} is there{of and f', of release{of}'}, and no .dist-info of it: an installation "
        "or a removal was interrupted",
        f"install the same build{of} again, from where it came: its files are written anew",
        again,
    )
