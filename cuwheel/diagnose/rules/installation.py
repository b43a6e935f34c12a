"""Whether what pip or uv has installed is there, is whole, and belongs to one package."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.gpu_packages import needs_gpu
from cuwheel.diagnose.facts.imports import frameworks_of, read_framework
from cuwheel.diagnose.rules.installer import same_release
from cuwheel.diagnose.rules.requirements import requirers
from cuwheel.diagnose.verdict import broken, warns
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.facts.installation import InstallationFacts, SharedFiles
    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.diagnose.verdict import Own, Verdict


@dataclass(frozen=True, kw_only=True)
class InstallationJudge:
    """Judges the files of one environment.

    Attributes:
        environment: which.
        facts: what was found in it.
        installer: writes the commands.
        environ: of the caller, for `PYTHONPATH`.
    """

    environment: PythonEnvironment
    facts: InstallationFacts
    installer: Installer
    environ: Mapping[str, str]

    def judge(self) -> Iterator[Verdict]:
        """All that is wrong."""
        yield from self._unreadable()
        yield from self._twice()
        yield from self._leftovers()
        yield from self._shadows()
        for one in self.facts.shared:
            yield self._shared(one)
        for name in self.facts.faults:
            yield from self._faults(self.environment.distributions[name])

    @property
    def faulty(self) -> frozenset[str]:
        """Distributions of which something is said here, by name."""
        shared = (owner.name for one in self.facts.shared for owner in one.owners)
        return frozenset((*self.facts.faults, *shared))

    @property
    def remedies(self) -> dict[str, str]:
        """What sets the files of distributions right, by name; empty where no command does."""
        there = self.environment.distributions
        faulty = {name: self.installer.reinstall(there[name]) for name in self.facts.faults}
        shared = {
            owner.name: self._shared(one).command
            for one in self.facts.shared
            for owner in one.owners
        }
        return {**shared, **faulty}

    def unless_hidden(self, framework: FrameworkFacts) -> FrameworkFacts:
        """A framework; what another module answered in its stead isn't taken for it."""
        distribution = frameworks_of(self.environment)[framework.name]
        hidden = {(one.distribution, one.module) for one in self.facts.shadows}
        if (distribution.name, framework.name) not in hidden:
            return framework
        return read_framework(framework.name, distribution, failure="")

    def _unreadable(self) -> Iterator[Verdict]:
        for path, fault in self.environment.damaged:
            yield warns(
                "diagnose-damaged-installation",
                f"{path.rpartition('/')[2] or 'a distribution'} can't be read",
                f"{path}: {fault}",
                "remove that folder and install the package again",
            )

    def _twice(self) -> Iterator[Verdict]:
        for one in self.environment.shadowed:
            first = self.environment.distributions[one.name]
            if needs_gpu(one) or needs_gpu(first):
                yield warns(
                    "diagnose-versions",
                    f"{one.name} is installed twice",
                    f"{first.version} in {first.site} comes before {one.version} in {one.site}",
                    "remove one of the two",
                )

    def _leftovers(self) -> Iterator[Verdict]:
        for site in dict.fromkeys(one.parent for one in self.environment.leftovers):
            yield self._leftovers_in(site)

    def _leftovers_in(self, site: Path) -> Verdict:
        found = [one for one in self.environment.leftovers if one.parent == site]
        there = self.environment.distributions
        removed = {one.name: one for one in self.environment.removed if one.site == site}
        gone = [one for name, one in removed.items() if name not in there]
        shown = ", ".join(f"{one.name} {one.version}" for one in gone)
        again = [same_release(one) for one in gone]
        origin = "" if all(again) else ", from its original source"
        commands = [f"rm -r {shlex.join(map(str, found))}"]
        commands += [self.installer.install(*again)] if gone else []
        is_able = all(again) and not self.installer.obstacle
        return warns(
            "diagnose-damaged-installation",
            f"an interrupted pip left {plural(len(found), 'folder')} in {site}",
            f"{', '.join(one.name for one in found)}: what pip was removing"
            + (f", and {shown} is no longer there" if gone else ""),
            "remove them" + (f", and install {shown} again{origin}" if gone else ""),
            " && ".join(commands) if is_able else "",
        )

    def _shadows(self) -> Iterator[Verdict]:
        for one in self.facts.shadows:
            hidden = self.environment.distributions[one.distribution]
            yield broken(
                "diagnose-shadowed-module",
                f"{one.path} hides {hidden.name} {hidden.version}",
                f"{one.entry} comes before {hidden.site} on sys.path, so `import {one.module}` "
                "imports the file there",
                f"remove {one.entry} from PYTHONPATH, or rename the file",
                self._without(one.entry),
            )

    def _without(self, entry: Path) -> str:
        """What takes a folder out of PYTHONPATH; empty where it isn't in there."""
        entries = self.environ.get("PYTHONPATH", "").split(os.pathsep)
        kept = [one for one in entries if one and os.path.realpath(one) != os.path.realpath(entry)]
        if len(kept) == len([one for one in entries if one]):
            return ""
        rest = os.pathsep.join(kept)
        return f"export PYTHONPATH={shlex.quote(rest)}" if kept else "unset PYTHONPATH"

    def _shared(self, shared: SharedFiles) -> Verdict:
        names = [one.name for one in shared.owners]
        all_required = requirers(self.environment)
        required = {name: sorted(all_required.get(name, ())) for name in names}
        kept = max(
            shared.owners,
            key=lambda one: (needs_gpu(one), bool(required[one.name]), one.name == shared.in_place),
        )
        others = [one for one in shared.owners if one is not kept]
        *first, last = (f"{one.name} {one.version}" for one in shared.owners)
        what = f"{', '.join(first)} and {last} share files"
        neither, other = ("none of theirs", "others") if len(first) > 1 else ("neither's", "other")
        there = f"is {shared.in_place}'s" if shared.in_place else f"is {neither}"
        more = f" and {len(shared.paths) - 1} more" if len(shared.paths) > 1 else ""
        cause = f"each has a {shared.paths[0].name}{more}; the installed file {there}"
        needed = [name for name in names if required[name]]
        if len(needed) > 1:
            asked = "; ".join(f"{', '.join(required[name])} requires {name}" for name in needed)
            fix = f"{asked}: use a separate environment for each"
            return warns("diagnose-shared-files", what, cause, fix)
        again = self.installer.reinstall(kept)
        removed = self.installer.remove(one.name for one in others)
        lost_gpu = shared.in_place != kept.name and not any(map(needs_gpu, others))
        judged = broken if lost_gpu and needs_gpu(kept) else warns
        return judged(
            "diagnose-shared-files",
            what,
            cause,
            f"remove the {other}, which also removes the shared files, and reinstall {kept.name}",
            f"{removed} && {again}" if again else "",
        )

    def _faults(self, distribution: Distribution) -> Iterator[Verdict]:
        found = sorted(self.facts.faults[distribution.name], key=lambda one: not one.is_damage)
        name = f"{distribution.name} {distribution.version}"
        bad = [one for one in found if one.is_damage]
        first, *rest = bad or found
        more = f", and {len(rest)} more" if rest else ""
        cause = f"{first.path.name} {first.what}{more}"
        again = self.installer.reinstall(distribution)
        where = "" if same_release(distribution) else ", from its original source"
        fix = f"install it again{where}"
        anchor: Own = "diagnose-damaged-installation"
        if bad:
            yield broken(anchor, f"{name} is damaged", cause, fix, again)
        else:
            fix = f"{fix}, unless it was changed intentionally"
            yield warns(anchor, f"{name} has changed since it was installed", cause, fix, again)
