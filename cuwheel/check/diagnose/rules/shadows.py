"""Verdicts on files that hide installed packages, or modules of Python itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import read_text
from cuwheel.check.diagnose.facts.installed_files import Shadow, named_files
from cuwheel.check.diagnose.facts.variables import without_entry
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.requirements import requirers
from cuwheel.check.diagnose.verdict import Diagnosis, broken, warns

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
    cause = f"{where}, so {takes}"
    if shadow.user:
        user = shadow.user.relative_to(context.environment.prefix)
        cause = f"{cause}; {user} needs Python's own later"
    judged = warns if shadow.user else broken
    fix, command = fix_shadow(context, shadow)
    return judged("diagnose-shadowed-module", what, cause, fix, command)


def fix_shadow(context: RuleContext, shadow: Shadow) -> tuple[str, str]:
    """Return the fix of a file that hides something, and its command; empty without one."""
    if shadow.is_start:
        return "rename the file", ""
    if command := without_folder(context, shadow.entry):
        return f"remove {shadow.entry} from PYTHONPATH, or rename the file", command
    installed = context.environment.distributions.values()
    owner = next((own for own in installed if shadow.path in named_files(own)), None)
    if owner and (users := requirers(context.environment).get(owner.name)):
        return f"{min(users)} requires {owner.name}: use a separate environment for each", ""
    if owner:
        return f"uninstall {owner.title}, whose file it is", context.installer.remove((owner.name,))
    if naming := startup_file_with(context, shadow.entry):
        return f"rename the file, or remove the line with {shadow.entry} from {naming}", ""
    return "rename the file", ""


def without_folder(context: RuleContext, folder: Path) -> str:
    """Return the command that removes a folder from PYTHONPATH; empty if it isn't in there."""
    change = without_entry(context.environ, "PYTHONPATH", str(folder))
    return change.command if change else ""


def startup_file_with(context: RuleContext, folder: Path) -> Path | None:
    """Return the startup file that names a folder; None: there is none."""
    sites = filter(Path.is_dir, context.environment.sites)
    files = (file for site in sites for file in _startup_files(site))
    return next((file for file in files if _mentions(file, folder)), None)


def _startup_files(site: Path) -> Iterator[Path]:
    yield from sorted(site.glob("*.pth"))
    yield from (site / name for name in ("sitecustomize.py", "usercustomize.py"))


def _mentions(file: Path, folder: Path) -> bool:
    try:
        return str(folder) in read_text(file)
    except (OSError, UnicodeDecodeError):
        return False
