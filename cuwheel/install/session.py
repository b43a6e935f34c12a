"""The session `install`: the newest wheel that fits, checked, installed and tried."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel import limits
from cuwheel.attest.check import check_policy, find_statements, raise_if_refused
from cuwheel.diagnose.facts.environment import ask_environment
from cuwheel.errors import DownloadError, InstallError, NoFittingWheelError, SmokeError
from cuwheel.fetch.download import PinnedFile
from cuwheel.fetch.retry import Attempts
from cuwheel.fetch.store import fetch
from cuwheel.fetch.urls import is_local, local_path, redact_url
from cuwheel.install.artifact import unpack_artifact
from cuwheel.install.environment import (
    Destination,
    install_requirements,
    install_wheel,
    is_installed,
    pinned_wheel,
    recorded_files,
    restore,
    save,
)
from cuwheel.install.statement import check_statement, fetch_statement, stated_sha256
from cuwheel.install.trial import Trial, try_wheel
from cuwheel.pick.choice import Offers, ask_indexes, choose
from cuwheel.pick.declarations import declared
from cuwheel.pick.machine import read_here
from cuwheel.pick.session import raise_if_silent
from cuwheel.pypi.offers import Offer
from cuwheel.system.files import sha256_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cuwheel.attest.policy import Policy
    from cuwheel.install.statement import CheckedStatement
    from cuwheel.model.target import Target
    from cuwheel.pick.choice import Choice
    from cuwheel.pick.fit import Judgement
    from cuwheel.pick.machine import Here
    from cuwheel.pypi.pages import PageFault
    from cuwheel.system.console import Console

Fallback = Literal["fail", "requirement", "build"]
FALLBACKS: tuple[Fallback, ...] = ("fail", "requirement", "build")


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """What is to be installed where.

    Attributes:
        target: recipe and toolkit; its Python is of no account.
        python: an interpreter, an environment's folder or a conda environment's name.
        addresses: where to look, as `pick` takes them, in order.
        artifacts: zips of a workflow, in which is looked too.
        start: the folder that paths are relative to.
        environ: of the caller.
        cache: cuwheel's cache.
        fallback: what to do where no wheel fits, or the one that does doesn't work.
        needs_statement: refuse a wheel without.
        policy: which rebuilders have to have got a wheel's bytes; None: nobody.
        statements: where theirs are, beside the wheel's own folder.
        is_dry: say what would be done, and stop.
    """

    target: Target
    python: str | None
    addresses: tuple[str, ...]
    artifacts: tuple[Path, ...] = ()
    start: Path
    environ: Mapping[str, str]
    cache: Path
    fallback: Fallback = "fail"
    needs_statement: bool = False
    policy: Policy | None = None
    statements: tuple[str | Path, ...] = ()
    is_dry: bool = False


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was done, or would be.

    Attributes:
        how: by which way it came there.
        what: the wheel's file name, or the requirement.
        sha256: of the wheel; empty for a requirement.
        source: the address that had it.
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


def install(asked: InstallOptions, console: Console, build: Callable[[Path], Path]) -> Installed:
    """Install the newest wheel that fits, or do what `fallback` says.

    Args:
        asked: what.
        console: shows how it goes.
        build: builds the target for an interpreter; gives back the wheel.

    Raises:
        NoFittingWheelError: no wheel fits, and `fallback` says to fail.
        DownloadError: no index could be asked, or the wheel can't be fetched; likewise.
        WheelStatementError: a wheel is not the one that its statement is about.
        PolicyError: too few of the policy's rebuilders have got its bytes.
        HashMismatchError: a wheel is not the one that its index names.
        InstallError: it can't be installed; the environment is as it was.
        SmokeError: it doesn't work there; the environment is as it was.
        CuwheelError: of the build.
    """
    here = read_here(asked.python, asked.environ, asked.start)
    obstacle = here.installer.obstacle
    if obstacle and here.environment.managed:  # where only an installer is missing, uv is here
        raise InstallError(obstacle.what, why=obstacle.cause, fix=obstacle.fix)
    recorded_files(here.environment, canonicalize_name(asked.target.project))  # else no build helps
    with _folder() as folder:
        run = _Run(asked, here, folder, console)
        try:
            return run.wheel(asked.addresses)
        except (DownloadError, NoFittingWheelError, InstallError, SmokeError) as error:
            if asked.fallback == "fail":
                raise
            because = f"{error.what}: {error.why}"
            console.warn(f"{error.what}; --fallback {asked.fallback}")
        if asked.fallback == "requirement":
            return replace(run.requirement(), because=because)
        if asked.is_dry:
            return Installed(how="build", what=asked.target.name, because=because)
        # Who has built it doesn't ask others whether they have: that holds of this one file alone.
        own = replace(run, asked=replace(asked, policy=None))
        made = own.built(build(here.environment.python))
        return replace(made, how="build", because=because)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for logs and copies, which stays where something fails and has left any."""
    folder = Path(tempfile.mkdtemp(prefix="cuwheel-install-"))
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):  # it isn't empty
            folder.rmdir()
        raise
    shutil.rmtree(folder)


@dataclass(frozen=True)
class _Run:
    asked: InstallOptions
    here: Here
    folder: Path
    console: Console

    @property
    def project(self) -> str:
        return canonicalize_name(self.asked.target.project)

    @property
    def named(self) -> str:
        """The project with the extra that brings NVIDIA's libraries, where it has one."""
        extra = self.asked.target.extra
        return f"{self.project}[{extra}]" if extra else self.project

    @property
    def destination(self) -> Destination:
        return Destination(
            environment=self.here.environment,
            environ=self.asked.environ,
            log=self.folder / "install.log",
        )

    def wheel(self, addresses: tuple[str, ...]) -> Installed:
        """Install the newest wheel that fits, of these addresses and the artifacts."""
        artifacts = [self._unpacked(number, one) for number, one in enumerate(self.asked.artifacts)]
        offers = ask_indexes(Requirement(self.named), (*artifacts, *addresses))
        if any(why.kind == "unasked" for why in offers.faults.values()):
            raise_if_silent(self.project, offers)
        return self._install(offers)

    def built(self, wheel: Path) -> Installed:
        """Install this very wheel, whatever lies beside it and whatever its index offers."""
        _, version, _, _ = parse_wheel_filename(wheel.name)
        url, index = wheel.absolute().as_uri(), wheel.parent.absolute().as_uri()
        offer = Offer(name=wheel.name, url=url, index=index, version=version, is_wheel=True)
        return self._install(Offers(files=(offer,), counts={index: 1}, faults={}))

    def _install(self, offers: Offers) -> Installed:
        """Install the newest wheel of all that fits."""
        taken = self._choose(offers)
        offer, content = taken.offer, fetch_statement(taken.offer, Attempts())
        sha256 = offer.sha256 or stated_sha256(content)
        if not sha256:
            raise NoFittingWheelError(
                f"there is no SHA-256 for {offer.name}",
                why=f"{redact_url(offer.index)} gives none, and there is no provenance beside "
                "the wheel",
                fix="use an index that gives it",
            )
        path = self._fetch(offer, sha256)
        statement = check_statement(path, sha256, content, is_required=self.asked.needs_statement)
        rebuilt_by = self._rebuilt_by(path, offer)
        there = is_installed(path, self.project, self.here.environment)
        named = pinned_wheel(path, self.named, sha256)
        done = Installed(
            how="wheel",
            what=offer.name,
            sha256=sha256,
            source=redact_url(offer.index),
            statement=statement,
            rebuilt_by=rebuilt_by,
            was_there=there,
            command=shlex.join(self.destination.command("install", *taken.needs, named)),
        )
        if self.asked.is_dry:
            return done

        def fill() -> None:
            if not there:
                install_wheel(self.destination, path, named, taken.needs)
            elif self.named != self.project:  # it may have come without what the extra brings
                same = f"{self.named}=={offer.version}"
                install_requirements(self.destination, [same], but="")

        return replace(done, trial=self._tried(fill, self.project, offer.name))

    def requirement(self) -> Installed:
        """Install the recipe's release by its name, from the indexes of pip and uv."""
        recipe = self.asked.target.recipe
        pinned = f"{recipe.name}=={recipe.version}"
        done = Installed(how="requirement", what=pinned)
        done = replace(done, command=shlex.join(self.destination.command("install", pinned)))
        if self.asked.is_dry:
            return done
        name = canonicalize_name(recipe.name)

        def fill() -> None:
            install_requirements(self.destination, [pinned], but=name)

        return replace(done, trial=self._tried(fill, name, pinned))

    def _choose(self, offers: Offers) -> Judgement:
        mine = tuple(one for one in offers.files if self._is_of_target(one))
        choice = choose(replace(offers, files=mine), self.here.machine, Requirement(self.named))
        if choice.taken is None:
            raise self._none_fits(choice, offers.faults)
        return choice.taken

    def _unpacked(self, number: int, artifact: Path) -> str:
        folder = self.folder / f"artifact-{number}"
        folder.mkdir(exist_ok=True)
        return (folder if any(folder.iterdir()) else unpack_artifact(artifact, folder)).as_uri()

    def _is_of_target(self, offer: Offer) -> bool:
        """Whether a wheel is of the target's CUDA release, where its version has to say that."""
        target = self.asked.target
        if not target.local_version:
            return True
        return declared(self.project, offer.version).get("cuda") == target.toolkit.release

    def _none_fits(self, choice: Choice, faults: Mapping[str, PageFault]) -> NoFittingWheelError:
        if choice.nearest:
            facts = "; ".join(one.text for one in choice.nearest.reasons)
            unasked = (
                f"; {redact_url(one)} couldn't be queried: it {why}"
                for one, why in faults.items()
                if why.kind == "unasked"
            )
            why = f"the closest is {choice.nearest.offer.name}: {facts}{''.join(unasked)}"
        else:
            said = (f"{redact_url(one)} {why}" for one, why in faults.items())
            why = "; ".join(said) or "no index has a wheel of this target"
        name = self.asked.target.name
        return NoFittingWheelError(
            f"no wheel of {name} fits {self.here.environment.prefix}",
            why=why,
            fix=f"`nox -s install -- {name} --fallback build` builds one; `nox -s pick -- "
            f"{self.project}` says more",
        )

    def _fetch(self, offer: Offer, sha256: str) -> Path:
        """The wheel, of which the hash is right."""
        if is_local(offer.url) and sha256_of_file(local_path(offer.url)) == sha256:
            return local_path(offer.url)
        pinned = PinnedFile(
            name=offer.name,
            sha256=sha256,
            max_size=offer.size or limits.WHEEL,
            size=offer.size,
            pinned_by="the index",
            repin="write the index's pages again",
            regrow="ask the operator of the index: it gives another size",
        )
        return fetch(pinned, lambda: offer.url, cache=self.asked.cache, console=self.console)

    def _rebuilt_by(self, wheel: Path, offer: Offer) -> tuple[str, ...]:
        """Who of the policy's rebuilders has got a wheel's bytes.

        Raises:
            PolicyError: too few of them.
        """
        if self.asked.policy is None:
            return ()
        beside = offer.url.partition("?")[0].rpartition("/")[0]
        places = (beside, *self.asked.statements)
        found = find_statements(wheel, self.asked.policy, places, self.console)
        verdict = check_policy(wheel, self.asked.policy, found, console=self.console)
        raise_if_refused(verdict)
        return verdict.counted

    def _tried(self, fill: Callable[[], None], project: str, what: str) -> Trial:
        """Install and try; bring the environment back where one of both fails.

        Raises:
            InstallError: it can't be installed.
            SmokeError: it doesn't work.
        """
        copies = self.folder / "before"
        copies.mkdir(exist_ok=True)
        saved = save(self.destination, project, copies)
        try:
            fill()
            environment = ask_environment(self.here.environment.python, self.asked.environ)
            log = self.folder / "smoke.log"
            trial = try_wheel(self.asked.target, project, environment, self.folder / "asked", log)
            self._raise_faults(trial, what)
        except BaseException:
            restore(self.destination, project, saved)
            raise
        shutil.rmtree(copies)
        return trial

    def _raise_faults(self, trial: Trial, what: str) -> None:
        """See that the smoke test has passed.

        Raises:
            SmokeError: it hasn't.
        """
        if trial.faults:
            raise SmokeError(
                f"{what} doesn't work in {self.here.environment.prefix}",
                why="; ".join(trial.faults),
                fix="the environment is unchanged; `nox -s diagnose` may show what is wrong "
                f"with it, and the full output is in {self.folder}",
            )
