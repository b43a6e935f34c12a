"""The root folder of another kind of machine, with a foreign target's Python and C library.

Any folder with a whole Linux of that machine is suitable, from debootstrap(8) or `podman export` of
an image. Nothing of it runs while a wheel is compiled; the smoke test starts its Python under QEMU.

This machine's Python builds the wheel with that Python's settings. `sysconfig` reads them from a
module that a variable names (CPython, `Lib/sysconfig`: `_PYTHON_SYSCONFIGDATA_NAME`), and the
platform from another (`_PYTHON_HOST_PLATFORM`); CPython's own cross builds use both. setuptools,
wheel and scikit-build-core use `sysconfig`.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from cuwheel.base.errors import TargetRootError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.regular_files import copy_regular, read_module
from cuwheel.base.system.versions import version_key
from cuwheel.build.recipe.platform import Platform
from cuwheel.build.workspace.job import TargetRoot

TARGET_ROOT = "CUWHEEL_TARGET_ROOT"  # the variable that names one
# Prefixes of Pythons: distributions', /usr/local, and those of PyPA's manylinux images.
_PREFIXES = ("usr", "usr/local", "opt/python/cp{plain}-cp{abi}")
_SETTINGS = re.compile(r"_sysconfigdata_t?_(?:linux_)?(?P<triplet>[-\w]+)\.py")

_MODULE = "_cuwheel_target_sysconfig"
HEADERS = "include"  # folder that `write_python_settings` fills
# setuptools reads the headers' folder from these; only the module knows its path in the build.
_HEADERS_HERE = f"""
import os

_here = os.path.join(os.path.dirname(os.path.abspath(__file__)), {HEADERS!r})
build_time_vars.update(INCLUDEPY=_here, CONFINCLUDEPY=_here)
"""


def read_target_root(folder: Path | None, platform: Platform, release: str) -> TargetRoot:
    """Find the Python of a root folder.

    Args:
        folder: the root; None: none is configured.
        release: of the Python, `3.11`.

    Raises:
        TargetRootError: there is none, it lacks headers, or it is for another machine.
    """
    if folder is None or not folder.is_dir():
        raise no_root(folder, platform)
    root = folder.resolve()
    abi = release.replace(".", "")
    prefixes = [root / path.format(plain=abi.rstrip("t"), abi=abi) for path in _PREFIXES]
    for prefix in prefixes:
        python = prefix / "bin" / f"python{release}"
        settings = _settings_file(prefix / "lib" / f"python{release}", platform)
        if python.is_file() and settings:
            return _read(root, prefix, python, settings, platform)
    raise _no_python(folder, platform, release, prefixes)


def no_root(folder: Path | None, platform: Platform) -> TargetRootError:
    """Return the error of a build without a root folder, or with one that doesn't exist."""
    return TargetRootError(
        f"there is no root folder of a Linux for {platform.machine}",
        why=f"{folder} is not a folder"
        if folder
        else f"neither --target-root nor {TARGET_ROOT} names one",
        fix="make one (docs/how-to/arm64.md says how), and name it",
    )


def oldest_served(folder: Path | None, platform: Platform, oldest: str) -> str:
    """Return the Python to compile a wheel of the stable ABI with.

    Returns:
        The oldest of the root's that the wheel serves, from `oldest` on; without one `oldest`.
    """
    pythons = _pythons_in(folder.resolve()) if folder and folder.is_dir() else []
    served = (
        release
        for release, triplet in pythons
        if triplet == platform.triplet
        and not release.endswith("t")  # a free-threaded Python has no stable ABI (PEP 703)
        and version_key(release) >= version_key(oldest)
    )
    return min(served, key=version_key, default=oldest)


def _no_python(
    folder: Path, platform: Platform, release: str, prefixes: Iterable[Path]
) -> TargetRootError:
    pythons = _pythons_in(folder.resolve())
    fitting = [other for other, triplet in pythons if triplet == platform.triplet]
    names = ", ".join(f"Python {other} for {triplet}" for other, triplet in pythons)
    searched = ", ".join(str(prefix.relative_to(folder.resolve())) for prefix in prefixes)
    make = f"make one for {platform.machine} with Python {release} (docs/how-to/arm64.md says how)"
    return TargetRootError(
        f"{folder} has no Python {release} for {platform.machine}",
        why=f"it has {names}" if pythons else f"there is none in {searched}",
        fix=f"build for the one it has, `-- --python {fitting[0]}`, or {make}" if fitting else make,
    )


def _pythons_in(root: Path) -> list[tuple[str, str]]:
    """Return each Python of any kind of machine: `3.11` and `aarch64-linux-gnu`."""
    pythons = set()
    for prefix in _PREFIXES:
        pattern = f"{prefix.format(plain='*', abi='*')}/lib/python3.*/_sysconfigdata_*.py"
        for path in root.glob(pattern):
            program = path.parents[2] / "bin" / path.parent.name
            if (name := _SETTINGS.fullmatch(path.name)) and program.is_file():
                pythons.add((path.parent.name.removeprefix("python"), name["triplet"]))
    return sorted(pythons)


def _settings_file(folder: Path, platform: Platform) -> Path | None:
    """Return the Python's build settings, by CPython's name, or Debian's without the system."""
    names = (f"linux_{platform.triplet}", platform.triplet)
    paths = (folder / f"_sysconfigdata_{kind}_{name}.py" for name in names for kind in ("", "t"))
    return next(filter(Path.is_file, paths), None)


def _read(root: Path, prefix: Path, python: Path, file: Path, platform: Platform) -> TargetRoot:
    settings = _build_settings(file)
    soabi, release = str(settings.get("SOABI", "")), str(settings.get("VERSION", ""))
    # Debian's Python.h includes one of its machines' pyconfig.h by `<TRIPLET/pythonX.Y/…>`.
    plain = prefix / "include" / f"python{release}"
    by_triplet = prefix / "include" / platform.triplet / f"python{release}"
    headers = tuple(path for path in (by_triplet, plain) if (path / "pyconfig.h").is_file())
    if not (plain / "Python.h").is_file() or platform.triplet not in soabi:
        raise TargetRootError(
            f"{python} can't be used for compiling",
            why=f"{plain / 'Python.h'} doesn't exist"
            if platform.triplet in soabi
            else f"{file.name} has the ABI {soabi or 'unknown'}, not one of {platform.triplet}",
            fix="install the Python's headers in that root (Debian: libpython3-dev), for "
            f"{platform.machine}",
        )
    files = sorted(path for folder in headers for path in folder.rglob("*.h"))
    libc = sorted(root.glob(f"lib/{platform.triplet}/libc.so.6")) or root.glob("lib64/libc.so.6")
    parts = (python.resolve(), file, *files, *libc)
    digests = (f"{path.name} {sha256_of_file(path)}" for path in parts)
    return TargetRoot(
        folder=root,
        python=Path("/") / python.relative_to(root),
        release=release,
        soabi=soabi,
        headers=headers,
        settings=settings,
        fingerprint=hashlib.sha256("\n".join(digests).encode()).hexdigest(),
    )


def _build_settings(file: Path) -> dict[str, object]:
    """Return the dictionary in the file, which is read and not run."""
    try:
        [node] = (node for node in read_module(file).body if isinstance(node, ast.Assign))
        settings = ast.literal_eval(node.value)
        return {str(name): value for name, value in settings.items()}
    except (ValueError, TypeError, AttributeError) as problem:
        raise TargetRootError(
            f"{file} can't be read",
            why=f"it should contain one dictionary, build_time_vars ({problem})",
            fix="install that Python again in its root",
        ) from None


def write_python_settings(folder: Path, root: TargetRoot) -> None:
    """Fill an empty folder with the target's build settings and headers.

    The headers are in one folder: Debian's `pyconfig.h` includes another below `/usr/include`,
    which a cross compiler doesn't search.
    """
    for headers in reversed(root.headers):
        shutil.copytree(headers, folder / HEADERS, copy_function=copy_regular, dirs_exist_ok=True)
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in sorted(root.settings.items()))
    text = f"build_time_vars = {{\n{lines}}}\n{_HEADERS_HERE}"
    (folder / f"{_MODULE}.py").write_text(text, encoding="utf-8")


def python_variables(folder: Path, platform: Platform) -> dict[str, str]:
    """Return variables that make a Python use the settings of `write_python_settings`."""
    return {
        "PYTHONPATH": str(folder),
        "_PYTHON_SYSCONFIGDATA_NAME": _MODULE,
        "_PYTHON_HOST_PLATFORM": platform.name.replace("_", "-", 1),
    }
