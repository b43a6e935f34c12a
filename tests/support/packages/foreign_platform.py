"""Wheels and libraries for arm64, cross-compiled here, and root folders of such machines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.files import file_lock
from cuwheel.base.system.process import run
from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.toolchains.cross.target_root import TARGET_ROOT, read_target_root
from cuwheel.build.workspace.job import TargetRoot
from tests.support.factories import compile_library
from tests.support.requirements import lack, require

GCC = "aarch64-linux-gnu-gcc"
CODE = "int answer(void) { return 42; }\n"
RELEASE = "3.11"  # of the Python of Debian 12
_SUITE = "bookworm"
_PACKAGES = "python3,libpython3-dev,libstdc++6"
_PROVES = "that wheels for arm64 can be imported"


def compile_arm64(path: Path, *words: str | Path, code: str = CODE) -> Path:
    """A library for arm64, of a line of C."""
    require("cross-gcc", "what becomes of libraries for arm64")
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(code)
    return compile_library(path, GCC, "-fPIC", source, *words)


def write_root(folder: Path, *named: str) -> TargetRoot:
    """A root folder without a Python, whose `/etc/ld.so.conf` names these folders.

    Enough for what looks for libraries in one.
    """
    for name in named:
        (folder / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (folder / "etc").mkdir(parents=True, exist_ok=True)
    (folder / "etc" / "ld.so.conf").write_text("".join(f"{name}\n" for name in named))
    return TargetRoot(
        folder=folder,
        python=Path("/usr/bin/python3.11"),
        release=RELEASE,
        soabi="cpython-311-aarch64-linux-gnu",
        headers=(),
        settings={},
        fingerprint="",
    )


def write_python(prefix: Path, release: str = RELEASE, triplet: str = AARCH64.triplet) -> Path:
    """What a build reads of another machine's Python, laid out as Debian has it.

    Returns:
        The prefix, `<root>/usr`.
    """
    soabi = f"cpython-{release.replace('.', '')}-{triplet}"
    settings = {
        "EXT_SUFFIX": f".{soabi}.so",
        "INCLUDEPY": f"/usr/include/python{release}",
        "SOABI": soabi,
        "VERSION": release,
    }
    files = {
        f"bin/python{release}": "",
        f"lib/python{release}/_sysconfigdata__{triplet}.py": f"build_time_vars = {settings}\n",
        f"include/python{release}/Python.h": '#include "pyconfig.h"\n',
        f"include/python{release}/pyconfig.h": "#include <TRIPLET/pyconfig.h>\n",
        f"include/{triplet}/python{release}/pyconfig.h": "#define SIZEOF_LONG 8\n",
    }
    for name, text in files.items():
        path = prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return prefix


def debian_root(cache: Path) -> TargetRoot:
    """Debian for arm64 with a Python: the root that is named, or one that the cache keeps."""
    named = os.environ.get(TARGET_ROOT)
    root = Path(named) if named else cache / f"test-arm64-{_SUITE}"
    if not named:
        with file_lock(root.with_suffix(".lock")):
            if not root.is_dir():
                _make_root(root)
    return read_target_root(root, AARCH64, RELEASE)


def _make_root(root: Path) -> None:
    require("arm64-root", _PROVES)
    aside = root.with_suffix(".new")
    shutil.rmtree(aside, ignore_errors=True)
    options = ("--arch=arm64", "--variant=minbase", f"--include={_PACKAGES}", "--download-only")
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        run(["debootstrap", *options, _SUITE, aside / "fetched"], env=environ)
    except CommandFailedError as failure:
        lack("arm64-root", f"debootstrap fetches nothing: {' '.join(failure.tail)}", _PROVES)
    for package in _sorted_packages(aside / "fetched"):
        run(["dpkg-deb", "-x", package, aside / "root"], env=environ)
    (aside / "root").rename(root)
    shutil.rmtree(aside)


def _sorted_packages(folder: Path) -> Iterable[Path]:
    # What makes /lib a link to usr/lib would come after what fills /lib, and fail.
    packages = sorted(folder.glob("var/cache/apt/archives/*.deb"))
    return (path for path in packages if not path.name.startswith("usrmerge"))
