"""Every way in which cuwheel gives up, each with what, why, how to fix it and where to read on.

An error is raised where the fact is known and printed once, by `__main__`. The docstring of each
class is its entry in TROUBLESHOOTING.md (`nox -s docs` writes it), so it speaks to the reader of
that page; the arguments of one instance speak about one case.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cuwheel.spelling import as_typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class CuwheelError(Exception):
    """Something that cuwheel was asked to do can't be done.

    Args:
        what: the fact, one line, starting with the name of the thing that failed.
        why: the cause, one or two sentences, or one line for each of several facts.
        fix: what the reader can do next, as a command where there is one.

    `exit_code` is what the process exits with; `anchor` is the heading in TROUBLESHOOTING.md.
    """

    exit_code: ClassVar[int] = 1
    anchor: ClassVar[str] = ""

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = as_typed(what)
        self.why = as_typed(why)
        self.fix = as_typed(fix)

    def __str__(self) -> str:
        """The whole message as `__main__` prints it, without colour."""
        lines = [f"error: {self.what}"]
        lines += [f"  because  {_indented(self.why)}"] if self.why else []
        lines += [f"  to fix   {_indented(self.fix)}"] if self.fix else []
        lines += [f"  more     TROUBLESHOOTING.md#{self.anchor}"] if self.anchor else []
        return "\n".join(lines)


class UsageError(CuwheelError):
    """An option, a session or a name on the command line isn't one that cuwheel knows.

    The message names the nearest known one. `nox -l` lists every session,
    `nox -s build-<recipe>-<toolkit> -- --help` every option.
    """

    exit_code = 2
    anchor = "usage"


class ProjectError(CuwheelError):
    """A command of an installed cuwheel was started outside of any project.

    What builds needs recipes. A project is a folder with `recipes/`, `envs/` and `patches/`; it is
    found upwards from the working directory, and `CUWHEEL_PROJECT` names others. `cuwheel init`
    makes one. audit, diagnose, explain and pick need none.
    """

    exit_code = 7
    anchor = "project"


class RecipeError(CuwheelError):
    """A recipe is not well formed: a field is missing, contradicts another, or has no known value.

    All faults of the recipe are listed together. The reference of every field is in
    docs/reference/recipe.md.
    """

    exit_code = 3
    anchor = "recipe"


class UnsupportedArchError(CuwheelError):
    """An architecture was asked for that this CUDA release can't compile for.

    Each nvcc knows a fixed range of compute capabilities: new GPUs need a newer toolkit, and old
    ones were dropped from newer toolkits. Take the arch out of `archs` (or `--arch`), or build
    with a toolkit that knows it.
    """

    exit_code = 4
    anchor = "unsupported-arch"


class FrameworkError(CuwheelError):
    """The release of the framework that was asked for doesn't go with the target.

    A wheel is compiled against one release of PyTorch, which was built with one release of CUDA and
    has wheels for some Pythons. Two CUDA releases in one process end in undefined symbols or worse,
    so the toolkit has to be the framework's: `nox -s build -- <recipe> --framework torch==2.15.0`
    takes the one that fits.
    """

    exit_code = 6
    anchor = "framework"


class InterpreterNotFoundError(CuwheelError):
    """The Python that the wheel is for is not on this machine.

    The message lists every location searched and what was found there. A pyenv shim on PATH
    doesn't count when the version behind it is not installed. Install that Python, or give the
    path of an interpreter: `-- --python /path/to/python3.12`.
    """

    exit_code = 5
    anchor = "python-not-found"


class LockError(CuwheelError):
    """A lock file is missing, was edited by hand, or doesn't match its input.

    Every package that cuwheel installs comes from a lock under `envs/`, with a hash.
    `nox -s lock -- <name>` writes the lock again: those of a recipe from what it declares
    (`requires`, `framework`, `link`), the others from their `.in` file. `nox -s lock-check` tells
    which ones are stale.
    """

    exit_code = 10
    anchor = "lock"


class InstallError(CuwheelError):
    """The locked packages of an environment or toolchain could not be installed.

    The index may be out of reach, a file may no longer match its hash, or the cache may hold
    nothing yet while `--offline` is set. The installer's own words stand in the log that the
    message names.
    """

    exit_code = 11
    anchor = "install"


class ToolchainError(CuwheelError):
    """The CUDA toolchain is incomplete, damaged, or not of the target's release.

    A toolchain is checked each time it is used. A damaged one is removed and made again; what is
    left to report is a lock that mixes releases (nvcc, ptxas, crt and nvvm must be of one), a
    toolkit on the machine that is not the asked release (`--toolchain system`), or a provider that
    has no lock for this toolkit.
    """

    exit_code = 20
    anchor = "toolchain"


class TargetRootError(CuwheelError):
    """A wheel for another kind of machine needs a root folder of one, and there is no fitting one.

    `--platform linux_aarch64` compiles here and runs nothing of the other machine, but Python's
    headers and build settings are that machine's, and so is the Python that the smoke test starts
    under QEMU. `--target-root` or CUWHEEL_TARGET_ROOT names the folder; docs/how-to/arm64.md says
    how one is made.
    """

    exit_code = 24
    anchor = "target-root"


class DamagedPackagesError(ToolchainError):
    """Files of installed packages differ from what the packages themselves say.

    The disk or another program damaged the installer's cache. With a network, cuwheel downloads
    them again by itself; with `--offline`, remove the folder `uv` in the cache and fill it anew.
    """

    exit_code = 21
    anchor = "damaged-packages"


class DownloadError(CuwheelError):
    """A file could not be downloaded.

    The address didn't answer, answered with an error, or broke off too often. A partial file is
    kept and the next run goes on from there. Without a network: put the file where the message
    says, or give the source by hand with `-- --source FILE`.
    """

    exit_code = 30
    anchor = "download"
    is_missing = False  # the server answered, and has no such file


class UnknownProjectError(DownloadError):
    """No package index has a project of this name, or not the release or the source asked for.

    The indexes answered; the name, the version or the index is wrong, or upstream publishes only
    wheels there. The message says what each index has. Names are those of the package index
    (`flash-attn`), which may differ from what is imported. A source that is on no index can be
    pinned in the recipe by its own address: `Archive`, or `GitCommit`.
    """

    exit_code = 35
    anchor = "unknown-project"


class HashMismatchError(CuwheelError):
    """A downloaded file is not the file that the recipe pins.

    Its SHA-256 differs from the one in the recipe. Either the file was changed at its address or on
    the way, or the recipe's hash is wrong. The file is set aside (never used, never kept under
    its real name) so that it can be examined.
    """

    exit_code = 31
    anchor = "wrong-hash"


class OversizedDownloadError(CuwheelError):
    """A download is larger than the recipe allows.

    The limit protects the disk and the cache from an address that sends something else. Raise
    `max_size` in the recipe's source if the package really grew.
    """

    exit_code = 32
    anchor = "oversized-download"


class UnsafeArchiveError(CuwheelError):
    """An archive tries to write outside the folder it is unpacked into, or can't be read.

    Members with `..`, absolute names, links that lead outside, and device files are refused, and
    nothing of the archive is kept. A real sdist holds none of these.
    """

    exit_code = 33
    anchor = "unsafe-archive"


class SourceError(CuwheelError):
    """A source tree can't be used: one that `--source` names, or one that `nox -s new` has read.

    It has to be a folder with a `pyproject.toml` or `setup.py`, or an archive of one. `nox -s new`
    drafts a recipe only where it holds CUDA code.
    """

    exit_code = 34
    anchor = "source"


class PatchError(CuwheelError):
    """A patch of the recipe doesn't apply to the source, or has no effect.

    Patches apply exactly: no fuzz, no offset. The message names the file and the hunk. When the
    package's version moved, make the patch again from the new source; when upstream took the
    change, remove the patch from the recipe.
    """

    exit_code = 40
    anchor = "patch"


class PreflightError(CuwheelError):
    """Something on this machine doesn't fit the target, found before the first compile.

    All problems are listed together, each with its cause and fix.
    """

    exit_code = 50
    anchor = "preflight"


class SandboxError(CuwheelError):
    """The sandbox that `--sandbox` asks for doesn't work on this machine.

    A sandbox needs namespaces of the kernel. Many containers refuse them, and Ubuntu 24.04 grants
    them only to programs with an AppArmor profile, such as bubblewrap. Without `--sandbox` a build
    takes what there is, and where there is nothing, the compiler launcher alone keeps this
    machine's paths out of the wheel; the provenance says so.
    """

    exit_code = 51
    anchor = "sandbox"


class ContainerError(CuwheelError):
    """A build can't run in the image that `--container` names.

    podman or docker has to be installed and to work for you, the image has to be on this machine or
    in reach, and it has to hold a Python for cuwheel to run on. docs/how-to/containers.md says how
    images are pinned, and what a container is given.
    """

    exit_code = 52
    anchor = "container"


@dataclass(frozen=True, kw_only=True)
class FirstError:
    """The first thing that a compiler has complained of.

    Attributes:
        file: the source, as the compiler names it; empty where it names none.
        line: of it.
        text: the message, its place in front.
        command: that was run; empty where the log doesn't show it.
    """

    file: str
    line: str
    text: str
    command: str


class CommandFailedError(CuwheelError):
    """A program that cuwheel ran ended with an error.

    Args:
        what: the fact, one line.
        command: the program and its arguments as they were run.
        status: its exit status; negative for a signal, as `subprocess` gives it.
        log: the file that holds all of its output.
        tail: the last lines of that output.

    The message shows the first error of a compiler, where there is one, then the command, the log
    file and the last 20 lines of it, and what `nox -s explain` says of the log. The work folder is
    kept: go there and run the command again by hand to look closer.

    `known` holds facts that help to explain the log, as `{"cuda": "12.2"}`.
    """

    exit_code = 60
    anchor = "command-failed"

    def __init__(  # noqa: PLR0913 - each is one line of the message
        self,
        what: str,
        *,
        command: Iterable[str],
        status: int,
        log: Path | None,
        tail: Iterable[str],
        why: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(what, why=why or _explain_status(status), fix=fix)
        self.command = tuple(command)
        self.status = status
        self.log = log
        self.tail = tuple(tail)
        self.known: Mapping[str, str] = {}
        self.first: FirstError | None = None

    def __str__(self) -> str:
        """What the compiler says, the message, the command, the log's name and its last lines."""
        lines = [self.first.text] if self.first else []
        lines += [f"  command  {self.first.command}"] if self.first and self.first.command else []
        lines += [super().__str__(), f"  command  {' '.join(self.command)}"]
        lines += [f"  log      {self.log}"] if self.log else []
        lines += [f"  last {len(self.tail)} lines:"] if self.tail else []
        lines += [f"    {line}" for line in self.tail]
        return "\n".join(lines)


class BuildFailedError(CommandFailedError):
    """The package's own build failed: the compiler, the linker or the build backend stopped.

    The first error in the log is the one that counts; later ones often follow from it. `Killed` or
    status 137 means that memory ran out: a compiler was killed three times, twice
    of them with nothing of cuwheel's beside it. Fewer jobs don't help then. End other programs,
    raise the container's limit, or take a machine with more memory; `nox -s profile -- TARGET`
    tells what each compile took.
    """

    exit_code = 61
    anchor = "build-failed"


class RebuildFailedError(CommandFailedError):
    """One of the builds of a verification failed.

    `nox -s verify` builds a target several times, in other folders and with other settings. The
    message shows the last lines of the build that failed; its own error is among them.
    """

    exit_code = 62
    anchor = "rebuild-failed"


class CellsFailedError(CuwheelError):
    """Some cells of the matrix failed; all others were built.

    The table says what each failed with, `dist/.cuwheel/` has its log, and `dist/matrix.html` both.
    `nox -s matrix -- build` again builds those that aren't there, and nothing else.
    """

    exit_code = 63
    anchor = "cells-failed"


class NightlyFailedError(CuwheelError):
    """A step of the nightly cycle failed; the others were run all the same.

    The report says what each step did and why it failed, with its log and what the log says:
    `nightly/latest/index.html`, and `nightly.json` beside it as data. docs/how-to/nightly.md.
    """

    exit_code = 64
    anchor = "nightly-failed"


class NightlyTimeError(CuwheelError):
    """The nightly cycle didn't get through in its time.

    What was running was ended, what was left is skipped in the report, and what was built or
    compiled by then is kept: the next night goes on from there. `--time-limit` gives it more.
    """

    exit_code = 65
    anchor = "nightly-time"


class GpuInUseError(CuwheelError):
    """Another nightly run uses this GPU, or this machine where it has none.

    Two at once would make each other slow, and measure that. The message says who holds the lock;
    a run waits for it unless `--no-wait` is given. The lock ends with its process.
    """

    exit_code = 66
    anchor = "gpu-in-use"


class RepairError(CuwheelError):
    """The built wheel could not be turned into one that is portable.

    It holds no compiled library, needs a CUDA or framework library that the recipe's `link` doesn't
    declare, or auditwheel refuses it.
    """

    exit_code = 70
    anchor = "repair"


class AuditError(CuwheelError):
    """The finished wheel breaks its contract, so it is not published.

    Each breach names the file in the wheel and the rule; the entries of the rules stand below,
    under "What the audit finds". `nox -s audit -- WHEEL` reads any wheel, of other projects too.
    """

    exit_code = 80
    anchor = "audit"


class AuditWarningError(CuwheelError):
    """A wheel that was audited works, under conditions that it doesn't state.

    Only the session `audit` ends like this; a build tells of warnings and goes on. Each is printed
    with its rule, whose entry below says why it matters. `-- --fail-on error` lets them pass.
    """

    exit_code = 81
    anchor = "audit-warning"


class NotReproducibleError(CuwheelError):
    """Building again gave other bytes.

    The report names the members, sections and kernels that differ, and the causes that could be
    told from them. What cuwheel does against each, and what it can't do, stands in
    docs/reproducibility.md.
    """

    exit_code = 82
    anchor = "not-reproducible"


class PolicyError(CuwheelError):
    """Too few rebuilders state that they have got this wheel's bytes.

    A policy (`rebuilders.txt`) says how many of which rebuilders have to. The message names each
    statement that was found and doesn't count, with its reason, and who has made none:
    docs/how-to/rebuild.md. A wheel that was changed behind its maker's back ends here.
    """

    exit_code = 83
    anchor = "policy"


class OtherInputsError(CuwheelError):
    """This checkout can't build the wheel again with what its provenance names.

    The recipe, a lock, a patch or cuwheel's own code is another here, and the commit that the
    statement names isn't in this clone. The message names each file with both hashes. Fetch the
    commit (`git fetch`), or build with what is here: `nox -s rebuild -- WHEEL --here` says what
    that gives.
    """

    exit_code = 84
    anchor = "other-inputs"


class SmokeError(CuwheelError):
    """The wheel installs but doesn't work in a clean environment.

    An import failed, a library of the wheel can't be loaded, CUDA of two major releases is in
    one process, or a CUDA library was loaded from outside site-packages, which means that the
    wheel only works on machines that have that library by chance.
    """

    exit_code = 90
    anchor = "smoke"


class GpuError(CuwheelError):
    """What was asked for needs a GPU, and there is none that can do it.

    There is no driver or no GPU, the wheel holds no code for the one that is there, its memory is
    too small or damaged, or another process is on it. `nox -s diagnose` says more of the machine.
    """

    exit_code = 91
    anchor = "gpu"


class WrongResultError(CuwheelError):
    """The package gives wrong results on this GPU, or other code than its own ran.

    Speed doesn't count then. Each case was compared with the same computed by other code in higher
    precision; the limit of its relative error stands in the probe, `recipes/perf/<recipe>.py`.
    Where none of the kernels that ran is in the wheel, the package took another path: a fallback,
    or another installation of it.
    """

    exit_code = 92
    anchor = "wrong-result"


class ProbeError(CuwheelError):
    """A case of a performance probe could not be run.

    The package or the probe raised, the process died, or it didn't answer in time. The log that the
    message names holds all that was said.
    """

    exit_code = 93
    anchor = "probe"


class SlowerError(CuwheelError):
    """The wheel is slower than the one that it was compared with.

    Both ran in turns on this GPU, and the difference is larger than the tolerance and than what the
    old wheel differs from itself.
    """

    exit_code = 94
    anchor = "slower"


class UndecidedError(CuwheelError):
    """The measurements scatter too much to say whether the wheel is slower.

    Undecided never counts as passed; cases that could not be compared leave a run undecided, too.
    Another process on the GPU, clocks that fall because of heat or power, and calls of few
    microseconds scatter; run it again on an idle GPU.
    """

    exit_code = 95
    anchor = "undecided"


class WheelIndexError(CuwheelError):
    """The package index in `dist/simple/` could not be written.

    A file in `dist/` is not a valid wheel, or the wheel to publish is not the one that was
    audited.
    """

    exit_code = 100
    anchor = "index"


class PublishedWheelError(CuwheelError):
    """A wheel with this file name is published with other bytes.

    What is published never changes: who has the file, or its hash in a lock, would get another one
    under the same name. A build gives a wheel of other bytes the next build tag (`pkg-1.0-1-…`),
    which installers prefer. This error comes where that was too late, as another build published
    the name meanwhile, or where `--build-tag` names one that is taken. `--replace` overwrites the
    file, for a `dist/` that nobody installs from.
    """

    exit_code = 101
    anchor = "published-wheel"


class IndexCheckError(CuwheelError):
    """A package index that was checked breaks rules that installers go by, or has changed.

    The report names each rule with the files that break it, why that matters and what to do;
    docs/reference/index-check.md lists them all. Whoever doesn't keep the index reports it to whom
    does.
    """

    exit_code = 102
    anchor = "index-check"


class ReleaseRequirementError(CuwheelError):
    """A wheel isn't released, as it hasn't passed what the release requires of each.

    `--require perf,verify` asks for a record of exactly these bytes: a passed measurement
    (`nox -s perf`), and builds that gave them again (`nox -s verify`). Of several records the
    newest counts. The message names each wheel and what to run; `--reports DIR` names other folders
    of records.
    """

    exit_code = 103
    anchor = "release-requirement"


class UploadError(CommandFailedError):
    """twine couldn't upload the wheels of a release.

    Its last lines say why. What was uploaded before that stays: the same command again compares the
    index with the release by hash, and uploads the rest. User and password come from
    `TWINE_USERNAME` and `TWINE_PASSWORD`, the keyring or `~/.pypirc`, never from the command line.
    """

    exit_code = 104
    anchor = "upload-failed"


class SigstoreError(CuwheelError):
    """Sigstore didn't sign a statement, or its roots can't be read.

    Signing takes the identity of a CI job (in GitHub Actions with `id-token: write`), and asks
    servers for a certificate of ten minutes and an entry in a public log. What can't be reached is
    named. A key from a file needs nobody: `-- --key FILE`.
    """

    exit_code = 105
    anchor = "sigstore"


class StageOrderError(CuwheelError):
    """A single stage was asked for whose input is not there.

    `--stage` runs one stage on what the stage before it left in the work folder. Run the earlier
    stages first, or the whole build without `--stage`, with `--keep-work`.
    """

    exit_code = 110
    anchor = "stage-order"


class DiskFullError(CuwheelError):
    """A disk ran full.

    The message names the folder. Nothing half-made is left under a final name. `CUWHEEL_CACHE`,
    `--work` and `TMPDIR` move the cache, the work folder and temporary files to another disk.
    """

    exit_code = 120
    anchor = "no-space"


class FileAccessError(CuwheelError):
    """A file or folder can't be read or written.

    The message names it and gives the system's reason: it belongs to somebody else, its file system
    is read-only, or something of another kind has its name. `CUWHEEL_CACHE`, `--work` and `--dist`
    name other folders.
    """

    exit_code = 121
    anchor = "file-access"


class UntrustedCacheError(CuwheelError):
    """The cache is somebody else's, or others can write it.

    cuwheel runs programs from its cache: its own environment, compilers, installers. So it refuses
    one that everybody can write or replace (a folder anywhere above it may be written by all, and
    isn't sticky as `/tmp` is), one of another user who doesn't share it with a group of yours, and,
    as root, one of any other user. `CUWHEEL_CACHE` names another; `CUWHEEL_COMPILE_CACHE`, which is
    looked at in the same way, another compile cache. Under `sudo`, `HOME` may still be the
    user's: `CUWHEEL_CACHE=~root/.cache/cuwheel`.
    """

    exit_code = 122
    anchor = "untrusted-cache"


class SlurmError(CuwheelError):
    """Jobs can't be given to Slurm.

    Its programs (`sbatch`, `squeue`, `scancel`) aren't on this machine, its controller doesn't
    answer, or it has no partition of this name. docs/how-to/slurm.md says what a cluster must have.
    """

    exit_code = 115
    anchor = "slurm"


class NoFittingWheelError(CuwheelError):
    """No wheel that is offered fits the environment, or the one that does can't be installed.

    The message names the nearest wheel and what speaks against it. `nox -s pick` says more, also of
    other indexes (`--index`); `nox -s install -- TARGET --fallback build` builds one.
    """

    exit_code = 116
    anchor = "no-fitting-wheel"


class WheelStatementError(CuwheelError):
    """The statement beside a wheel isn't about this wheel, can't be read, or isn't there.

    `nox -s install` compares the wheel's SHA-256 with the one that its provenance names. Where they
    differ, one of both was changed after the build, and nothing is installed, whatever `--fallback`
    says.
    """

    exit_code = 117
    anchor = "wheel-statement"


@contextlib.contextmanager
def naming_option(option: str, path: Path) -> Iterator[None]:
    """Name the option that has named a file or folder which can't be used.

    Raises:
        DiskFullError: no space is left there.
        FileAccessError: it can't be used for another reason.
    """
    try:
        yield
    except OSError as error:
        at = Path(os.fsdecode(error.filename or ""))
        if at != path and at not in path.parents and path not in at.parents:
            raise
        raise of_system_error(error, option) from error


def of_system_error(error: OSError, option: str = "") -> CuwheelError:
    """What an error of the operating system means to the reader.

    Args:
        error: of the system.
        option: by which a person has named the file; empty: it is one of cuwheel's own.
    """
    name = error.filename or "a file"
    reason = error.strerror or str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFullError(
            f"no space left on the disk of {name}",
            why=f"the system says: {reason}",
            fix="free some space, or move the cache to another disk with CUWHEEL_CACHE",
        )
    if error.errno == errno.EFBIG:
        return FileAccessError(
            f"{name} is too large",
            why=reason,
            fix="see what has written it and remove it, or take it from its repository again; if "
            "cuwheel was to write it, raise the limit on the size of files (`ulimit -f`)",
        )
    if option:
        return FileAccessError(
            f"{name} can't be used",
            why=f"{option} names it, and the system says: {reason}",
            fix=f"see whether it is there and whose it is, or name another one with {option}",
        )
    return FileAccessError(
        f"{name} can't be used",
        why=f"the system says: {reason}",
        fix="see whose it is and whether its file system is read-only, or name other folders: "
        "CUWHEEL_CACHE for the cache, `-- --work DIR` and `-- --dist DIR` for the checkout's",
    )


# What flock(2) says on a network disk that locks nothing, or whose lock service is out of reach.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def of_refused_lock(path: Path, error: OSError) -> CuwheelError:
    """What it means that a file can't be locked, for one of `NO_LOCKS`."""
    return FileAccessError(
        f"{path} can't be locked",
        why=f"the system says: {error.strerror}; without locks two builds could write the same "
        "files at once",
        fix="take a disk that locks: of NFS the lock service has to run, Lustre has to be mounted "
        "with `flock`; CUWHEEL_CACHE names the cache, `-- --work DIR` and `-- --dist DIR` the "
        "checkout's folders",
    )


def nearest(asked: str, known: Iterable[str]) -> str:
    """The known name that was probably meant; empty where none is near."""
    near = difflib.get_close_matches(asked, sorted(known), n=1, cutoff=0.6)
    return near[0] if near else ""


def suggest(asked: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant.

    Args:
        asked: the unknown name.
        known: every name that would have been right.

    Returns:
        `did you mean "x"?`, or the list of what is known where nothing is near.
    """
    names = sorted(known)
    if near := nearest(asked, names):
        return f'did you mean "{near}"?'
    return f"known are: {', '.join(names)}" if names else "none are known here"


def _indented(text: str) -> str:
    """Several lines, one under the other behind their label."""
    return text.replace("\n", f"\n{' ' * 11}")


def _explain_status(status: int) -> str:
    if status in {-9, 137}:
        return "it was killed (SIGKILL), most often because the memory ran out"
    if status < 0:
        return f"it was ended by signal {-status}"
    return f"it ended with status {status}"
