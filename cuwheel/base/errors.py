"""Errors of cuwheel, each with what, why, how to fix it and where to read on.

An error is raised where the fact is known and printed once, by `__main__`. The docstring of each
class is its entry in TROUBLESHOOTING.md (`nox -s docs` writes it), so it addresses the reader of
that page; the arguments of one instance are about one case.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cuwheel.base.spelling import as_typed

# The exit code of each case of an error, by its anchor: a name of an entry in TROUBLESHOOTING.md.
EXIT_CODES = {
    "usage": 2,
    "recipe": 3,
    "python-not-found": 5,
    "lock": 10,
    "install": 11,
    "toolchain": 20,
    "damaged-packages": 21,
    "target-root": 24,
    "download": 30,
    "wrong-hash": 31,
    "unsafe-archive": 33,
    "source": 34,
    "unknown-project": 35,
    "preflight": 50,
    "sandbox": 51,
    "command-failed": 60,
    "build-failed": 61,
    "cells-failed": 63,
    "nightly-failed": 64,
    "nightly-time": 65,
    "gpu-in-use": 66,
    "day-zero": 67,
    "day-zero-unknown": 68,
    "audit": 80,
    "audit-warning": 81,
    "not-reproducible": 82,
    "policy": 83,
    "cache-entry": 84,
    "smoke": 90,
    "gpu": 91,
    "wrong-result": 92,
    "probe": 93,
    "slower": 94,
    "undecided": 95,
    "index": 100,
    "published-wheel": 101,
    "release-requirement": 103,
    "no-fitting-wheel": 116,
    "no-space": 120,
    "file-access": 121,
    "resource-limit": 123,
}


class CuwheelError(Exception):
    """A command can't do its work.

    Args:
        what: the fact, one line, starting with the name of the thing that failed.
        why: the cause, one or two sentences, or one line for each of several facts.
        fix: what the reader can do next, as a command where there is one.
        anchor: the case, one of the class's `anchors`; by default the first.
    """

    anchors: ClassVar[tuple[str, ...]] = ()
    anchor = ""
    exit_code = 1

    def __init_subclass__(cls, *, anchor: str, others: tuple[str, ...] = ()) -> None:
        super().__init_subclass__()
        cls.anchors = (anchor, *others)
        cls.anchor, cls.exit_code = anchor, EXIT_CODES[anchor]

    def __init__(self, what: str, *, why: str = "", fix: str = "", anchor: str = "") -> None:
        super().__init__(what)
        if anchor:
            self.anchor, self.exit_code = anchor, EXIT_CODES[anchor]
        self.what = as_typed(what)
        self.why = as_typed(why)
        self.fix = as_typed(fix)

    def __str__(self) -> str:
        """Return the whole message as `__main__` prints it, without colour."""
        lines = [f"error: {self.what}"]
        lines += [f"  because  {_indented(self.why)}"] if self.why else []
        lines += [f"  to fix   {_indented(self.fix)}"] if self.fix else []
        more = as_typed(f"TROUBLESHOOTING.md#{self.anchor}")
        lines += [f"  more     {more}"] if self.anchor else []
        return "\n".join(lines)


class UsageError(CuwheelError, anchor="usage"):
    """The command can't be run as it was written.

    An option, a session or a name is unknown (the message suggests the closest known name; `nox -l`
    lists every session, `nox -s build-<recipe>-<toolkit> -- --help` every option); a single
    `--stage` lacks what the stages before it leave in the work folder; or an installed cuwheel was
    run outside of a project: a folder with `recipes/`, `envs/` and `patches/`, which is searched
    for upwards from the working directory. `CUWHEEL_PROJECT` names others, `cuwheel init` creates
    one. audit, diagnose, explain and pick need no project.
    """


class RecipeError(CuwheelError, anchor="recipe"):
    """A recipe is invalid, or can't be built as it was requested.

    A field is missing, contradicts another, or has an unknown value: all of these are listed
    together, and docs/reference/recipe.md describes every field. Or a requested GPU architecture is
    not supported by this CUDA release: each nvcc supports a fixed range of compute capabilities, so
    remove the arch from `archs` (or `--arch`), or build with another toolkit. Or the release of the
    framework doesn't match: a wheel is compiled against one release of PyTorch, which was built
    with one release of CUDA and has wheels for some Pythons; `nox -s build -- <recipe> --framework
    torch==2.15.0` selects the toolkit by it.
    """


class InterpreterNotFoundError(CuwheelError, anchor="python-not-found"):
    """The Python that the wheel is for was not found on this machine.

    The message lists every location searched and what was found there. A pyenv shim on PATH doesn't
    count when the version behind it is not installed. Install that Python, or pass the path of an
    interpreter: `-- --python /path/to/python3.12`.
    """


class LockError(CuwheelError, anchor="lock"):
    """A lock file is missing, was edited by hand, or doesn't match its input.

    Every package that cuwheel installs comes from a lock under `envs/`, with a hash.
    `nox -s lock -- <name>` writes the lock again: those of a recipe from what it declares
    (`requires`, `framework`, `link`), the others from their `.in` file. `nox -s lock-check` lists
    the stale ones.
    """


class InstallError(CuwheelError, anchor="install", others=("no-fitting-wheel",)):
    """Locked packages could not be installed, or no available wheel fits the environment.

    The index may be unreachable, a file may no longer match its hash, or the cache may still lack a
    file while `--offline` is set. The installer's own messages are in the log that the error names.
    Or a Debian package holds what is refused: a device, a link that leads outside, a file that
    another package has with other content.

    Where no wheel fits, the message names the closest one and why it doesn't. `nox -s pick` shows
    more, also of other indexes (`--index`); `nox -s install -- TARGET --fallback build` builds one.
    """


class ToolchainError(CuwheelError, anchor="toolchain", others=("damaged-packages",)):
    """The CUDA toolchain is incomplete, damaged, or of another release than the target's.

    A toolchain is checked each time it is used, and a damaged one is removed and made again. What
    remains as an error: a lock that mixes releases (nvcc, ptxas, crt and nvvm must have the same
    one), a toolkit on the machine that has another release than requested (`--toolchain system`),
    or a provider that has no lock for this toolkit.

    Or files of installed packages differ from the hashes that the packages record: the disk or
    another program damaged the installer's cache. With a network, cuwheel downloads them again;
    with `--offline`, remove the folder `uv` in the cache and run once without `--offline`.
    """


class TargetRootError(CuwheelError, anchor="target-root"):
    """A wheel for another platform needs a root folder of that platform, and none fits.

    `--platform linux_aarch64` compiles here and runs nothing of the other machine, but Python's
    headers and build settings are that machine's, and so is the Python that the smoke test starts
    under QEMU. `--target-root` or CUWHEEL_TARGET_ROOT names the folder; docs/how-to/arm64.md
    describes how to make one.
    """


class DownloadError(CuwheelError, anchor="download", others=("unknown-project",)):
    """A file could not be downloaded, or no package index has this project, release or source.

    The server didn't answer, answered with an error, or the connection broke too often. A partial
    file is kept, and the next run resumes it. Without a network: put the file where the message
    says, or pass the source with `-- --source FILE`.

    Or the indexes answered, and the name, the version or the index is wrong, or upstream publishes
    only wheels there. The message says what each index has. Names are those of the package index
    (`flash-attn`), which may differ from the name that is imported. A source that is on no index
    can be pinned in the recipe by its own URL: `Archive`, or `GitCommit`.
    """

    is_missing = False  # the server answered, and has no such file


class HashMismatchError(CuwheelError, anchor="wrong-hash"):
    """A downloaded file is not the file that the recipe pins.

    Its SHA-256 differs from the one in the recipe: the file was changed at its address or on the
    way, or the recipe's hash is wrong. It is set aside (never used, never kept under its real name)
    so that it can be examined. Or it is larger than allowed, which protects the disk from an
    address that sends something else: raise `max_size` in the recipe's source if the package grew.
    """


class UnsafeArchiveError(CuwheelError, anchor="unsafe-archive"):
    """An archive tries to write outside the folder it is unpacked into, or can't be read.

    Members with `..`, absolute names, links that lead outside, and device files are refused, and
    nothing of the archive is kept. A real sdist contains none of these.
    """


class SourceError(CuwheelError, anchor="source"):
    """A source tree can't be used, or a patch of the recipe doesn't apply to it.

    A source that is given with `--source`, or read by `nox -s new`, has to be a folder with a
    `pyproject.toml` or `setup.py`, or an archive of one; `nox -s new` drafts a recipe only if it
    contains CUDA code. Patches apply exactly: no fuzz, no offset, and never without an effect. The
    message names the file and the hunk. If the package's version changed, make the patch again from
    the new source; if upstream merged the change, remove the patch from the recipe.
    """


class PreflightError(CuwheelError, anchor="preflight"):
    """Something on this machine doesn't fit the target, found before the first compile.

    All problems are listed together, each with its cause and fix. For jobs of Slurm: its programs
    (`sbatch`, `squeue`, `scancel`) aren't on this machine, its controller doesn't answer, or it has
    no partition of this name. docs/how-to/slurm.md says what a cluster needs.
    """


class SandboxError(CuwheelError, anchor="sandbox"):
    """No sandbox works on this machine, or not the one that `--sandbox` or `--container` requires.

    A sandbox needs namespaces of the kernel. Many containers refuse them, and Ubuntu 24.04 grants
    them only to programs with an AppArmor profile, such as bubblewrap: install that, or set
    kernel.apparmor_restrict_unprivileged_userns=0. A package's code runs nowhere else, unless
    `--sandbox none` is given: it can then do all that you can, and the provenance records that.

    For `--container`, podman or docker has to be installed and usable by you, the image has to be
    on this machine or pullable, and it has to contain a Python that cuwheel can run on:
    docs/how-to/containers.md.
    """


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


class CommandFailedError(CuwheelError, anchor="command-failed"):
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
        """Return the compiler's message, the error, the command, the log's name and last lines."""
        lines = [self.first.text] if self.first else []
        lines += [f"  command  {self.first.command}"] if self.first and self.first.command else []
        lines += [super().__str__(), f"  command  {' '.join(self.command)}"]
        lines += [f"  log      {self.log}"] if self.log else []
        lines += [f"  last {len(self.tail)} lines:"] if self.tail else []
        lines += [f"    {line}" for line in self.tail]
        return "\n".join(lines)


class BuildFailedError(CommandFailedError, anchor="build-failed"):
    """The package's own build failed: the compiler, the linker or the build backend stopped.

    The first error in the log is the one that counts; later ones often follow from it. `Killed` or
    status 137 means out of memory: a compiler was killed three times, in two of them with no other
    compile of cuwheel running. Fewer jobs don't help then. Close other programs, raise the
    container's memory limit, or use a machine with more memory; `nox -s profile -- TARGET` shows
    how much each compile used. In a verification (`nox -s verify`) it is one of several builds, in
    other folders and with other settings.
    """


class StepsFailedError(
    CuwheelError,
    anchor="cells-failed",
    others=("nightly-failed", "nightly-time", "day-zero", "day-zero-unknown"),
):
    """Some cells of the matrix or steps of the nightly cycle failed; the others ran.

    The table of the matrix shows the error of each cell, `dist/.cuwheel/` has the logs, and
    `dist/matrix.html` shows both. Running `nox -s matrix -- build` again builds only the missing
    ones.

    The nightly report says what each step did and why it failed, with its log and the cause found
    in the log: `nightly/latest/index.html`, and `nightly.json` beside it as data. At the time limit
    what was running was terminated, the remaining steps are marked as skipped in the report, and
    what was built or compiled by then is kept: the next night continues from there. `--time-limit`
    raises the limit. docs/how-to/nightly.md.

    A release of a framework breaks some recipes (`nox -s day-zero`): each was also tried with other
    requirements and a newer C++. The table names the cause and the first error of each. Or nothing
    was found out about them, because the network, a sandbox or memory was missing.
    """


class AuditError(CuwheelError, anchor="audit", others=("audit-warning",)):
    """The finished wheel violates its contract, or works under conditions that it doesn't state.

    Each violation names the file in the wheel and the rule; the rules are described below, under
    "What the audit finds". `nox -s audit -- WHEEL` checks any wheel, also of other projects. The
    stage `repair` refuses a wheel that needs libraries which its recipe doesn't declare: name them
    in `link`, or keep the build from linking them.

    Only the session `audit` fails with warnings; a build prints them and continues. `-- --fail-on
    error` accepts them.
    """


class NotReproducibleError(CuwheelError, anchor="not-reproducible"):
    """Building again gave different bytes, or would have been another build.

    The report names the members, sections and kernels that differ, and the causes that could be
    identified. docs/reproducibility.md says what cuwheel does against each, and what it can't do.

    Or the recipe, a lock, a patch or cuwheel's own code differs here from what the wheel's
    provenance names, and its commit isn't in this clone: fetch it (`git fetch`), or build with the
    inputs that are here, `nox -s rebuild -- WHEEL --here`. Or one of them, or the Python, changed
    while a wheel was built (a `git pull`, an upgrade): nothing is published, and the next build is
    made from what is there now.
    """


class CacheEntryError(CuwheelError, anchor="cache-entry"):
    """An entry of a remote compile cache isn't what its compile makes.

    It was signed by a trusted key, was chosen at random to be compiled again, and differs. Its
    maker is wrong, or its machine or key is in other hands: remove the key from
    `CUWHEEL_REMOTE_CACHE_KEYS`, and the local compile cache's folder that the message names, as it
    may hold other entries of that maker.
    """


class PolicyError(CuwheelError, anchor="policy", others=("release-requirement",)):
    """The statements about a wheel don't confirm it, can't be made, or a release lacks one.

    A policy (`rebuilders.txt`) says how many of which rebuilders have to confirm a wheel's bytes:
    the message names each statement that doesn't count, and why (docs/how-to/rebuild.md). The
    provenance of a wheel may be missing, unreadable, or about other bytes: then one of the two was
    changed after the build, and nothing is installed, whatever `--fallback` says. Signing with
    Sigstore uses the identity of a CI job (in GitHub Actions with `id-token: write`) and its
    servers; with a key file, `-- --key FILE`, it needs none.

    A release with `--require perf,verify` requires a record of exactly these bytes: a passed
    measurement (`nox -s perf`), and builds that gave them again (`nox -s verify`). If there are
    several records, the newest counts. The message names each wheel and what to run; `--reports
    DIR` names other folders of records.
    """


class SmokeError(CuwheelError, anchor="smoke"):
    """The wheel installs but doesn't work in a clean environment.

    An import failed, a library of the wheel can't be loaded, CUDA of two major releases is in one
    process, or a CUDA library was loaded from outside site-packages, which means that the wheel
    only works on machines that happen to have that library.
    """


class GpuError(CuwheelError, anchor="gpu", others=("gpu-in-use",)):
    """The command needs a GPU, and this machine has none that is suitable and free.

    There is no driver or no GPU, the wheel has no code for the GPU, its memory is too small or
    damaged, or another process uses it. `nox -s diagnose` shows more about the machine.

    Two nightly runs on one GPU, or on a machine without, would slow each other down and falsify the
    measurements. The message says which process holds the lock; a run waits for it unless
    `--no-wait` is given. The lock is released when its process ends.
    """


class ProbeError(CuwheelError, anchor="probe", others=("wrong-result", "slower", "undecided")):
    """A performance probe failed, or its results or times are not as they have to be.

    A case could not be run: the package or the probe raised an exception, the process died, or it
    timed out. The log that the message names has the whole output.

    Wrong results: speed is meaningless then. Each case was compared with a reference, computed by
    other code in higher precision; the limit of the relative error is in the probe,
    `recipes/perf/<recipe>.py`. If none of the kernels that ran is in the wheel, other code did the
    work: a fallback, or another installation of the package.

    Slower than the wheel that it was compared with: both ran alternately on this GPU, and the
    difference is larger than the tolerance and than the noise of the old wheel compared with
    itself.

    Undecided: the measurements are too noisy to say whether the wheel is slower, or cases could not
    be compared. It never counts as passed. Noise comes from another process on the GPU, from clocks
    that drop because of heat or power, and from calls of a few microseconds; run it again on an
    idle GPU.
    """


class WheelIndexError(CuwheelError, anchor="index"):
    """A package index could not be written, or violates rules that installers rely on.

    A file in `dist/` is not a valid wheel, or the wheel to publish is not the one that was audited.
    A check (`nox -s index -- --check`) names each rule with the files that violate it or have
    changed, why it matters and what to do; docs/reference/index-check.md lists all rules. If the
    index isn't yours, report it to its operator.
    """


class PublishedWheelError(CuwheelError, anchor="published-wheel"):
    """Another wheel is published: under this file name, or for more machines.

    Published files never change: anyone who has the file, or its hash in a lock, would get a
    different one under the same name. A build whose wheel has different bytes gives it the next
    build tag (`pkg-1.0-1-…`), which installers prefer. This error means that it was too late for
    that, because another build published the name in the meantime, or that `--build-tag` names a
    tag in use. `--replace` overwrites the file, for a `dist/` that nobody installs from.

    It also means that a published wheel of the same version serves more machines, which the message
    names: installers would prefer the new one. Build one wheel for all of them, publish this one in
    another folder with `--dist`, or accept the loss with `--replace-broader`.
    """


class DiskFullError(CuwheelError, anchor="no-space"):
    """A disk is full.

    The message names the folder. No partial file is left under a final name. `CUWHEEL_CACHE`,
    `--work` and `TMPDIR` move the cache, the work folder and temporary files to another disk.
    """


class FileAccessError(CuwheelError, anchor="file-access"):
    """A file or folder can't be read or written, or others can change it.

    The message names it and gives the system's reason: it belongs to another user, its file system
    is read-only, or something of another type has its name. `CUWHEEL_CACHE`, `--work` and `--dist`
    name other folders.

    cuwheel runs programs from its cache, so it refuses one that everybody can write or replace (a
    folder above it is world-writable and not sticky, as `/tmp` is), one of another user who doesn't
    share it with a group of yours, and, as root, one of any other user. Under `sudo`, `HOME` may
    still be the user's: `CUWHEEL_CACHE=~root/.cache/cuwheel`.
    """


class ResourceLimitError(CuwheelError, anchor="resource-limit"):
    """The system gives this process no more memory, files or processes.

    A limit of the shell (`ulimit -a` shows all), of a batch system or of a container is lower than
    cuwheel needs: about 500 MB of address space for commands that report, 64 open files, and a few
    dozen threads; a build needs what its compilers need.
    """


@contextlib.contextmanager
def naming_option(option: str, path: Path) -> Iterator[None]:
    """Name the option for a file or folder that can't be used.

    Raises:
        DiskFullError: no space is left there.
        FileAccessError: it can't be used for another reason.
    """
    try:
        yield
    except FileAccessError as error:
        raise FileAccessError(
            error.what, why=f"{option} names it; {error.why}", fix=error.fix
        ) from error
    except DiskFullError as error:
        if str(path) not in error.what:
            raise
        fix = f"{_SPACE} with {option}"
        raise DiskFullError(error.what, why=f"{option} names it; {error.why}", fix=fix) from error
    except OSError as error:
        if error.filename is None and error.errno in _FULL:  # a write names no file
            raise of_system_error(_renamed(error, path), option) from error
        at = Path(os.fsdecode(error.filename or ""))
        if at.parent == path.parent and at.name.startswith(f".{path.name}."):
            error, at = _renamed(error, path), path  # a part of the new file
        if at != path and at not in path.parents and path not in at.parents:
            raise
        raise of_system_error(error, option) from error


def _renamed(error: OSError, path: Path) -> OSError:
    return OSError(error.errno, error.strerror, str(path))


_FULL = (errno.ENOSPC, errno.EDQUOT)
_SPACE = "free some space there, or name a place on another disk"


class IrregularFileError(OSError):
    """A path is no regular file: a FIFO, a device, a link that leads elsewhere."""


def of_system_error(error: OSError, option: str = "") -> CuwheelError:
    """Return the error for an error of the operating system.

    Args:
        option: that named the file; empty: it is one of cuwheel's own.
    """
    name = error.filename or "a file"
    reason = error.strerror or str(error)
    if isinstance(error, shutil.Error) and error.args and error.args[0]:  # of copytree: all files
        (name, _, reason), *_ = error.args[0]
    if error.errno in _FULL:
        return DiskFullError(
            f"no space left on the disk of {name}",
            why=f"{option} names it; system error: {reason}"
            if option
            else f"system error: {reason}",
            fix=f"{_SPACE} with {option}"
            if option
            else "free some space, or move the cache to another disk with CUWHEEL_CACHE",
        )
    if error.errno == errno.EFBIG:
        return FileAccessError(
            f"{name} is too large",
            why=reason,
            fix="check what wrote it and remove it, or check it out again; if cuwheel was writing "
            "it, raise the limit on file sizes (`ulimit -f`)",
        )
    if isinstance(error, IrregularFileError):
        return FileAccessError(
            f"{name} is not read",
            why=reason,
            fix="see what it is with `ls -l`, and remove it or put the file itself there: "
            "`cp --dereference`",
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


# Errors of flock(2) on a network disk without locks, or whose lock service can't be reached.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def of_refused_lock(path: Path, error: OSError) -> CuwheelError:
    """Return the error for a file that can't be locked, for one of `NO_LOCKS`."""
    return FileAccessError(
        f"{path} can't be locked",
        why=f"system error: {error.strerror}; without locks two builds could write the same files "
        "at once",
        fix="use a file system that supports locks: NFS needs its lock service running, Lustre "
        "has to be mounted with `flock`; CUWHEEL_CACHE names the cache, `-- --work DIR` and `-- "
        "--dist DIR` the checkout's folders",
    )


def nearest(unknown: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, in any case; empty where none is near.

    The dashes of options count for nothing: all have them.
    """
    names = {name.lower().lstrip("-"): name for name in sorted(known)}
    near = difflib.get_close_matches(unknown.lower().lstrip("-"), names, n=1, cutoff=0.6)
    return names[near[0]] if near else ""


_SUGGESTED = 24  # names that fit into a few lines


def suggest(unknown: str, known: Iterable[str]) -> str:
    """Return `did you mean "x"?`, or known names, some of many, where none is near."""
    names = sorted(known)
    if near := nearest(unknown, names):
        return f'did you mean "{near}"?'
    rest = f" and {len(names) - _SUGGESTED} more" if len(names) > _SUGGESTED else ""
    return f"known: {', '.join(names[:_SUGGESTED])}{rest}" if names else "none are known here"


def _indented(text: str) -> str:
    return text.replace("\n", f"\n{' ' * 11}")


def _explain_status(status: int) -> str:
    if status in {-9, 137}:
        return "it was killed (SIGKILL), most often because the machine ran out of memory"
    if status < 0:
        return f"it was terminated by signal {-status}"
    return f"it exited with status {status}"
