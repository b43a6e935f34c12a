"""Commands that change an environment: of its own pip, or else of uv."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.base.system.process import which
from cuwheel.base.system.regular_files import read_text
from cuwheel.check.diagnose.facts.builds import was_built_here
from cuwheel.check.diagnose.facts.environment import ChosenPython, Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.installed_files import missing_of_pip
from cuwheel.check.diagnose.facts.installer_settings import InstallerSetting, read_settings
from cuwheel.check.diagnose.facts.machine import full_file_system
from cuwheel.check.diagnose.facts.startup import hides_users
from cuwheel.check.diagnose.verdict import Diagnosis, broken, notes, warns

_ALONE = ("--no-deps",)
# Variables of pip (each option is one: its documentation, "Environment Variables") with which an
# installation doesn't end as this report expects.
_MISLEADING = {
    "PIP_TARGET": "pip installs into that folder, which isn't the environment's",
    "PIP_PREFIX": "pip installs below that folder, which isn't the environment's",
    "PIP_ROOT": "pip installs below that folder, which isn't the environment's",
    "PIP_USER": "pip installs into the user's folder, not into the environment",
    "PIP_NO_DEPS": "pip installs nothing that a package requires",
    "PIP_DRY_RUN": "pip installs nothing",
    "PIP_NO_BINARY": "pip builds those packages from their sources, and takes no wheel",
    "PIP_NO_INDEX": "pip asks no index",
    "PIP_PYTHON": "pip installs for that Python, not into the environment",
    "PIP_PLATFORM": "pip takes wheels for that platform, and installs them with --target only",
    "PIP_PYTHON_VERSION": "pip takes wheels for that Python, and installs them with --target only",
    "PIP_REQUIRE_HASHES": "pip refuses what is given without a hash",
}
_MISLEADING_UV = {
    "UV_TARGET": "uv installs into that folder, which isn't the environment's",
    "UV_PREFIX": "uv installs below that folder, which isn't the environment's",
    "UV_NO_DEPS": "uv installs nothing that a package requires",
    "UV_OFFLINE": "uv downloads nothing",
    "UV_NO_INDEX": "uv asks no index",
    "UV_REQUIRE_HASHES": "uv refuses what is given without a hash",
}
# With these an index isn't needed, or there is none.
_LOCAL = {"PIP_NO_INDEX": "PIP_FIND_LINKS", "UV_NO_INDEX": "UV_FIND_LINKS"}
_WITHOUT_FILES = {True: f"PIP_CONFIG_FILE={os.devnull}", False: "UV_NO_CONFIG=1"}
_LIMITS = {True: "PIP_CONSTRAINT", False: "UV_CONSTRAINT"}  # of pip, and of uv
# What commands need nevertheless: where packages come from.
_CARRIED = re.compile(r"(PIP|UV)_((EXTRA_)?INDEX_URL|TRUSTED_HOST|CERT|PROXY)")
_OFF = frozenset({"", "0", "false", "no", "off", "n", "f"})  # as pip reads a switch


@dataclass(frozen=True, kw_only=True)
class Installer:
    """The commands for one environment, each one line of shell.

    Attributes:
        python: its interpreter; empty where the environment is active, and `python` is enough.
        has_pip: it has pip; environments that uv makes have none.
        obstacle: why nothing can be installed, as a verdict, and every command is empty then; None
            where it can.
        untouchable: projects that no command may replace: those of other folders than the
            environment's own, and a user's own projects.
        fixed: of these, where another release would have no effect: a user's own, and those in
            folders that come before the environment's.
        installed: versions by project; what they meet is never installed, which would do nothing.
        misleading: variables of the installer, by name, with which it installs something else.
        settings: likewise what its files have, or that one of them can't be read.
        kept: what else these files have, `PIP_INDEX_URL=…`, for commands that don't read them.
        limits: the lines of the constraint files that such a variable names, by project.
        limits_file: the option that names these, where no variable does.
        is_virtual: the environment is a virtual one, without the system's packages.
    """

    python: str
    has_pip: bool
    obstacle: Diagnosis | None = None
    untouchable: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    installed: Mapping[str, str] = field(default_factory=dict)
    misleading: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[InstallerSetting, ...] = ()
    kept: tuple[str, ...] = ()
    limits: Mapping[str, Requirement] = field(default_factory=dict)
    limits_file: InstallerSetting | None = None
    is_virtual: bool = False

    def install(self, *requirements: str, again: bool = False) -> str:
        """Return the command that installs requirements; empty where none may.

        Args:
            requirements: as `Requires-Dist` has them, without marker.
        """
        kept = self.untouchable if again else self.fixed
        if not kept.isdisjoint(map(project_of, requirements)):
            return ""
        # A name alone, beside others, asks for the release that fits them.
        is_alone = len(requirements) == 1
        if not again and all(self._is_met(text, is_alone=is_alone) for text in requirements):
            return ""
        return self._install(requirements, again=again)

    def complete(self, requirement: str) -> str:
        """Return the command that installs what an installed release requires; empty: none may."""
        return "" if project_of(requirement) in self.fixed else self._install((requirement,))

    def _install(self, requirements: tuple[str, ...], *, again: bool = False) -> str:
        options = ("--force-reinstall", *_ALONE) * again
        return self._command("install", (*options, *requirements))

    def _is_met(self, text: str, *, is_alone: bool) -> bool:
        try:
            requirement = Requirement(text)
            there = Version(self.installed.get(project_of(text), ""))
        except (InvalidRequirement, InvalidVersion):
            return False
        is_plain = not requirement.extras and not requirement.url
        is_plain = is_plain and (is_alone or bool(requirement.specifier))
        return is_plain and requirement.specifier.contains(there, prereleases=True)

    def reinstall(self, distribution: Distribution) -> str:
        """Return the command that installs the same wheel again; empty if its origin is unknown."""
        same = same_release(distribution)
        if same and distribution.lacks_record and self.has_pip:  # which pip needs to replace it
            is_kept = distribution.name in self.untouchable
            return (
                "" if is_kept else self._command("install", ("--ignore-installed", *_ALONE, same))
            )
        return self.install(same, again=True) if same else ""

    def exchange(self, project: str, requirement: str) -> str:
        """Return the command that installs another build; what it requires stays where it fits."""
        there = {name: version for name, version in self.installed.items() if name != project}
        removed, other = self.remove((project,)), replace(self, installed=there)
        installed = other.install(requirement)
        return f"{removed} && {installed}" if installed and removed else ""

    def remove(self, projects: Iterable[str]) -> str:
        """Return the command that removes projects; empty where none may."""
        projects = tuple(projects)
        if not self.untouchable.isdisjoint(projects):
            return ""
        return self._command("uninstall", ("-y",) * self.has_pip + projects)

    def _command(self, verb: str, arguments: tuple[str, ...]) -> str:
        if self.obstacle:
            return ""
        is_limited = any(map(self._excludes, arguments))
        without = list(self.misleading) if verb == "install" else []
        without += [_LIMITS[self.has_pip]] if is_limited and not self.limits_file else []
        words = [word for name in without for word in ("-u", name)]
        is_misled = verb == "install" and bool(self.settings or (is_limited and self.limits_file))
        if is_misled or not all(setting.name for setting in self.settings):
            words += [_WITHOUT_FILES[self.has_pip], *self.kept]
        words = ["env", *words] if words else []
        if self.has_pip:
            return shlex.join((*words, self.python or "python", "-m", "pip", verb, *arguments))
        place = ("--python", self.python) if self.python else ()
        return shlex.join((*words, "uv", "pip", verb, *place, *arguments))

    def _excludes(self, text: str) -> bool:
        """Return True if a constraint file may keep a requirement from being met."""
        try:
            wanted, limit = Requirement(text), self.limits.get(project_of(text))
        except InvalidRequirement:  # an option
            return False
        return limit is not None and _keeps_from(limit, wanted)

    def judge_variables(self, environ: Mapping[str, str], commands: str) -> Iterator[Diagnosis]:
        """Yield a verdict on each variable, or line of a file, that misleads an installation.

        It is no more than a note where no command of the report depends on it.
        """
        for name in (*self.misleading, _LIMITS[self.has_pip]):
            is_needed = f"-u {name} " in commands
            if is_needed or name in self.misleading:
                text = commands.replace("_", "-").lower()
                limits = [str(limit) for known, limit in self.limits.items() if known in text]
                why = self.misleading.get(name) or f"a file that it names has {', '.join(limits)}"
                judged = warns if is_needed else notes
                yield judged(
                    "diagnose-variable",
                    f"{name}={environ[name]} misleads the installer",
                    f"{why}; the commands of this report are run without it",
                    f"unset {name}, unless that is intended",
                    f"unset {name}",
                )
        known = {**_MISLEADING, **_MISLEADING_UV}
        is_needed = _WITHOUT_FILES[self.has_pip] in commands
        limiting = [self.limits_file] if self.limits_file and is_needed else []
        for setting in (*self.settings, *limiting):
            pip = f"{self.python or 'python'} -m pip config --{setting.level} unset {setting.key}"
            if not setting.name:
                yield broken(
                    "diagnose-variable",
                    f"{'pip' if self.has_pip else 'uv'} can't read {setting.file}",
                    f"{setting.value}; it ends with that error at each start",
                    "correct the file, or move it away",
                    shlex.join(("mv", str(setting.file), f"{setting.file}.off")),
                )
                continue
            why = known.get(setting.name, "that file may keep a package from its release")
            judged = warns if is_needed else notes
            if setting.name == "PIP_USER" and self.is_virtual:
                judged = warns
                why = "pip refuses in an environment: Can not perform a '--user' install"
            yield judged(
                "diagnose-variable",
                f"{setting.text} misleads the installer",
                f"{why}; the commands of this report are run without it",
                f"remove it from {setting.file}, unless that is intended",
                pip if self.has_pip and setting.level != "env" else "",
            )


def installer_of(
    environment: PythonEnvironment, chosen: ChosenPython, environ: Mapping[str, str]
) -> Installer:
    """Return the installer of an environment.

    Args:
        environ: of the caller, for `PATH`.
    """
    has_pip = "pip" in environment.distributions and not missing_of_pip(environment)
    has_uv = which("uv", environ.get("PATH", os.defpath)) is not None
    found = read_settings(environment.prefix, environ, has_pip=has_pip)
    settings = {setting.name: setting for setting in found}
    wrong = _misleading({name: one.value for name, one in settings.items()}, has_pip=has_pip)
    limits = environ.get(_LIMITS[has_pip])
    file = None if limits else settings.get(_LIMITS[has_pip])
    return Installer(
        python="" if chosen.is_active else str(environment.python),
        has_pip=has_pip,
        obstacle=_target_folder(chosen)
        or _lost_configuration(environment, chosen)
        or _obstacle(environment, has_installer=has_pip or has_uv),
        untouchable=frozenset(_untouchable(environment)),
        fixed=frozenset(_untouchable(environment, _after_own(environment))),
        installed={own.name: own.version for own in environment.distributions.values()},
        misleading=_misleading(environ, has_pip=has_pip),
        settings=tuple(one for name, one in settings.items() if name in wrong or not name),
        kept=tuple(
            f"{name}={one.value}"
            for name, one in settings.items()
            if _CARRIED.fullmatch(name) and name not in environ and "@" not in one.value
        ),
        limits=dict(_limits(limits or (file.value if file else ""))),
        limits_file=file,
        is_virtual=hides_users(environment.prefix),
    )


def _misleading(values: Mapping[str, str], *, has_pip: bool) -> dict[str, str]:
    """Return which of an installer's options mislead it, and how."""
    return {
        name: why
        for name, why in (_MISLEADING if has_pip else _MISLEADING_UV).items()
        if values.get(name, "").lower() not in _OFF
        and not any(map(_is_place, values.get(_LOCAL.get(name, ""), "").split()))
    }


def _is_place(text: str) -> bool:
    """Return True for an address, or a folder or file that is there."""
    text = text.removeprefix("file://")
    return "://" in text or Path(text).exists()


def _limits(files: str) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements in constraint files, separated by blanks; others aren't read."""
    for file in files.split():
        try:
            lines = read_text(Path(file)).splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            try:
                requirement = Requirement(line.partition(" #")[0].strip())
            except InvalidRequirement:  # a comment, or an option
                continue
            yield canonicalize_name(requirement.name), requirement


def _keeps_from(limit: Requirement, wanted: Requirement) -> bool:
    """Return True if a constraint excludes what a requirement needs: by a pin, or a bound."""
    if pin := pin_of(limit):
        return not wanted.specifier.contains(pin, prereleases=True)
    bounds = ",".join(str(part) for part in limit.specifier if part.operator in {"<", "<="})
    least = [part.version for part in wanted.specifier if part.operator in {">=", "==", "~="}]
    upper = SpecifierSet(bounds)
    return any(not upper.contains(version.removesuffix(".*"), True) for version in least)


def pin_of(requirement: Requirement) -> str:
    """Return the only release that meets a requirement; empty where several may."""
    pins = (part.version for part in requirement.specifier if part.operator == "==")
    return next((version for version in pins if not version.endswith(".*")), "")


def _untouchable(environment: PythonEnvironment, apart: Collection[Path] = ()) -> Iterator[str]:
    """Yield projects in folders that aren't the environment's own, and those of a user's folder."""
    own = _own_folders(environment)
    for name, distribution in environment.distributions.items():
        is_foreign = bool(own) and Path(os.path.realpath(distribution.site)) not in own
        if (is_foreign and distribution.site not in apart) or is_from_folder(distribution):
            yield name


def _own_folders(environment: PythonEnvironment) -> set[Path]:
    return {Path(os.path.realpath(path)) for path in environment.scheme.values()}


def _after_own(environment: PythonEnvironment) -> tuple[Path, ...]:
    """Return the entries of `sys.path` after the environment's own packages, which hide theirs."""
    site, sites = environment.scheme.get("purelib"), environment.sites
    return sites[sites.index(site) :] if site in sites else ()


def _target_folder(chosen: ChosenPython) -> Diagnosis | None:
    if chosen.packages is None:
        return None
    return notes(
        "diagnose-no-installer",
        f"{chosen.packages} is a folder of packages, no environment",
        f"it has no Python of its own; {chosen.path} examines it, and its pip would install into "
        "another folder",
        f"install again what is named: pip install --target {shlex.quote(str(chosen.packages))} "
        "--upgrade REQUIREMENT",
    )


def _lost_configuration(environment: PythonEnvironment, chosen: ChosenPython) -> Diagnosis | None:
    """Judge a virtual environment that is none any more: its Python is the one it was made from."""
    folder = chosen.path.parent.parent if chosen.path else environment.prefix
    is_environment = (folder / "bin" / "activate").is_file()
    if not is_environment or folder.resolve() == environment.prefix.resolve():
        return None
    return broken(
        "python-not-found",
        f"{folder} isn't an environment any more: its Python uses {environment.prefix}",
        f"{folder / 'pyvenv.cfg'}, which leads to its packages, isn't there or can't be read",
        "create the environment again; what is installed now would go into another Python",
    )


def _obstacle(environment: PythonEnvironment, *, has_installer: bool) -> Diagnosis | None:
    if environment.managed:
        return notes(
            "diagnose-no-installer",
            f"{environment.python} is the system's own Python",
            f"{environment.managed}: pip and uv refuse to install into it",
            "create an environment (python3 -m venv FOLDER), install what is needed there, then "
            "run this again",
        )
    if environment.journal.is_dir():
        return warns(
            "diagnose-damaged-installation",
            f"an installation into {environment.prefix} was interrupted, or still runs",
            f"{environment.journal} is there: cuwheel's `install` removes it at its end",
            f"run `nox -s install -- TARGET --python {shlex.quote(str(environment.prefix))}` "
            "again, which first puts back the files from before",
        )
    site = environment.scheme.get("purelib", environment.prefix)
    is_closed = site.is_dir() and not os.access(site, os.W_OK)
    # Elsewhere pip takes the user's folder then.
    if is_closed and (environment.prefix / "pyvenv.cfg").is_file():
        return notes(
            "permission-denied",
            f"nothing can be installed into {environment.prefix}",
            f"{site} can't be written: it is another user's, or mounted read-only",
            "let it be written (its owner can, or mount -o remount,rw), or create another "
            "environment, then run this again",
        )
    if site.is_dir() and (full := full_file_system(site)):
        return broken(
            "disk-full",
            f"nothing can be installed into {environment.prefix}",
            f"{site} can't grow: {full}, and installers and programs that write there end",
            "free space there, then run this again",
        )
    if not has_installer:
        return notes(
            "diagnose-no-installer",
            f"there is no installer for {environment.prefix}",
            "it has no pip, or a damaged one, and uv isn't on PATH",
            "install pip into it (python -m ensurepip), or install uv, then run this again",
        )
    return None


def same_release(distribution: Distribution) -> str:
    """Return the requirement that only the installed release meets; empty if no index has it.

    A local version (`+cpu`) is on no index that is known here, and a wheel from a file may be on
    none: they are taken from where they came (PEP 610). A folder or a repository is a person's own
    work, which no index may replace; nor has one a wheel that was built here.
    """
    origin = distribution.origin
    if "archive_info" in origin and origin.get("url"):
        address = urlsplit(str(origin["url"]))
        is_gone = address.scheme == "file" and not Path(unquote(address.path)).exists()
        return "" if is_gone else f"{distribution.name} @ {origin['url']}"
    has_release = not origin and "+" not in distribution.version
    has_release = has_release and not was_built_here(distribution)
    return f"{distribution.name}=={distribution.version}" if has_release else ""


def where_from(distribution: Distribution) -> str:
    """Return from where to install a release again that no known index has; empty: from its index.

    For the end of a sentence.
    """
    if same_release(distribution):
        return ""
    if url := str(distribution.origin.get("url", "")):
        return f", from where it came: {url}"
    if was_built_here(distribution):
        return ", from its source: its wheel's tag is that of one built here, which no index takes"
    return ", from its original source"


def is_from_folder(distribution: Distribution) -> bool:
    """Return True if a project was installed from a folder or a repository, editable or not."""
    return not distribution.origin.keys().isdisjoint(("dir_info", "vcs_info"))
