"""Sandboxes: a build at the same paths on every machine, without network or other files.

`choose_sandbox` decides for every start of a package's code, and `sandboxed` makes its command.

bubblewrap (bwrap(1)) where it is installed, since some systems grant namespaces to it alone (Ubuntu
24.04's AppArmor profiles); else our own system calls. Where a machine refuses both, no package's
code runs, except with `--sandbox none`.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from cuwheel.base.errors import CommandFailedError, SandboxError
from cuwheel.base.last_resort import limit_error_of_program
from cuwheel.base.paths import script
from cuwheel.base.system.process import run, which
from cuwheel.build.sandbox.mounts import Mount, system_mounts
from cuwheel.build.sandbox.namespaces.enter import KERNELS_OWN

KINDS = ("bubblewrap", "unshare", "none")

_ENTER = script("build/sandbox/namespaces/enter.py")
_FILTER = script("build/sandbox/namespaces/system_calls.bpf")  # made by `system_calls.make_filter`
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

_BUBBLEWRAP_OPTIONS = {
    "read": "--ro-bind",
    "write": "--bind",
    "device": "--dev-bind",
    "link": "--symlink",
}


def choose_sandbox(kind: str = "auto", *, is_contained: bool = False) -> str:
    """Return the kind of sandbox that a package's code runs in: one of `KINDS`.

    `none` only where the caller has named it, or in a container that the caller has named.

    Args:
        kind: one of `KINDS`, which has to work then; or `auto`: the first that does.
        is_contained: `--container` has started this process, and may allow no sandbox inside.

    Raises:
        SandboxError: this kind doesn't work here; with `auto`, none does.
        ResourceLimitError: none does, because no process can be started.
    """
    if kind == "none":
        return "none"
    if kind != "auto" and _refusal(kind):
        raise SandboxError(
            f"this machine doesn't allow a sandbox with {kind}",
            why=_refusal(kind),
            fix="run without `--sandbox`, which uses what is available, or enable user namespaces "
            "on the system",
        )
    kinds = working_kinds() if kind == "auto" else (kind,)
    if kinds or is_contained:
        return kinds[0] if kinds else "none"
    if limit := next(filter(None, map(limit_error_of_program, refusals().values())), None):
        raise limit
    raise SandboxError(
        "this machine allows no sandbox, and a package's code runs in no other place",
        why="; ".join(f"{kind}: {why}" for kind, why in refusals().items()),
        fix="install bubblewrap, or enable user namespaces on the system; or add `--sandbox none`: "
        "the package's code can then read, write and send whatever you can",
    )


def working_kinds() -> tuple[str, ...]:
    """Return the kinds of sandbox that this machine allows, the preferred one first."""
    return tuple(kind for kind in KINDS[:2] if not _refusal(kind))


def refusals() -> dict[str, str]:
    """Return the kinds of sandbox that don't work on this machine, and why."""
    return {kind: why for kind in KINDS[:2] if (why := _refusal(kind))}


def sandboxed(
    kind: str,
    mounts: Iterable[Mount],
    folder: Path,
    system: Iterable[Mount] | None = None,
) -> tuple[str, ...]:
    """Return the command prefix that runs a program in a sandbox.

    Args:
        kind: from `choose_sandbox`.
        mounts: added to the machine's system folders, which can be read only.
        system: takes the place of the machine's system folders; None: these.

    Returns:
        Nothing for `none`.

    Raises:
        SandboxError: a source of a mount isn't there.
    """
    if kind == "none":
        return ()
    # A folder inside another one has to come after it.
    own = sorted(mounts, key=lambda mount: len(mount.target.parts))
    missing = [mount for mount in own if mount.kind != "link" and not mount.source.exists()]
    if missing:
        raise SandboxError(
            f"the sandbox can't mount {', '.join(str(mount.target) for mount in missing)}",
            why=f"missing: {', '.join(str(mount.source) for mount in missing)}",
            fix="build again; another process has removed folders of this build",
        )
    every = [*(system_mounts() if system is None else system), *own]
    return _bubblewrap(every, folder) if kind == "bubblewrap" else _own_calls(every, folder)


def _own_calls(mounts: list[Mount], folder: Path) -> tuple[str, ...]:
    listed = []
    for mount in mounts:
        # Links are followed where they are known.
        source = mount.source if mount.kind == "link" else mount.source.resolve()
        listed.append([mount.kind, str(source), str(mount.target)])
    spec = json.dumps({"folder": str(folder), "filter": str(_FILTER), "mounts": listed})
    return (sys.executable, "-I", str(_ENTER), spec)


def _bubblewrap(mounts: list[Mount], folder: Path) -> tuple[str, ...]:
    # bwrap takes the filter as an open file. Each of these becomes the next, so that bwrap is a
    # child of its starter; the shell would complain of a folder that isn't there any more.
    opened = ("/usr/bin/env", "-C", "/", "/bin/sh", "-c", 'exec "$@" 9<"$0"', str(_FILTER))
    # By its path: the build's PATH is of the sandbox.
    argv = [which("bwrap", _SYSTEM_PATH) or "bwrap", "--die-with-parent", "--hostname", "cuwheel"]
    argv += [f"--unshare-{namespace}" for namespace in ("net", "pid", "ipc", "uts")]
    argv += ["--cap-drop", "ALL", "--seccomp", "9", "--dev", "/dev"]
    for mount in mounts:
        target = str(mount.target)
        if mount.kind != "cover":
            argv += [_BUBBLEWRAP_OPTIONS[mount.kind], str(mount.source), target]
        elif mount.source.is_dir():
            argv += ["--tmpfs", target, "--remount-ro", target]
        else:
            argv += ["--ro-bind", os.devnull, target]
    argv += ["--proc", "/proc"]
    # Parts of `/proc` that are the whole machine's: root may write there without any capability.
    for name in KERNELS_OWN if os.geteuid() == 0 else ():
        if (path := Path("/proc", name)).exists():
            argv += ["--ro-bind", str(path), str(path)]
    return (*opened, *argv, "--chdir", str(folder))


@functools.cache
def _refusal(kind: str) -> str:
    """Try a kind of sandbox; return why it doesn't work here, or nothing."""
    if kind == "bubblewrap" and which("bwrap", _SYSTEM_PATH) is None:
        return "bwrap isn't installed"
    try:
        run([*sandboxed(kind, (), Path("/usr")), "/bin/sh", "-c", ":"], env={"PATH": _SYSTEM_PATH})
    except CommandFailedError as problem:
        return " ".join(problem.tail) or problem.why
    return ""
