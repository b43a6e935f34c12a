"""Verdicts on projects that were given, and that no metadata show."""

from __future__ import annotations

from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.system.regular_files import read_text
from cuwheel.check.cuda.frameworks import version_constants
from cuwheel.check.diagnose.facts.environment import Distribution
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.import_failures import FIRST
from cuwheel.check.diagnose.verdict import Diagnosis, broken

_PREFIXES = ("PIP_PREFIX", "VIRTUAL_ENV", "CONDA_PREFIX")  # that an installer may write below


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
