"""The lock of a CUDA release from one provider of toolchains."""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.errors import LockError
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import Toolkit

_INPUTS = {"pypi": "pypi.in", "debian": "debian.yml", "redist": "redist.in"}


def provider_lock(toolkit: Toolkit, provider: str, workspace: Workspace, kind: str = "") -> Path:
    """Return the path of a lock, `envs/cuda124/debian.lock`.

    Args:
        provider: `pypi`, `debian` or `redist`.
        kind: of another lock that this provider needs, `pypi`.

    Raises:
        LockError: there is none.
    """
    kind = kind or provider
    folder, relock = f"cuda{toolkit.tag}", f"nox -s lock -- toolchain:{toolkit.tag}:{kind}"
    for root in workspace.caller.roots:
        lock = root / "envs" / folder / f"{kind}.lock"
        if lock.is_file():
            return lock
        if lock.with_name(_INPUTS[kind]).is_file():  # no other project's lock is meant
            raise LockError(
                f"{folder}/{lock.name} is missing",
                why=f"{lock.parent} has only its input, {_INPUTS[kind]}",
                fix=relock,
            )
    raise LockError(
        f"there is no lock of the provider {provider} for CUDA {toolkit.release}",
        why=f"no project folder has envs/{folder}/{kind}.lock",
        fix=f"run without `--toolchain {provider}`; or write {_INPUTS[kind]} there "
        f"(docs/how-to/toolchains.md), then `{relock}`",
    )
