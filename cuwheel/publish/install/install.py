"""The command `install`: the newest wheel that fits, checked, installed and tried."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel.base import limits
from cuwheel.base.caller import Caller
from cuwheel.base.errors import DownloadError, InstallError, SmokeError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.store import fetch
from cuwheel.base.fetch.urls import is_local, local_path, redact_url
from cuwheel.base.formats.wheel.archive import check_archive
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree, sha256_of_file
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.quantities import plural
from cuwheel.build.environments.additions import UserEnvironment, install_wheels
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.confinement import Confinement, confine_environment
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.check.diagnose.facts.environment import read_environment
from cuwheel.check.pick.choice import Choice, Offers, choose, query_indexes, query_sources
from cuwheel.check.pick.contents import read_contents
from cuwheel.check.pick.declarations import declared
from cuwheel.check.pick.fit import Judgement, RemoteWheelFacts, WheelJudge
from cuwheel.check.pick.known_sources import Sources
from cuwheel.check.pick.machine import Here, read_here
from cuwheel.check.pick.pick import raise_if_silent
from cuwheel.publish.install.contents import is_installed, missing_bytes, owners_of, replaced_files
from cuwheel.publish.install.placement import Occupied, Placement, check_placements, place
from cuwheel.publish.install.requirements import (
    check_direct_references,
    find_requirements,
    pinned_wheel,
)
from cuwheel.publish.install.statement import (
    CheckedStatement,
    check_statement,
    fetch_statement,
    stated_sha256,
)
from cuwheel.publish.install.transaction import changing, needs_recovery, recover
from cuwheel.publish.install.trial import Trial, try_wheel
from cuwheel.publish.rebuild.attest.check import check_policy, find_statements, raise_if_refused
from cuwheel.publish.rebuild.attest.policy import Policy

Fallback = Literal["fail", "requirement", "build"]
_MOST_MISFITS = 3  # downloads of wheels that turn out not to fit
FALLBACKS: tuple[Fallback, ...] = ("fail", "requirement", "build")


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """Options of an installation.

    Attributes:
        target: recipe and toolkit; its Python isn't used.
        addresses: of indexes, as for `pick`, in order.
        sources: known ones to query where no wheel of these indexes fits.
        start: the folder that paths are relative to.
        environ: of `callers_environment`.
        fallback: the action if no wheel fits, or it doesn't work.
        policy: rebuilders that have to have got a wheel's bytes; None: none.
        sandbox: `--sandbox`, for the smoke test.
    """

    target: Target
    python: str | None
    addresses: tuple[str, ...]
    start: Path
    environ: Mapping[str, str]
    caller: Caller
    fallback: Fallback = "fail"
    needs_statement: bool = False
    policy: Policy | None = None
    statements: tuple[str | Path, ...] = ()
    is_dry: bool = False
    sandbox: str = "auto"
    sources: Sources = Sources()  # noqa: RUF009 - frozen


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was done, or would be.

    Attributes:
        how: by which way it came there.
        what: the wheel's file name, or the requirement.
        sha256: of the wheel; empty for a requirement.
        source: the address that had it, after the name of a known source.
        statement: what was said of it; None: nothing.
        rebuilt_by: the policy's rebuilders who have got its bytes.
        was_there: the very same wheel was installed already.
        trial: how the smoke test went; None: nothing was done.
        because: why it wasn't the wheel; empty where it was.
        command: what installs, for who wants to see it.
    """

    how: Literal["wheel", "requirement", "build"]
    what: str
    sha256: str = ""
    source: str = ""
    statement: CheckedStatement | None = None
    rebuilt_by: tuple[str, ...] = ()
    was_there: bool = False
    trial: Trial | None = None
    because: str = ""
    command: str = ""


def install(options: InstallOptions, console: Console, build: Callable[[Path], Path]) -> Installed:
    """Install the newest wheel that fits, or follow `fallback`.

    Args:
        build: builds the target for an interpreter and returns the wheel.

    Raises:
        DownloadError: no index answered, or the wheel can't be fetched; likewise.
        InstallError: no wheel fits, or it can't be installed; the environment is unchanged.
        SmokeError: it doesn't work there; the environment is unchanged.
        CuwheelError: of the wheel's bytes, statement and policy, the sandbox, or the build.
    """
    sandbox = "none" if options.is_dry else choose_sandbox(options.sandbox)
    # The Python sees its own packages alone.
    others = {name: text for name, text in options.environ.items() if not name.startswith("PYTHON")}
    environ = {**others, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
    options = replace(options, environ=environ)
    here = _read_whole(options, console)
    obstacle = here.installer.obstacle
    if obstacle and here.environment.managed:  # uv replaces a missing installer
        raise InstallError(obstacle.what, why=obstacle.cause, fix=obstacle.fix)
    replaced_files(here.environment, canonicalize_name(options.target.project))  # before a fallback
    key = hashlib.sha256(str(here.environment.prefix.resolve()).encode()).hexdigest()[:16]
    logs = options.caller.cache / "logs" / f"install-{key}"
    remove_tree(logs)
    logs.mkdir(parents=True)
    with temporary_folder() as folder:
        run = _Run(options, here, folder, logs, console, sandbox)
        try:
            return run.wheel(options.addresses)
        except (DownloadError, InstallError, SmokeError) as error:
            if options.fallback == "fail":
                raise
            because = f"{error.what}: {error.why}"
            console.warn(f"{error.what}; --fallback {options.fallback}")
        if options.fallback == "requirement":
            return replace(run.requirement(), because=because)
        if options.is_dry:
            return Installed(how="build", what=options.target.name, because=because)
        # The policy is for wheels of others.
        built = run.built(build(here.environment.python))
        return replace(built, how="build", because=because)


def _read_whole(options: InstallOptions, console: Console) -> Here:
    """Return the environment after undoing a killed installation."""
    here = read_here(options.python, options.environ, options.start)
    if not needs_recovery(here.environment):
        return here
    if options.is_dry:
        console.warn("an installation was interrupted here, or runs; the next one undoes it first")
        return here
    recover(here.environment, console)
    return read_here(options.python, options.environ, options.start)


@dataclass(frozen=True)
class _Run:
    options: InstallOptions
    here: Here
    folder: Path
    logs: Path
    console: Console
    sandbox: str

    @property
    def project(self) -> str:
        return canonicalize_name(self.options.target.project)

    @property
    def named(self) -> str:
        """The project with the extra that brings NVIDIA's libraries, where it has one."""
        extra = self.options.target.extra
        return f"{self.project}[{extra}]" if extra else self.project

    @property
    def destination(self) -> UserEnvironment:
        """The environment, as its installer needs it."""
        return UserEnvironment(
            python=self.here.environment.python,
            installer=self.here.installer,
            environ=self.options.environ,
            cache=self.options.caller.cache,
            log=self.logs / "install.log",
        )

    @property
    def place(self) -> Confinement:
        """The confinement of the environment's interpreter with the new wheel in it."""
        there = self.here.environment
        return confine_environment(
            there.python, there.prefix, there.sites, self.sandbox, self.folder / "interpreter"
        )

    def wheel(self, addresses: tuple[str, ...]) -> Installed:
        """Install the newest wheel that fits, of these addresses."""
        wanted = Requirement(self.named)
        offers = query_indexes(wanted, addresses)
        pages = self.options.sources.of(self.project)
        if pages and self._choice(offers).taken is None:
            offers += query_sources(wanted, pages)
        if any(why.kind == "unasked" for why in offers.faults.values()):
            raise_if_silent(self.project, offers)
        return self._install(offers)

    def built(self, wheel: Path) -> Installed:
        """Install this wheel, whatever others lie next to it or in its index."""
        _, version, _, _ = parse_wheel_filename(wheel.name)
        url, index = wheel.absolute().as_uri(), wheel.parent.absolute().as_uri()
        offer = Offer(name=wheel.name, url=url, index=index, version=version, is_wheel=True)
        return self._install(Offers(files=(offer,), counts={index: 1}, faults={}), is_own=True)

    def _install(self, offers: Offers, *, is_own: bool = False, tried: int = 0) -> Installed:
        """Install the newest wheel that fits; the policy doesn't apply to one that was built.

        Only the file shows the archs and drivers of its code: if it doesn't fit, the next is tried.
        """
        taken = self._choose(offers)
        offer, content = taken.offer, fetch_statement(taken.offer, Attempts())
        sha256 = offer.sha256 or stated_sha256(content)
        if not sha256:
            raise InstallError(
                f"there is no SHA-256 for {offer.name}",
                why=f"{redact_url(offer.index)} gives none, and there is no provenance beside "
                "the wheel",
                fix="use an index that gives it",
                anchor="no-fitting-wheel",
            )
        path = self._fetch(offer.name, offer.url, sha256, offer.size)
        check_archive(path)
        if misfit := self._misfit(taken, path):
            self.console.warn(f"{offer.name} doesn't fit: {misfit}")
            others = tuple(file for file in offers.files if file.url != offer.url)
            if tried < _MOST_MISFITS and any(file.is_wheel for file in others):
                return self._install(replace(offers, files=others), tried=tried + 1)
            raise self._no_fit(f"the file of {offer.name} shows it: {misfit}", offers)
        statement = check_statement(path, sha256, content, is_required=self.options.needs_statement)
        rebuilt_by = () if is_own else self._rebuilt_by(path, offer.url)
        check_direct_references((path,), self.here.environment, self.options.target.extra)
        there = is_installed(path, self.project, self.here.environment)
        named = pinned_wheel(path, self.named, sha256)
        done = Installed(
            how="wheel",
            what=offer.name,
            sha256=sha256,
            source=_source(offers, offer),
            statement=statement,
            rebuilt_by=rebuilt_by,
            was_there=there,
            command=self._command(*taken.needs, named),
        )
        wheels = {} if there else {path: sha256}
        wheels |= self._required((*taken.needs, named), self.project)
        if self.options.is_dry:
            self._checked(wheels, self.project)
            return done
        return replace(done, trial=self._tried(wheels, self.project, offer.name))

    def _misfit(self, taken: Judgement, wheel: Path) -> str:
        """Return why a downloaded wheel doesn't run on this machine's GPUs and driver."""
        if is_local(taken.offer.url):  # its file was read before it was chosen
            return ""
        facts = RemoteWheelFacts(contents=read_contents(wheel))
        judge = WheelJudge(taken.offer, self.here.machine, facts, Requirement(self.named))
        reasons = judge.judge().reasons
        return "; ".join(one.text for one in reasons if one.kind in {"arch", "cuda", "driver"})

    def requirement(self) -> Installed:
        """Install the recipe's release by its name, from the indexes of pip and uv."""
        recipe = self.options.target.recipe
        pinned = f"{recipe.name}=={recipe.version}"
        done = Installed(how="requirement", what=pinned, command=self._command(pinned))
        name = canonicalize_name(recipe.name)
        wheels = self._required((pinned,), name)
        if self.options.is_dry:
            return done
        return replace(done, trial=self._tried(wheels, name, pinned))

    def _command(self, *requirements: str) -> str:
        python = str(self.here.environment.python)
        return shlex.join(("uv", "pip", "install", "--python", python, *requirements))

    def _required(self, wanted: tuple[str, ...], project: str) -> dict[Path, str]:
        """Download the wheels that requirements bring; return each with its SHA-256.

        No installed one is replaced. A dry run only names them.
        """
        files = find_requirements(self.destination, self.here, wanted, but=project)
        if self.options.is_dry:
            names = ", ".join(file.name for file in files)
            hint = "where their files would go isn't checked yet: an installation does so before"
            if files:
                self.console.note(f"would bring {names}; {hint} it changes anything")
            return {}
        wheels = {}
        for file in files:
            path = self._fetch(file.name, file.url, file.sha256, file.size)
            self._rebuilt_by(path, file.url)
            wheels[path] = file.sha256
        check_direct_references(wheels, self.here.environment)
        return wheels

    def _checked(self, wheels: Mapping[Path, str], project: str) -> dict[Path, Placement]:
        """Return the placements of wheels; raise an error if they would overwrite other files."""
        before = self.here.environment
        placements = {wheel: place(wheel, before) for wheel in wheels}
        occupied = Occupied(owners=owners_of(before), replaced=project)
        check_placements(placements, before.prefix, occupied)
        return placements

    def _choice(self, offers: Offers) -> Choice:
        target = self.options.target
        mine = tuple(
            file
            for file in offers.files
            if not target.local_version
            or declared(self.project, file.version).get("cuda") == target.toolkit.release
        )
        return choose(replace(offers, files=mine), self.here.machine, Requirement(self.named))

    def _choose(self, offers: Offers) -> Judgement:
        choice = self._choice(offers)
        if choice.taken is None:
            raise self._none_fits(choice, offers)
        return choice.taken

    def _none_fits(self, choice: Choice, offers: Offers) -> InstallError:
        if choice.nearest:
            facts = "; ".join(reason.text for reason in choice.nearest.reasons)
            return self._no_fit(f"the closest is {choice.nearest.offer.name}: {facts}", offers)
        reasons = [
            f"{redact_url(address)} {why}"
            for address, why in offers.faults.items()
            if why.kind != "unasked"
        ]
        release = self.options.target.toolkit.release
        others = (
            f"{redact_url(address)} has {plural(count, 'file')}, none of which is a wheel that "
            f"states CUDA {release}"
            for address, count in offers.counts.items()
            if count
        )
        return self._no_fit("; ".join((*others, *reasons)), offers)

    def _no_fit(self, why: str, offers: Offers) -> InstallError:
        """Return the error for wheels that don't fit; those of silent indexes aren't known."""
        name, python = self.options.target.name, self.options.python
        faults = offers.faults.items()
        silent = [(address, fault) for address, fault in faults if fault.kind == "unasked"]
        answered = " of the indexes that answered" * bool(silent)
        unasked = (f"{redact_url(url)}: {fault}" for url, fault in silent)
        why = "; ".join(filter(None, (why, *unasked)))
        where = f" --python {shlex.quote(python)}" if python else ""
        return InstallError(
            f"no wheel of {name}{answered} fits {self.here.environment.prefix}",
            why=why or "no index has a wheel of this target",
            fix=f"`nox -s install -- {name}{where} --fallback build` builds one; `nox -s pick -- "
            f"{self.project}{where}` says more",
            anchor="no-fitting-wheel",
        )

    def _fetch(self, name: str, url: str, sha256: str, size: int | None) -> Path:
        if is_local(url) and sha256_of_file(local_path(url)) == sha256:
            return local_path(url)
        pinned = PinnedFile(
            name=name,
            sha256=sha256,
            max_size=size or limits.WHEEL,
            size=size,
            pinned_by="the index",
            repin="write the index's pages again",
            regrow="ask the operator of the index: it gives another size",
        )
        return fetch(pinned, lambda: url, cache=self.options.caller.cache, console=self.console)

    def _rebuilt_by(self, wheel: Path, url: str) -> tuple[str, ...]:
        """Return the policy's rebuilders who got a wheel's bytes; raise for too few."""
        if self.options.policy is None:
            return ()
        places = (url.partition("?")[0].rpartition("/")[0], *self.options.statements)
        statements = find_statements(wheel, self.options.policy, places, self.console)
        workspace = bare_workspace(self.console, self.options.caller)
        verdict = check_policy(wheel, self.options.policy, statements, workspace)
        raise_if_refused(verdict)
        return verdict.counted

    def _tried(self, wheels: dict[Path, str], project: str, what: str) -> Trial:
        """Install wheels and try them; restore the environment if one of both fails."""
        before = self.here.environment
        placements, owners = self._checked(wheels, project), owners_of(before)
        is_replaced = any(placed.project == project for placed in placements.values())
        replaced = replaced_files(before, project) if is_replaced else ()
        planned = [file.path for placed in placements.values() for file in placed.files]
        block = changing(before, planned=planned, replaced=replaced) if wheels else nullcontext()
        with block as transaction:
            if transaction:
                install_wheels(self.destination, wheels, transaction.folder)
                shared = [path for path in replaced if owners.get(path, {project}) != {project}]
                transaction.check_others(shared)
                missing = [path for placed in placements.values() for path in missing_bytes(placed)]
                if missing:
                    raise InstallError(
                        f"{before.prefix} doesn't have the wheel's bytes afterwards",
                        why=f"uv wrote other bytes to {', '.join(map(str, missing[:3]))}",
                        fix="the environment is unchanged; download the wheel again, or ask its "
                        "publisher",
                    )
            environment = read_environment(before.python, self.options.environ, self.place)
            log = self.logs / "smoke.log"
            trial = try_wheel(self.options.target, project, environment, self.place, log)
            if trial.faults:
                state = "the environment is unchanged" if wheels else "nothing was installed"
                raise SmokeError(
                    f"{what} doesn't work in {before.prefix}",
                    why="; ".join(trial.faults),
                    fix=f"{state}; `nox -s diagnose` may show what is wrong with it, and the full "
                    f"output is in {self.logs}",
                )
        remove_tree(self.logs)
        return trial


def _source(offers: Offers, offer: Offer) -> str:
    """Return who offers a wheel: its index, with its name if it is a known source."""
    name, address = offers.source_of(offer), redact_url(offer.index)
    return f"{name} ({address})" if name else address
