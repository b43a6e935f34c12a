"""Verdicts on installed files that are missing, damaged, shadowed or shared."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cuwheel.base.system.quantities import plural
from cuwheel.check.diagnose.facts.environment import Distribution
from cuwheel.check.diagnose.facts.gpu_packages import needs_gpu
from cuwheel.check.diagnose.facts.imports import FrameworkFacts, read_framework
from cuwheel.check.diagnose.facts.installed_files import (
    InstallationFacts,
    SharedFiles,
    named_files,
)
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.installer import same_release
from cuwheel.check.diagnose.rules.requirements import requirers
from cuwheel.check.diagnose.verdict import Diagnosis, broken, warns


@dataclass(frozen=True, kw_only=True)
class InstallationJudge:
    """The judge of the files of one environment."""

    context: RuleContext
    facts: InstallationFacts

    def judge(self) -> Iterator[Diagnosis]:
        """Judge all files."""
        for path, fault in self.context.environment.damaged:
            yield warns(
                "diagnose-damaged-installation",
                f"{path.rpartition('/')[2] or 'a distribution'} can't be read",
                f"{path}: {fault}",
                "remove that folder and install the package again",
            )
        for path, fault in self.context.environment.startup_faults.items():
            yield self._startup_fault(path, fault)
        yield from self._duplicates()
        for site in dict.fromkeys(path.parent for path in self.context.environment.leftovers):
            yield self._leftovers_in(site)
        yield from self._shadows()
        yield from dict.fromkeys(verdict for _, verdict in self._of_distributions)

    @cached_property
    def remedies(self) -> dict[str, str]:
        """Commands that repair the files of distributions, by name; empty where none does."""
        shadows = (shadow for shadow in self.facts.shadows if not shadow.is_start)
        hidden = {shadow.distribution: self._without(shadow.entry) for shadow in shadows}
        return hidden | {name: verdict.command for name, verdict in self._of_distributions}

    def _startup_fault(self, path: str, fault: str) -> Diagnosis:
        """Judge a file that Python runs at each start and that raises."""
        owners = self.context.environment.distributions.values()
        names = (own.title for own in owners if Path(path) in named_files(own))
        owner = next(names, "") if path.startswith("/") else ""
        return warns(
            "diagnose-startup-file",
            f"Python can't process {path} when it starts",
            fault,
            f"install {owner} again, or remove the file" if owner else "correct or remove the file",
        )

    @cached_property
    def _of_distributions(self) -> list[tuple[str, Diagnosis]]:
        """Verdicts on shared and damaged files, each with an affected distribution."""
        shared = [(group, self._shared(group)) for group in self.facts.shared]
        verdicts = [(owner.name, verdict) for group, verdict in shared for owner in group.owners]
        installed = self.context.environment.distributions
        return [*verdicts, *((name, self._faults(installed[name])) for name in self.facts.faults)]

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
            if needs_gpu(second) or needs_gpu(first):
                yield warns(
                    "diagnose-versions",
                    f"{second.name} is installed twice",
                    f"{first.version} in {first.site} comes before {second.version} in "
                    f"{second.site}",
                    "remove one of the two",
                )

    def _leftovers_in(self, site: Path) -> Diagnosis:
        folders = [path for path in self.context.environment.leftovers if path.parent == site]
        return warns(
            "diagnose-damaged-installation",
            f"an interrupted pip left {plural(len(folders), 'folder')} in {site}",
            f"{', '.join(path.name for path in folders)}: what pip was removing or replacing",
            "remove them, and install the package again if it is missing",
            f"rm -r {shlex.join(map(str, folders))}" if not self.context.installer.obstacle else "",
        )

    def _shadows(self) -> Iterator[Diagnosis]:
        for shadow in self.facts.shadows:
            hidden = self.context.environment.distributions[shadow.distribution]
            if shadow.is_start:
                yield broken(
                    "diagnose-shadowed-module",
                    f"{shadow.path} hides {hidden.title} from what is started in {shadow.entry}",
                    f"Python puts that folder first for a prompt, `python -m`, `python -c` and its "
                    f"own programs, so `import {shadow.module}` imports the file there",
                    "rename the file",
                )
                continue
            yield broken(
                "diagnose-shadowed-module",
                f"{shadow.path} hides {hidden.title}",
                f"{shadow.entry} comes before {hidden.site} on sys.path, so `import "
                f"{shadow.module}` imports the file there",
                f"remove {shadow.entry} from PYTHONPATH, or rename the file",
                self._without(shadow.entry),
            )

    def _without(self, folder: Path) -> str:
        """Return the command that removes a folder from PYTHONPATH; empty if it isn't in there."""
        entries = [*filter(None, self.context.environ.get("PYTHONPATH", "").split(os.pathsep))]
        real = os.path.realpath(folder)
        rest = [entry for entry in entries if os.path.realpath(entry) != real]
        if len(rest) == len(entries):
            return ""
        path = shlex.quote(os.pathsep.join(rest))
        return f"export PYTHONPATH={path}" if rest else "unset PYTHONPATH"

    def _shared(self, shared: SharedFiles) -> Diagnosis:
        names = [owner.name for owner in shared.owners]
        all_required = requirers(self.context.environment)
        required = {name: ", ".join(sorted(all_required.get(name, ()))) for name in names}
        kept = max(
            shared.owners,
            key=lambda own: (needs_gpu(own), bool(required[own.name]), own.name == shared.in_place),
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
        again = self.context.installer.reinstall(distribution)
        where = "" if same_release(distribution) else ", from its original source"
        anchor = "diagnose-damaged-installation"
        fix = f"install it again{where}"
        if damaged:
            return broken(anchor, f"{distribution.title} is damaged", cause, fix, again)
        fix = f"{fix}, unless it was changed intentionally"
        what = f"{distribution.title} has changed since it was installed"
        return warns(anchor, what, cause, fix, again)
