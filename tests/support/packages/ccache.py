"""A new ccache from Debian's packages, run by its own loader with its own libraries.

Stable releases of distributions have older ones, and it is not on PyPI. apt works in a folder of
its own: nothing is installed.
"""

from __future__ import annotations

import os
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.files import file_lock, new_folder
from cuwheel.base.system.process import run, which
from tests.support.requirements import lack

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_NEEDED = ("apt-get", "dpkg-deb")
_UNPROVED = "builds with a new ccache"


def obtain_ccache(cache: Path) -> Path:
    """A program `ccache`, version 4.13 or newer; the cache keeps it.

    Skips the test where Debian's packages can't be had.
    """
    folder = cache / "test-ccache"
    missing = [name for name in _NEEDED if which(name, SYSTEM_PATH) is None]
    if missing or not _KEYRING.exists():
        lack("ccache", f"it comes from Debian here; missing: {missing or _KEYRING}", _UNPROVED)
    with file_lock(folder.with_suffix(".lock")):
        if not (folder / "ccache").exists():
            with new_folder(folder) as aside:
                _fetch(aside, folder)
    return folder / "ccache"


def _fetch(aside: Path, final: Path) -> None:
    try:
        for package in _download(aside / "apt"):
            run(["dpkg-deb", "-x", package, aside], env={"PATH": SYSTEM_PATH})
    except CommandFailedError as problem:
        lack("ccache", f"Debian's packages can't be had: {' '.join(problem.tail)[:300]}", _UNPROVED)
    libraries = final / _LIBRARIES
    loader = f"{libraries}/ld-linux-x86-64.so.2 --library-path {libraries}"
    (aside / "ccache").write_text(f'#!/bin/sh\nexec {loader} {final}/usr/bin/ccache "$@"\n')
    (aside / "ccache").chmod(0o755)


def _own_mirror() -> str:
    """The address of Debian's archive that this machine's own apt uses."""
    output = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"], env={"PATH": SYSTEM_PATH}
    ).output
    mirrors = sorted(line for line in output.splitlines() if line.rstrip("/").endswith("/debian"))
    if not mirrors:
        lack("ccache", "this machine's apt knows no archive of Debian", _UNPROVED)
    return mirrors[0]


def _download(root: Path) -> list[Path]:
    """ccache and all that it needs, down to the C library: to this apt nothing is installed."""
    for name in ("etc/apt.conf.d", "state/lists/partial", "cache/archives/partial"):
        (root / name).mkdir(parents=True)
    source = f"deb [signed-by={_KEYRING}] {_own_mirror()} sid main\n"
    (root / "etc/sources.list").write_text(source)
    (root / "status").touch()
    options = {
        "Dir::Etc": root / "etc",
        "Dir::Etc::sourcelist": root / "etc/sources.list",
        "Dir::Etc::sourceparts": os.devnull,
        "Dir::State": root / "state",
        "Dir::State::status": root / "status",
        "Dir::Cache": root / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",  # its own user may not enter our folders
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    env = {"PATH": f"{SYSTEM_PATH}:/usr/sbin:/sbin"}
    run([*apt, "update"], env=env)
    run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", "ccache"], env=env)
    return sorted((root / "cache/archives").glob("*.deb"))
