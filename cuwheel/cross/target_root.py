"""A root folder of another kind of machine: where a foreign target's Python and C library are.

Any folder with a whole Linux of that machine serves: what debootstrap(8) unpacks, an image's files
that `podman export` wrote. Nothing of it runs while a wheel is compiled; the smoke test starts its
Python under QEMU.
"""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import TargetRootError
from cuwheel.system.files import sha256_of_file
from cuwheel.system.versions import version_key
from cuwheel.system.whole_files import read_text
from cuwheel.workspace.job import TargetRoot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.model.platform import Platform


TARGET_ROOT = "CUWHEEL_TARGET_ROOT"  # the variable that names one
# Where Pythons are: distributions, /usr/local, and the images of PyPA's manylinux project.
_PREFIXES = ("usr", "usr/local", "opt/python/cp{plain}-cp{abi}")
_SETTINGS = re.compile(r"_sysconfigdata_t?_(?:linux_)?(?P<triplet>[-\w]+)\.py")


def read_target_root(folder: Path | None, platform: Platform, release: str) -> TargetRoot:
    """Find the Python of a root folder.

    Args:
        folder: the root; None: none was named.
        platform: of its machine.
        release: of the Python, `3.11`.

    Raises:
        TargetRootError: there is none, it lacks headers, or it is for another machine.
    """
    if folder is None or not folder.is_dir():
        raise no_root(folder, platform)
    root = folder.resolve()
    abi = release.replace(".", "")
    places = [root / one.format(plain=abi.rstrip("t"), abi=abi) for one in _PREFIXES]
    for prefix in places:
        python = prefix / "bin" / f"python{release}"
        settings = _settings_file(prefix / "lib" / f"python{release}", platform)
        if python.is_file() and settings:
            return _read(root, prefix, python, settings, platform)
    raise _no_python(folder, platform, release, places)


def no_root(folder: Path | None, platform: Platform) -> TargetRootError:
    """The error of a build that no root folder is named for, or one that isn't there."""
    return TargetRootError(
        f"there is no root folder of a Linux for {platform.machine}",
        why=f"{folder} is not a folder"
        if folder
        else f"neither --target-root nor {TARGET_ROOT} names one",
        fix="make one (docs/how-to/arm64.md says how), and name it",
    )


def oldest_served(folder: Path | None, platform: Platform, oldest: str) -> str:
    """The Python to compile a wheel of the stable ABI with: one that a root folder has.

    Args:
        folder: the root; None: none was named.
        platform: of its machine.
        oldest: the first release that the wheel serves, `3.10`.

    Returns:
        That one where the folder has it, or has none that the wheel serves; else the next.
    """
    found = _pythons_in(folder.resolve()) if folder and folder.is_dir() else []
    later = (
        release
        for release, triplet in found
        # A free-threaded Python has no stable ABI (PEP 703).
        if triplet == platform.triplet and not release.endswith("t")
    )
    fitting = (one for one in later if version_key(one) >= version_key(oldest))
    return min(fitting, key=version_key, default=oldest)


def _no_python(
    folder: Path, platform: Platform, release: str, places: Iterable[Path]
) -> TargetRootError:
    """Say what Pythons are there instead."""
    found = _pythons_in(folder.resolve())
    fitting = [other for other, triplet in found if triplet == platform.triplet]
    names = ", ".join(f"Python {other} for {triplet}" for other, triplet in found)
    searched = ", ".join(str(place.relative_to(folder.resolve())) for place in places)
    make = f"make one for {platform.machine} with Python {release} (docs/how-to/arm64.md says how)"
    return TargetRootError(
        f"{folder} has no Python {release} for {platform.machine}",
        why=f"it has {names}" if found else f"there is none in {searched}",
        fix=f"build for the one it has, `-- --python {fitting[0]}`, or {make}" if fitting else make,
    )


def _pythons_in(root: Path) -> list[tuple[str, str]]:
    """Each Python that is there, of any kind of machine: `3.11` and `aarch64-linux-gnu`."""
    found = set()
    for prefix in _PREFIXES:
        pattern = f"{prefix.format(plain='*', abi='*')}/lib/python3.*/_sysconfigdata_*.py"
        for path in root.glob(pattern):
            program = path.parents[2] / "bin" / path.parent.name
            if (name := _SETTINGS.fullmatch(path.name)) and program.is_file():
                found.add((path.parent.name.removeprefix("python"), name["triplet"]))
    return sorted(found)


def _settings_file(folder: Path, platform: Platform) -> Path | None:
    """Build settings of the Python: CPython's Makefile names them so, Debian without the system."""
    names = (f"linux_{platform.triplet}", platform.triplet)
    found = (folder / f"_sysconfigdata_{kind}_{name}.py" for name in names for kind in ("", "t"))
    return next((path for path in found if path.is_file()), None)


def _read(root: Path, prefix: Path, python: Path, file: Path, platform: Platform) -> TargetRoot:
    settings = _build_settings(file)
    soabi, release = str(settings.get("SOABI", "")), str(settings.get("VERSION", ""))
    # Debian's Python.h includes one of its machines' pyconfig.h by `<TRIPLET/pythonX.Y/…>`.
    plain = prefix / "include" / f"python{release}"
    own = prefix / "include" / platform.triplet / f"python{release}"
    headers = tuple(path for path in (own, plain) if (path / "pyconfig.h").is_file())
    if not (plain / "Python.h").is_file() or platform.triplet not in soabi:
        raise TargetRootError(
            f"{python} can't be used for compiling",
            why=f"{plain / 'Python.h'} doesn't exist"
            if platform.triplet in soabi
            else f"{file.name} has the ABI {soabi or 'unknown'}, not one of {platform.triplet}",
            fix="install the Python's headers in that root (Debian: libpython3-dev), for "
            f"{platform.machine}",
        )
    parts = [python.resolve(), file, *sorted(path for one in headers for path in one.rglob("*.h"))]
    parts += sorted(root.glob(f"lib/{platform.triplet}/libc.so.6")) or [
        *root.glob("lib64/libc.so.6")
    ]
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
    """The dictionary in the file, which is read and not run.

    Raises:
        TargetRootError: it holds something else.
    """
    try:
        [assigned] = (one for one in ast.parse(read_text(file)).body if isinstance(one, ast.Assign))
        settings = ast.literal_eval(assigned.value)
        return {str(name): value for name, value in settings.items()}
    except (SyntaxError, ValueError, AttributeError) as problem:
        raise TargetRootError(
            f"{file} can't be read",
            why=f"it should contain one dictionary, build_time_vars ({problem})",
            fix="install that Python again in its root",
        ) from None
