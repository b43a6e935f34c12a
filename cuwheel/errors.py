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
    """An option, a session or a name on the command line is unknown.

    The message suggests the closest known name. `nox -l` lists every session,
    `nox -s build-<recipe>-<toolkit> -- --help` every option.
    """

    exit_code = 2
    anchor = "usage"


class ProjectError(CuwheelError):
    """A command of an installed cuwheel was run outside of a project.

    Commands that build need recipes. A project is a folder with `recipes/`, `envs/` and `patches/`;
    cuwheel searches the working directory and its parents for one, and `CUWHEEL_PROJECT` names
    others. `cuwheel init` creates one. audit, diagnose, explain and pick need no project.
    """

    exit_code = 7
    anchor = "project"


class RecipeError(CuwheelError):
    """A recipe is invalid: a field is missing, contradicts another, or has an unknown value.

    All errors of the recipe are listed together. The reference of every field is in
    docs/reference/recipe.md.
    """

    exit_code = 3
    anchor = "recipe"


class UnsupportedArchError(CuwheelError):
    """A requested GPU architecture is not supported by this CUDA release.

    Each nvcc supports a fixed range of compute capabilities: new GPUs need a newer toolkit, and old
    ones were dropped from newer toolkits. Remove the arch from `archs` (or `--arch`), or build with
    a toolkit that supports it.
    """

    exit_code = 4
    anchor = "unsupported-arch"


class FrameworkError(CuwheelError):
    """The requested release of the framework doesn't match the target.

    A wheel is compiled against one release of PyTorch, which was built with one release of CUDA and
    has wheels for some Pythons. Two CUDA releases in one process lead to undefined symbols or
    worse, so the toolkit has to be of the release that the framework was built with:
    `nox -s build -- <recipe> --framework torch==2.15.0` selects it.
    """

    exit_code = 6
    anchor = "framework"


class InterpreterNotFoundError(CuwheelError):
    """The Python that the wheel is for was not found on this machine.

    The message lists every location searched and what was found there. A pyenv shim on PATH doesn't
    count when the version behind it is not installed. Install that Python, or pass the path of an
    interpreter: `-- --python /path/to/python3.12`.
    """

    exit_code = 5
    anchor = "python-not-found"


class LockError(CuwheelError):
    """A lock file is missing, was edited by hand, or doesn't match its input.

    Every package that cuwheel installs comes from a lock under `envs/`, with a hash.
    `nox -s lock -- <name>` writes the lock again: those of a recipe from what it declares
    (`requires`, `framework`, `link`), the others from their `.in` file. `nox -s lock-check` lists
    the stale ones.
    """

    exit_code = 10
    anchor = "lock"


class InstallError(CuwheelError):
    """The locked packages of an environment or toolchain could not be installed.

    The index may be unreachable, a file may no longer match its hash, or the cache may still lack a
    file while `--offline` is set. The installer's own messages are in the log that the error names.
    """

    exit_code = 11
    anchor = "install"


class ToolchainError(CuwheelError):
    """The CUDA toolchain is incomplete, damaged, or of another release than the target's.

    A toolchain is checked each time it is used, and a damaged one is removed and made again. What
    remains as an error: a lock that mixes releases (nvcc, ptxas, crt and nvvm must have the same
    one), a toolkit on the machine that has another release than requested (`--toolchain system`),
    or a provider that has no lock for this toolkit.
    """

    exit_code = 20
    anchor = "toolchain"


class TargetRootError(CuwheelError):
    """A wheel for another platform needs a root folder of that platform, and none fits.

    `--platform linux_aarch64` compiles here and runs nothing of the other machine, but Python's
    headers and build settings are that machine's, and so is the Python that the smoke test starts
    under QEMU. `--target-root` or CUWHEEL_TARGET_ROOT names the folder; docs/how-to/arm64.md
    describes how to make one.
    """

    exit_code = 24
    anchor = "target-root"


class DamagedPackagesError(ToolchainError):
    """Files of installed packages differ from the hashes that the packages record.

    The disk or another program damaged the installer's cache. With a network, cuwheel downloads
    them again; with `--offline`, remove the folder `uv` in the cache and run once without
    `--offline`.
    """

    exit_code = 21
    anchor = "damaged-packages"


class DownloadError(CuwheelError):
    """A file could not be downloaded.

    The server didn't answer, answered with an error, or the connection broke too often. A partial
    file is kept, and the next run resumes it. Without a network: put the file where the message
    says, or pass the source with `-- --source FILE`.
    """

    exit_code = 30
    anchor = "download"
    is_missing = False  # the server answered, and has no such file


class UnknownProjectError(DownloadError):
    """No package index has this project, or the requested release or source of it.

    The indexes answered; the name, the version or the index is wrong, or upstream publishes only
    wheels there. The message says what each index has. Names are those of the package index
    (`flash-attn`), which may differ from the name that is imported. A source that is on no index
    can be pinned in the recipe by its own URL: `Archive`, or `GitCommit`.
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
    nothing of the archive is kept. A real sdist contains none of these.
    """

    exit_code = 33
    anchor = "unsafe-archive"


class SourceError(CuwheelError):
    """A source tree can't be used: given with `--source`, or read by `nox -s new`.

    It has to be a folder with a `pyproject.toml` or `setup.py`, or an archive of one. `nox -s new`
    drafts a recipe only if the source contains CUDA code.
    """

    exit_code = 34
    anchor = "source"


class PatchError(CuwheelError):
    """A patch of the recipe doesn't apply to the source, or has no effect.

    Patches apply exactly: no fuzz, no offset. The message names the file and the hunk. If the
    package's version changed, make the patch again from the new source; if upstream merged the
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
    """The sandbox that `--sandbox` requires doesn't work on this machine.

    A sandbox needs namespaces of the kernel. Many containers refuse them, and Ubuntu 24.04 grants
    them only to programs with an AppArmor profile, such as bubblewrap. Without `--sandbox` a build
    uses whatever sandbox is available; where there is none, only the compiler launcher keeps this
    machine's paths out of the wheel, and the provenance records that.
    """

    exit_code = 51
    anchor = "sandbox"


class ContainerError(CuwheelError):
    """A build can't run in the image that `--container` names.

    podman or docker has to be installed and usable by you, the image has to be on this machine or
    pullable, and it has to contain a Python that cuwheel can run on. docs/how-to/containers.md says
    how images are pinned, and what a container can access.
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
    status 137 means out of memory: a compiler was killed three times, in two of them with no other
    compile of cuwheel running. Fewer jobs don't help then. Close other programs, raise the
    container's memory limit, or use a machine with more memory; `nox -s profile -- TARGET` shows
    how much each compile used.
    """

    exit_code = 61
    anchor = "build-failed"


class RebuildFailedError(CommandFailedError):
    """One of the builds of a verification failed.

    `nox -s verify` builds a target several times, in other folders and with other settings. The
    message shows the last lines of the build that failed, which include its own error.
    """

    exit_code = 62
    anchor = "rebuild-failed"


class CellsFailedError(CuwheelError):
    """Some cells of the matrix failed; all others were built.

    The table shows the error of each, `dist/.cuwheel/` has the logs, and `dist/matrix.html` shows
    both. Running `nox -s matrix -- build` again builds only the missing ones.
    """

    exit_code = 63
    anchor = "cells-failed"


class NightlyFailedError(CuwheelError):
    """A step of the nightly cycle failed; the other steps ran.

    The report says what each step did and why it failed, with its log and the cause found in the
    log: `nightly/latest/index.html`, and `nightly.json` beside it as data. docs/how-to/nightly.md.
    """

    exit_code = 64
    anchor = "nightly-failed"


class NightlyTimeError(CuwheelError):
    """The nightly cycle reached its time limit.

    What was running was terminated, the remaining steps are marked as skipped in the report, and
    what was built or compiled by then is kept: the next night continues from there. `--time-limit`
    raises the limit.
    """

    exit_code = 65
    anchor = "nightly-time"


class GpuInUseError(CuwheelError):
    """Another nightly run uses this GPU, or this machine where it has none.

    Two runs at once would slow each other down and falsify the measurements. The message says which
    process holds the lock; a run waits for it unless `--no-wait` is given. The lock is released
    when its process ends.
    """

    exit_code = 66
    anchor = "gpu-in-use"


class RepairError(CuwheelError):
    """The built wheel could not be made portable.

    It contains no compiled library, needs a CUDA or framework library that the recipe's `link`
    doesn't declare, or auditwheel refuses it.
    """

    exit_code = 70
    anchor = "repair"


class AuditError(CuwheelError):
    """The finished wheel violates its contract, so it is not published.

    Each violation names the file in the wheel and the rule; the rules are described below, under
    "What the audit finds". `nox -s audit -- WHEEL` checks any wheel, also of other projects.
    """

    exit_code = 80
    anchor = "audit"


class AuditWarningError(CuwheelError):
    """An audited wheel works, but under conditions that it doesn't state.

    Only the session `audit` fails with this; a build prints warnings and continues. Each is printed
    with its rule, whose entry below says why it matters. `-- --fail-on error` accepts them.
    """

    exit_code = 81
    anchor = "audit-warning"


class NotReproducibleError(CuwheelError):
    """Building again gave different bytes.

    The report names the members, sections and kernels that differ, and the causes that could be
    identified. docs/reproducibility.md says what cuwheel does against each, and what it can't do.
    """

    exit_code = 82
    anchor = "not-reproducible"


class PolicyError(CuwheelError):
    """Too few rebuilders confirm this wheel's bytes.

    A policy (`rebuilders.txt`) says how many of which rebuilders have to confirm them. The message
    names each statement that was found but doesn't count, with the reason, and the rebuilders
    without a statement: docs/how-to/rebuild.md. A wheel that was changed after its build fails
    here.
    """

    exit_code = 83
    anchor = "policy"


class OtherInputsError(CuwheelError):
    """This checkout doesn't have the inputs that the wheel's provenance names.

    The recipe, a lock, a patch or cuwheel's own code differs here, and the commit that the
    provenance names isn't in this clone. The message names each file with both hashes. Fetch the
    commit (`git fetch`), or build with the inputs that are here: `nox -s rebuild -- WHEEL --here`
    shows what that gives.
    """

    exit_code = 84
    anchor = "other-inputs"


class SmokeError(CuwheelError):
    """The wheel installs but doesn't work in a clean environment.

    An import failed, a library of the wheel can't be loaded, CUDA of two major releases is in one
    process, or a CUDA library was loaded from outside site-packages, which means that the wheel
    only works on machines that happen to have that library.
    """

    exit_code = 90
    anchor = "smoke"


class GpuError(CuwheelError):
    """The command needs a GPU, and this machine has none that is suitable.

    There is no driver or no GPU, the wheel has no code for the GPU, its memory is too small or
    damaged, or another process uses it. `nox -s diagnose` shows more about the machine.
    """

    exit_code = 91
    anchor = "gpu"


class WrongResultError(CuwheelError):
    """The package gives wrong results on this GPU, or code other than its own ran.

    Its speed is meaningless then. Each case was compared with a reference, computed by other code
    in higher precision; the limit of the relative error is in the probe,
    `recipes/perf/<recipe>.py`. If none of the kernels that ran is in the wheel, other code did the
    work: a fallback, or another installation of the package.
    """

    exit_code = 92
    anchor = "wrong-result"


class ProbeError(CuwheelError):
    """A case of a performance probe could not be run.

    The package or the probe raised an exception, the process died, or it timed out. The log that
    the message names has the whole output.
    """

    exit_code = 93
    anchor = "probe"


class SlowerError(CuwheelError):
    """The wheel is slower than the one that it was compared with.

    Both ran alternately on this GPU, and the difference is larger than the tolerance and than the
    noise of the old wheel compared with itself.
    """

    exit_code = 94
    anchor = "slower"


class UndecidedError(CuwheelError):
    """The measurements are too noisy to say whether the wheel is slower.

    Undecided never counts as passed; cases that could not be compared leave a run undecided, too.
    Noise comes from another process on the GPU, from clocks that drop because of heat or power, and
    from calls of a few microseconds; run it again on an idle GPU.
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
    """Another wheel is published under this file name.

    Published files never change: anyone who has the file, or its hash in a lock, would get a
    different one under the same name. A build whose wheel has different bytes gives it the next
    build tag (`pkg-1.0-1-…`), which installers prefer. This error means that it was too late for
    that, because another build published the name in the meantime, or that `--build-tag` names a
    tag in use. `--replace` overwrites the file, for a `dist/` that nobody installs from.
    """

    exit_code = 101
    anchor = "published-wheel"


class IndexCheckError(CuwheelError):
    """A package index violates rules that installers rely on, or has changed.

    The report names each rule with the files that violate it, why it matters and what to do;
    docs/reference/index-check.md lists all rules. If the index isn't yours, report it to its
    operator.
    """

    exit_code = 102
    anchor = "index-check"


class ReleaseRequirementError(CuwheelError):
    """A wheel isn't released because it hasn't passed what the release requires.

    `--require perf,verify` requires a record of exactly these bytes: a passed measurement
    (`nox -s perf`), and builds that gave them again (`nox -s verify`). If there are several
    records, the newest counts. The message names each wheel and what to run; `--reports DIR` names
    other folders of records.
    """

    exit_code = 103
    anchor = "release-requirement"


class UploadError(CommandFailedError):
    """twine couldn't upload the wheels of a release.

    Its last lines say why. What was uploaded before that stays: running the same command again
    compares the index with the release by hash, and uploads the rest. User and password come from
    `TWINE_USERNAME` and `TWINE_PASSWORD`, the keyring or `~/.pypirc`, never from the command line.
    """

    exit_code = 104
    anchor = "upload-failed"


class SigstoreError(CuwheelError):
    """Sigstore didn't sign a statement, or its trust roots can't be read.

    Signing uses the identity of a CI job (in GitHub Actions with `id-token: write`), and requests a
    certificate that is valid for ten minutes and an entry in a public log. The message names the
    server that can't be reached. Signing with a key file needs no server: `-- --key FILE`.
    """

    exit_code = 105
    anchor = "sigstore"


class StageOrderError(CuwheelError):
    """A single stage was requested, but its input is missing.

    `--stage` runs one stage on what the stage before it left in the work folder. Run the earlier
    stages first, or the whole build without `--stage`, with `--keep-work`.
    """

    exit_code = 110
    anchor = "stage-order"


class DiskFullError(CuwheelError):
    """A disk is full.

    The message names the folder. No partial file is left under a final name. `CUWHEEL_CACHE`,
    `--work` and `TMPDIR` move the cache, the work folder and temporary files to another disk.
    """

    exit_code = 120
    anchor = "no-space"


class FileAccessError(CuwheelError):
    """A file or folder can't be read or written.

    The message names it and gives the system's reason: it belongs to another user, its file system
    is read-only, or something of another type has its name. `CUWHEEL_CACHE`, `--work` and `--dist`
    name other folders.
    """

    exit_code = 121
    anchor = "file-access"


class UntrustedCacheError(CuwheelError):
    """The cache belongs to another user, or others can write to it.

    cuwheel runs programs from its cache: its own environment, compilers, installers. So it refuses
    a cache that everybody can write or replace (a folder above it is world-writable and doesn't
    have the sticky bit, as `/tmp` has), a cache of another user who doesn't share it with a group
    of yours, and, as root, a cache of any other user. `CUWHEEL_CACHE` names another cache;
    `CUWHEEL_COMPILE_CACHE`, which is checked in the same way, another compile cache. Under `sudo`,
    `HOME` may still be the user's: `CUWHEEL_CACHE=~root/.cache/cuwheel`.
    """

    exit_code = 122
    anchor = "untrusted-cache"


class SlurmError(CuwheelError):
    """Jobs can't be submitted to Slurm.

    Its programs (`sbatch`, `squeue`, `scancel`) aren't on this machine, its controller doesn't
    answer, or it has no partition of this name. docs/how-to/slurm.md says what a cluster needs.
    """

    exit_code = 115
    anchor = "slurm"


class NoFittingWheelError(CuwheelError):
    """No available wheel fits the environment, or the one that does can't be installed.

    The message names the closest wheel and why it doesn't fit. `nox -s pick` shows more, also of
    other indexes (`--index`); `nox -s install -- TARGET --fallback build` builds one.
    """

    exit_code = 116
    anchor = "no-fitting-wheel"


class WheelStatementError(CuwheelError):
    """The provenance of a wheel is missing, can't be read, or is about another wheel.

    `nox -s install` compares the wheel's SHA-256 with the one in its provenance. If they differ,
    one of the two was changed after the build, and nothing is installed, whatever `--fallback`
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
            why=f"system error: {reason}",
            fix="free some space, or move the cache to another disk with CUWHEEL_CACHE",
        )
    if error.errno == errno.EFBIG:
        return FileAccessError(
            f"{name} is too large",
            why=reason,
            fix="check what wrote it and remove it, or check it out again; if cuwheel was writing "
            "it, raise the limit on file sizes (`ulimit -f`)",
        )
    if option:
        return FileAccessError(
            f"{name} can't be used",
            why=f"{option} names it; system error: {reason}",
            fix=f"check that it exists and who owns it, or name another one with {option}",
        )
    return FileAccessError(
        f"{name} can't be used",
        why=f"system error: {reason}",
        fix="check its owner and whether its file system is read-only, or use other folders: "
        "CUWHEEL_CACHE for the cache, `-- --work DIR` and `-- --dist DIR` for those of the "
        "checkout",
    )


# What flock(2) says on a network disk that locks nothing, or whose lock service is out of reach.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def of_refused_lock(path: Path, error: OSError) -> CuwheelError:
    """What it means that a file can't be locked, for one of `NO_LOCKS`."""
    return FileAccessError(
        f"{path} can't be locked",
        why=f"system error: {error.strerror}; without locks two builds could write the same files "
        "at once",
        fix="use a file system that supports locks: NFS needs its lock service running, Lustre "
        "has to be mounted with `flock`; CUWHEEL_CACHE names the cache, `-- --work DIR` and `-- "
        "--dist DIR` the checkout's folders",
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
    return f"known: {', '.join(names)}" if names else "none are known here"


def _indented(text: str) -> str:
    """Several lines, one under the other behind their label."""
    return text.replace("\n", f"\n{' ' * 11}")


def _explain_status(status: int) -> str:
    if status in {-9, 137}:
        return "it was killed (SIGKILL), most often because the machine ran out of memory"
    if status < 0:
        return f"it was terminated by signal {-status}"
    return f"it exited with status {status}"
