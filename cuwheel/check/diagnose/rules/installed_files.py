"""Verdicts on installed files that are missing, damaged, shadowed or shared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.system.quantities import plural
from cuwheel.check.diagnose.facts.environment import (
    LACKING_MODULES,
    Distribution,
    command_to_relink,
)
from cuwheel.check.diagnose.facts.gpu_packages import needs_gpu
from cuwheel.check.diagnose.facts.imports import FrameworkFacts, read_framework
from cuwheel.check.diagnose.facts.installed_files import (
    NOT_EXECUTABLE,
    POINTER,
    InstallationFacts,
    SharedFiles,
    lost_interpreters,
    missing_of_pip,
    named_files,
)
from cuwheel.check.diagnose.facts.startup import removal_of, startup_file_with
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.installer import same_release, where_from
from cuwheel.check.diagnose.rules.requirements import (
    cuda_of,
    is_nvidias,
    numpy_fix,
    requirers,
)
from cuwheel.check.diagnose.rules.shadows import (
    WITHOUT_USERS,
    fix_shadow,
    is_users_folder,
    judge_shadows,
    without_folder,
)
from cuwheel.check.diagnose.verdict import Diagnosis, broken, warns

_SHOWN = 3  # names of programs
# TensorRT is several wheels of one release; these don't require the one with the libraries.
_BINDINGS = r"(?<=^tensorrt-cu\d\d)-bindings$"


@dataclass(frozen=True, kw_only=True)
class InstallationJudge:
    """The judge of the files of one environment.

    Attributes:
        needed: the examined packages, and what they require.
        works: those that can be imported.
        replaced: those of which another release is required.
    """

    context: RuleContext
    facts: InstallationFacts
    needed: frozenset[str] = frozenset()
    works: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()

    def judge(self) -> Iterator[Diagnosis]:
        """Judge all files."""
        for path, fault in self.context.environment.damaged:
            yield self._unreadable(Path(path), fault)
        yield from self._incomplete_python()
        yield from self._other_release()
        for path, fault in self.context.environment.startup_faults.items():
            yield self._startup_fault(path, fault)
        yield from self._damaged_pip()
        yield from self._moved()
        yield from self._duplicates()
        yield from self._hidden()
        for site in dict.fromkeys(path.parent for path in self.context.environment.leftovers):
            yield self._leftovers_in(site)
        yield from judge_shadows(self.context, self.facts.shadows)
        yield from dict.fromkeys(verdict for _, verdict in self._of_distributions)

    @property
    def unreadable(self) -> frozenset[str]:
        """Names of distributions with unreadable metadata."""
        paths = (Path(path) for path, _ in self.context.environment.damaged)
        return frozenset(own.name for own in map(_named_by_folder, paths) if own)

    def _unreadable(self, path: Path, fault: str) -> Diagnosis:
        """Judge metadata that can't be read, as after a power failure: pip can't replace them."""
        own = _named_by_folder(path)
        again = self.context.installer.reinstall(own) if own else ""
        link = next((file for file in sorted(path.glob("*")) if _leads_nowhere(file)), None)
        judged, fix = warns, "remove that folder and install the package again"
        if link:  # as with uv's `--link-mode symlink` after `uv cache clean`
            judged = broken
            fault = f"{link.name} is a link to {link.readlink()}, which was removed"
            fix = f"{fix}, with copies of its files: UV_LINK_MODE=copy"
        return judged(
            "diagnose-damaged-installation",
            f"{path.name or 'a distribution'} can't be read",
            f"{path}: {fault}",
            fix,
            f"rm -r {shlex.quote(str(path))} && {again}" if again else "",
        )

    @cached_property
    def remedies(self) -> dict[str, str]:
        """Commands that repair the files of distributions, by name; empty where none does."""
        hidden = {
            shadow.distribution: fix_shadow(self.context, shadow)[1]
            for shadow in self.facts.shadows
            if shadow.distribution and not shadow.is_start
        }
        of_files = {name: verdict.command for name, verdict in self._of_distributions}
        return hidden | self._of_user_site | of_files

    def _incomplete_python(self) -> Iterator[Diagnosis]:
        environment = self.context.environment
        if lacking := environment.lacking:
            headers = ", ".join(LACKING_MODULES[name] for name in lacking)
            yield warns(
                "diagnose-incomplete-python",
                f"Python {environment.release} was built without {', '.join(lacking)}",
                "packages that import what needs them fail, some only when they use it",
                f"install {headers} and build Python again, or take another Python; then create "
                "the environment again",
            )

    def _other_release(self) -> Iterator[Diagnosis]:
        """Judge an environment with the packages of another Python release, and without its own."""
        environment = self.context.environment
        if not (environment.prefix / "pyvenv.cfg").is_file():
            return
        folders = environment.scheme.values()
        own = [one for one in environment.distributions.values() if one.site in folders]
        for site in sorted(environment.prefix.glob("lib/python3.*/site-packages")):
            count = len([*site.glob("*.dist-info")])
            if site not in environment.sites and count > len(own):
                release = site.parent.name
                cause = f"they are in {site}, for {release}; the environment's Python was replaced"
                fix = f"create the environment again with {release}, or install them again"
                command = command_to_relink(environment.prefix / "bin/python", release[6:])
                if command:
                    fix = f"put back the links to {release}, or install the packages again"
                if site in folders:
                    cause = f"they are in {site}, its own folder, which isn't on sys.path"
                    fix = "search what removes it: a startup file, or options of Python"
                    command = ""
                    file = startup_file_with((site, *environment.sites), "sys.path")
                    if file:
                        fix = f"remove what changes sys.path from {file}"
                        command = removal_of(file, "sys.path", ())
                yield broken(
                    "diagnose-damaged-installation",
                    f"Python {environment.release} doesn't see {plural(count, 'package')} here",
                    cause,
                    fix,
                    command,
                )

    def _damaged_pip(self) -> Iterator[Diagnosis]:
        """Judge a pip without some of its files, which no command of this report uses."""
        environment = self.context.environment
        lost = missing_of_pip(environment)
        if lost and not environment.is_conda and not environment.managed:
            pip = environment.distributions["pip"]
            folders = shlex.join(map(str, (pip.site / "pip", pip.metadata)))
            python = shlex.quote(str(environment.python))
            yield warns(
                "diagnose-damaged-installation",
                f"{pip.title} of the environment is damaged",
                f"{lost[0].relative_to(pip.site)} isn't there"
                + f", and {len(lost) - 1} more" * (len(lost) > 1),
                "remove it, and let Python install its own again",
                f"rm -r {folders} && {python} -m ensurepip",
            )

    def _moved(self) -> Iterator[Diagnosis]:
        """Judge programs that start a Python which isn't there: the environment was moved."""
        lost = lost_interpreters(self.context.environment)
        foreign = [name for path, names in lost.items() if path.endswith("\r") for name in names]
        if foreign:
            yield self._foreign_lines(sorted(foreign))
        for interpreter, names in lost.items():
            if interpreter.endswith("\r"):
                continue
            yield warns(
                "diagnose-damaged-installation",
                f"{plural(len(names), 'program')} of the environment can't be started",
                f"{', '.join(names[:_SHOWN])}{' and more' * (len(names) > _SHOWN)} start "
                f"{interpreter}, which isn't there: the environment was moved or copied",
                "create it again where it is, or start them as `python -m NAME`",
            )

    def _foreign_lines(self, names: list[str]) -> Diagnosis:
        """Judge programs with the line ends of another system."""
        folder = self.context.environment.prefix / "bin"
        return warns(
            "diagnose-damaged-installation",
            f"{plural(len(names), 'program')} of the environment can't be started",
            f"lines in {', '.join(names[:_SHOWN])}{' and more' * (len(names) > _SHOWN)} end in "
            "CR LF, so the kernel searches an interpreter with a CR in its name",
            "remove the CR",
            f"sed -i 's/\\r$//' {shlex.join(str(folder / name) for name in names)}",
        )

    @cached_property
    def _of_user_site(self) -> dict[str, str]:
        """Commands for packages that the user's own folder hides, by name."""
        environment = self.context.environment
        return {
            second.name: WITHOUT_USERS
            for second in environment.shadowed
            if is_users_folder(self.context, environment.distributions[second.name].site)
        }

    def _hidden(self) -> Iterator[Diagnosis]:
        """Judge a package that hides the module of another one in the same folder."""
        installer = self.context.installer
        for first, second, folder in self.facts.hidden:
            if second.name in self.needed or is_nvidias(second.name):
                removed, again = installer.remove((first.name,)), installer.reinstall(second)
                yield warns(
                    "diagnose-shadowed-module",
                    f"{first.title} hides {second.title}",
                    f"`import {folder.name}` takes the folder {folder}, not {folder.name}.py",
                    f"remove {first.name}, and install {second.name} again",
                    f"{removed} && {again}" if removed and again else "",
                )

    def _startup_fault(self, path: str, fault: str) -> Diagnosis:
        """Judge a file that Python runs at each start and that raises."""
        owners = self.context.environment.distributions.values()
        names = (own.title for own in owners if Path(path) in named_files(own))
        owner = next(names, "") if path.startswith("/") else ""
        command = removal_of(Path(path), "import ", owners) if path.startswith("/") else ""
        return warns(
            "diagnose-startup-file",
            f"Python can't process {path} when it starts",
            fault,
            f"install {owner} again, or remove the file" if owner else "correct or remove the file",
            command if command.startswith("rm ") else "",
        )

    @cached_property
    def _of_distributions(self) -> list[tuple[str, Diagnosis]]:
        """Verdicts on shared and damaged files, each with an affected distribution."""
        shared = [(group, self._shared(group)) for group in self.facts.shared]
        verdicts = [(owner.name, verdict) for group, verdict in shared for owner in group.owners]
        installed = self.context.environment.distributions
        sites = dict.fromkeys(installed[name].site for name in self.facts.builds)
        ways = {site: without_folder(self.context, site) for site in sites}
        foreign = [
            (name, self._other_site(site))
            for site in sites
            if ways[site]
            for name in self.facts.builds
            if installed[name].site == site
        ]
        builds = [
            (name, self._other_build(installed[name]))
            for name in self.facts.builds
            if not ways[installed[name].site]
        ]
        known = {
            *self.facts.builds,
            *(owner.name for group in self.facts.shared for owner in group.owners),
        }
        others = [name for name in self.facts.faults if name not in known]
        faults = [(name, self._faults(installed[name])) for name in others]
        names = self.facts.for_numpy_1.keys() - self.replaced
        old = [(name, self._for_numpy_1(installed[name])) for name in sorted(names)]
        folders = {name: own.editable_folder for name, own in installed.items()}
        gone = [name for name, folder in folders.items() if folder and not Path(folder).is_dir()]
        lost = [(name, _lost(installed[name])) for name in gone]
        unlisted = [
            (name, self._unlisted(installed[name]))
            for name in sorted(self.needed)
            if installed[name].lacks_record
        ]
        return [*verdicts, *foreign, *builds, *faults, *old, *lost, *unlisted]

    def _other_build(self, distribution: Distribution) -> Diagnosis:
        """Judge a wheel for another Python or machine."""
        build, environment = self.facts.builds[distribution.name], self.context.environment
        machine = f"{environment.markers['platform_machine']} machine"
        other = (
            f"for another machine than this {machine}" if build.machine else "for another Python"
        )
        if build.machine == "musl":
            other = "for systems with musl (Alpine), and this one has glibc"
        other += "" if build.machine else f" than {environment.release}"
        fix, command = self._again(distribution, "reinstall it with this Python")
        return broken(
            "python-version-unsupported" if not build.machine else "diagnose-damaged-installation",
            f"{distribution.title} is built {other}",
            f"its wheel has the tag {build.tag}",
            fix,
            command,
        )

    def _again(self, distribution: Distribution, words: str) -> tuple[str, str]:
        """Return the fix that installs a release again, unless another one is required."""
        if distribution.name in self.replaced:
            return "install the release that is required instead, as this report says", ""
        again = self.context.installer.reinstall(distribution)
        return f"{words}{where_from(distribution)}", again

    def _other_site(self, site: Path) -> Diagnosis:
        """Judge a folder of PYTHONPATH with packages for another Python."""
        environment, command = self.context.environment, without_folder(self.context, site)
        builds = {
            name: build
            for name, build in self.facts.builds.items()
            if environment.distributions[name].site == site
        }
        first = environment.distributions[next(iter(builds))]
        others = f" and {len(builds) - 1} more are" if len(builds) > 1 else " is"
        again = f"{environment.python} -m pip install --target FOLDER {same_release(first)}"
        return broken(
            "python-version-unsupported",
            f"{site} has packages for another Python than {environment.release}",
            f"PYTHONPATH names it; {first.title}{others} built for another one: its wheel has the "
            f"tag {builds[first.name].tag}",
            "remove it from PYTHONPATH, then install with this Python what is needed, for a folder "
            f"`{again}`",
            command,
        )

    def _for_numpy_1(self, distribution: Distribution) -> Diagnosis:
        """Judge extensions that raise an exception when NumPy 2 is imported for them."""
        numpy = self.context.environment.distributions["numpy"]
        judged = warns if distribution.name in self.works else broken
        return judged(
            "numpy-abi-mismatch",
            f"{distribution.title} is built for NumPy 1, and {numpy.version} is installed",
            f"{self.facts.for_numpy_1[distribution.name]} is compiled with the headers of NumPy 1, "
            "with which no NumPy 2 works",
            *numpy_fix(self.context, distribution),
        )

    def _unlisted(self, distribution: Distribution) -> Diagnosis:
        """Judge a distribution without RECORD."""
        return warns(
            "diagnose-damaged-installation",
            f"{distribution.title} has no RECORD, the list of its files",
            f"nothing can check them, nor can pip remove or replace them: {distribution.metadata}",
            f"install it again over what is there{where_from(distribution)}",
            self.context.installer.reinstall(distribution),
        )

    def unless_hidden(self, framework: FrameworkFacts) -> FrameworkFacts:
        """Return a framework; read from its files if another module was imported instead."""
        distribution = self.context.projects[framework.name]
        shadows = (shadow for shadow in self.facts.shadows if not shadow.is_start)
        hidden = {(shadow.distribution, shadow.module) for shadow in shadows}
        if (distribution.name, framework.name) not in hidden:
            return framework
        return read_framework(framework.name, distribution, failure="")

    def _duplicates(self) -> Iterator[Diagnosis]:
        for second in self.context.environment.shadowed:
            first = self.context.environment.distributions[second.name]
            is_gpu = needs_gpu(second) or needs_gpu(first)
            if first.site == second.site and (is_gpu or first.name in self.needed):
                yield self._second_metadata(first, second)
            elif first.name in self.facts.builds and without_folder(self.context, first.site):
                continue  # judged with all others there
            elif is_gpu or (first.name in self.needed and self._is_hidden(second, first)):
                fix, command = self._without_first(first)
                yield warns(
                    "diagnose-versions",
                    f"{second.name} is installed twice",
                    f"{first.version} in {first.site} comes before {second.version} in "
                    f"{second.site}",
                    fix,
                    command,
                )

    def _is_hidden(self, distribution: Distribution, first: Distribution) -> bool:
        """Return True if another folder's comes before that of the environment's own folder."""
        own = self.context.environment.scheme.values()
        return distribution.site in own and first.site not in own

    def _second_metadata(self, first: Distribution, second: Distribution) -> Diagnosis:
        obstacle = self.context.installer.obstacle
        return warns(
            "diagnose-damaged-installation",
            f"{first.name} has the metadata of two releases, {first.version} and {second.version}",
            f"the files are those of {first.version}; which one pip takes is chance",
            f"remove {second.metadata}",
            f"rm -r {shlex.quote(str(second.metadata))}" if not obstacle else "",
        )

    def _without_first(self, first: Distribution) -> tuple[str, str]:
        """Return fix and command that take the first of two folders from the path."""
        if command := without_folder(self.context, first.site):
            return f"remove {first.site} from PYTHONPATH", command
        if is_users_folder(self.context, first.site):
            return f"uninstall {first.title}, or keep Python from that folder", WITHOUT_USERS
        if naming := startup_file_with(self.context.environment.sites, str(first.site)):
            line, installed = str(first.site), self.context.environment.distributions.values()
            command = removal_of(naming, line, installed)
            return f"remove the line with {line} from {naming}", command
        return "remove one of the two", ""

    def _leftovers_in(self, site: Path) -> Diagnosis:
        environment, installer = self.context.environment, self.context.installer
        folders = [path for path in environment.leftovers if path.parent == site]
        lost = [own for own in environment.lost if own.site == site]
        names = ", ".join(own.title for own in lost)
        releases = list(map(same_release, lost))
        again = installer.install(*releases) if all(releases) else ""
        removal = f"rm -r {shlex.join(map(str, folders))}" if not installer.obstacle else ""
        if lost:
            removal = f"{again} && {removal}" if again and removal else ""
        left = f"an interrupted pip left {plural(len(folders), 'folder')} in {site}"
        judged = broken if lost else warns
        return judged(
            "diagnose-damaged-installation",
            f"{names} isn't installed any more: {left}" if lost else left,
            f"{', '.join(path.name for path in folders)}: what pip was removing or replacing",
            f"install {names} again, then remove them"
            if lost
            else "remove them; what they held is installed",
            removal,
        )

    def _shared(self, shared: SharedFiles) -> Diagnosis:
        names = [owner.name for owner in shared.owners]
        all_required = requirers(self.context.environment)
        required = {name: ", ".join(sorted(all_required.get(name, ()))) for name in names}
        major = cuda_of(self.context)
        kept = max(
            shared.owners,
            key=lambda own: (
                needs_gpu(own),
                bool(required[own.name]),
                bool(major) and re.search(rf"-cu(da)?{major}x?$", own.name) is not None,
                own.name == shared.in_place,
            ),
        )
        others = [owner for owner in shared.owners if owner is not kept]
        *first, last = (owner.title for owner in shared.owners)
        what = f"{', '.join(first)} and {last} share files"
        neither, other = ("none of theirs", "others") if len(first) > 1 else ("neither's", "other")
        owner = f"{shared.in_place}'s" if shared.in_place else neither
        more = f" and {len(shared.paths) - 1} more" if len(shared.paths) > 1 else ""
        cause = f"each has a {shared.paths[0].name}{more}; the installed file is {owner}"
        needed = [f"{required[name]} requires {name}" for name in names if required[name]]
        if len(needed) > 1:
            fix = f"{'; '.join(needed)}: use a separate environment for each"
            return warns("diagnose-shared-files", what, cause, fix)
        again = self.context.installer.reinstall(kept)
        removed = self.context.installer.remove(owner.name for owner in others)
        lost_gpu = shared.in_place != kept.name and not any(map(needs_gpu, others))
        judged = broken if lost_gpu and needs_gpu(kept) else warns
        return judged(
            "diagnose-shared-files",
            what,
            cause,
            f"remove the {other}, which also removes the shared files, and reinstall {kept.name}",
            f"{removed} && {again}" if again else "",
        )

    def _faults(self, distribution: Distribution) -> Diagnosis:
        faults = self.facts.faults[distribution.name]
        damaged = [fault for fault in faults if fault.is_damage]
        first, *rest = damaged or faults
        more = f", and {len(rest)} more" if rest else ""
        cause = f"{first.path.name} {first.what}{more}"
        fix, again = self._again(distribution, "install it again")
        where, anchor = where_from(distribution), "diagnose-damaged-installation"
        barriers = dict.fromkeys(fault.barrier for fault in damaged if fault.barrier)
        if barriers:
            fix, again = _open_barriers([*barriers], again, where)
        elif damaged and all(fault.what == NOT_EXECUTABLE for fault in damaged):
            fix = "make it executable"
            again = shlex.join(("chmod", "+x", *(str(fault.path) for fault in damaged)))
        elif any(fault.what == POINTER for fault in damaged):
            fix = f"fetch it (git lfs pull), or {fix}"
        if damaged:
            libs = re.sub(_BINDINGS, "-libs", distribution.name)
            if again and libs not in {distribution.name, *self.context.environment.distributions}:
                part = f"{libs}=={distribution.version}"
                cause = f"{cause}; {libs}, with the libraries that it loads, isn't installed"
                fix = f"{fix}, and {part}"
                again = f"{again} && {self.context.installer.install(part)}"
            return broken(anchor, f"{distribution.title} is damaged", cause, fix, again)
        fix = f"{fix}, unless it was changed intentionally"
        what = f"{distribution.title} has changed since it was installed"
        return warns(anchor, what, cause, fix, again)


def _named_by_folder(path: Path) -> Distribution | None:
    """Return the distribution that a folder of metadata is named for, `numpy-2.0.2.dist-info`."""
    name, _, version = path.name.removesuffix(".dist-info").partition("-")
    if path.suffix != ".dist-info" or not version:
        return None
    return Distribution(
        name=canonicalize_name(name),
        version=version,
        site=path.parent,
        metadata=path,
        requires=(),
        libraries=(),
    )


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _lost(distribution: Distribution) -> Diagnosis:
    """Judge an editable project without its folder."""
    return broken(
        "diagnose-damaged-installation",
        f"{distribution.title} is installed from a folder that isn't there",
        f"it is editable, and {distribution.editable_folder} doesn't exist",
        "move the folder back, or install the project from where it is now: pip install -e FOLDER",
    )


def _open_barriers(paths: list[Path], again: str, where: str) -> tuple[str, str]:
    """Return fix and command for files behind folders without rights, or links to themselves."""
    names = shlex.join(map(str, paths))
    if not any(path.is_symlink() for path in paths):
        return "permit reading", f"chmod -R u+rwX {names}"
    return f"remove the link that leads nowhere, and install it again{where}", (
        f"rm {names} && {again}" if again and all(path.is_symlink() for path in paths) else ""
    )
