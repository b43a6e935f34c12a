"""Verdicts on files that hide installed packages, or modules of Python itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuwheel.base.system.quantities import plural
from cuwheel.check.diagnose.facts.installed_files import Shadow, named_files
from cuwheel.check.diagnose.facts.startup import removal_of, startup_file_with
from cuwheel.check.diagnose.facts.variables import without_entry
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.requirements import requirers
from cuwheel.check.diagnose.verdict import Diagnosis, broken, warns

WITHOUT_USERS = "export PYTHONNOUSERSITE=1"
_OF_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_STARTS = (
    "Python puts that folder first for a prompt, `python -m`, `python -c` and its own programs"
)


def judge_shadows(context: RuleContext, shadows: Iterable[Shadow]) -> Iterator[Diagnosis]:
    """Yield a verdict on each file that hides something."""
    by_file: dict[Path, list[Shadow]] = {}
    for shadow in shadows:
        by_file.setdefault(shadow.path, []).append(shadow)
    for group in by_file.values():
        yield _judge(context, group[0], len(group) - 1)


def _judge(context: RuleContext, shadow: Shadow, others: int) -> Diagnosis:
    hidden = context.environment.distributions.get(shadow.distribution)
    title = hidden.title if hidden else f"Python's own module {shadow.module}"
    title += f" and {plural(others, 'more package')}" if others else ""
    site = hidden.site if hidden else context.environment.scheme["stdlib"]
    where = f"{shadow.entry} comes before {site} on sys.path"
    takes = f"`import {shadow.module}` imports the file there"
    if shadow.entry == site:
        where = f"{shadow.path.name} and the folder {shadow.module} are in {site}"
        takes = f"`import {shadow.module}` imports the file, as the folder has no __init__.py"
    what = f"{shadow.path} hides {title}"
    if shadow.is_start:
        what, where = f"{what} from what is started in {shadow.entry}", _STARTS
    naming = startup_file_with(context.environment.sites, str(shadow.entry))
    where += f", as {naming} puts it there" if naming and not shadow.is_start else ""
    cause = f"{where}, so {takes}"
    if shadow.user:
        user = shadow.user.relative_to(context.environment.prefix)
        cause = f"{cause}; {user} needs Python's own later"
    judged = warns if shadow.user else broken
    fix, command = fix_shadow(context, shadow)
    return judged("diagnose-shadowed-module", what, cause, fix, command)


def fix_shadow(  # noqa: PLR0911 - a way for each place
    context: RuleContext, shadow: Shadow
) -> tuple[str, str]:
    """Return the fix of a file that hides something, and its command; empty without one."""
    if shadow.is_start:
        return _renaming(shadow.path)
    if command := without_folder(context, shadow.entry):
        return f"remove {shadow.entry} from PYTHONPATH, or rename the file", command
    if is_users_folder(context, shadow.entry):
        return "uninstall what is in that folder, or keep Python from it", WITHOUT_USERS
    naming = startup_file_with(context.environment.sites, str(shadow.entry))
    installed = context.environment.distributions.values()
    owner = next((own for own in installed if shadow.path in named_files(own)), None)
    if owner and (users := requirers(context.environment).get(owner.name)):
        return f"{min(users)} requires {owner.name}: use a separate environment for each", ""
    if owner and not naming:
        return f"uninstall {owner.title}, whose file it is", context.installer.remove((owner.name,))
    if naming:
        fix = f"remove the line with {shadow.entry} from {naming}, or rename the file"
        return fix, removal_of(naming, str(shadow.entry), installed)
    return _renaming(shadow.path)[0], ""


def _renaming(path: Path) -> tuple[str, str]:
    """Return fix and command; the folder of a project that someone works on keeps its name."""
    kind = "file"
    if path.name == "__init__.py":
        kind, path = "folder", path.parent
        if any((path.parent / file).exists() for file in _OF_PROJECT):
            return "start in another folder: here is the source of a project", ""
    is_source = kind == "folder" or path.suffix == ".py"
    command = shlex.join(("mv", str(path), str(path.with_name(f"my_{path.name}"))))
    return f"rename the {kind}", command * is_source


def is_users_folder(context: RuleContext, site: Path) -> bool:
    """Return True for the folder of `pip install --user`."""
    environ = context.environ
    base = environ.get("PYTHONUSERBASE") or f"{environ.get('HOME', '/nonexistent')}/.local"
    return site.is_relative_to(base) and site not in context.environment.scheme.values()


def without_folder(context: RuleContext, folder: Path) -> str:
    """Return the command that removes a folder from PYTHONPATH; empty if it isn't in there."""
    change = without_entry(context.environ, "PYTHONPATH", str(folder))
    return change.command if change else ""
