"""Files that Python reads when it starts, where one of them ends it or has no end."""

from __future__ import annotations

import ast
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import parse_module, read_text
from cuwheel.check.diagnose.facts.environment import Distribution
from cuwheel.check.diagnose.facts.installed_files import named_files

_IMPORTED = re.compile(r"^import\s+(\w+)", re.MULTILINE)
_USUAL = "import importlib.metadata, json, platform, sysconfig, traceback"  # of any program
_TIME_LIMIT = 5.0  # seconds
# What `python -v` prints of them (`site.py`, `importlib._bootstrap_external`).
_READ = re.compile(r"^(?:Processing \.pth file: |# code object from )'?(.*?)'?$", re.MULTILINE)
_NAMES = re.compile(r"\.pth$|(^|/)(sitecustomize|usercustomize)(\.|/)")
_COMPILED = re.compile(r"__pycache__/(\w+)\.[\w-]+\.pyc$")
_RELEASE = re.compile(r"python(3\.\d+)t?")
_WITH_SYSTEM = re.compile(
    r"^include-system-site-packages\s*=\s*true\s*$", re.IGNORECASE | re.MULTILINE
)


def find_endless_file(python: Path, environ: Mapping[str, str]) -> str:
    """Return a `.pth` for whose end Python waits: a FIFO or a device; empty if there is none.

    Nothing is started: with a device, Python would take all memory.
    """
    files = (file for site in _sites(python, environ) for file in sorted(site.glob("[!.]*.pth")))
    return next((str(file) for file in files if _is_endless(file)), "")


def _is_endless(file: Path) -> bool:
    try:
        state = file.stat()
    except OSError:  # Python passes over it
        return False
    is_device = stat.S_ISCHR(state.st_mode) or stat.S_ISBLK(state.st_mode)
    return stat.S_ISFIFO(state.st_mode) or (is_device and not file.samefile(os.devnull))


def hides_users(prefix: Path) -> bool:
    """Return True for a virtual environment without the system's packages, nor a user's."""
    try:
        return not _WITH_SYSTEM.search(read_text(prefix / "pyvenv.cfg"))
    except (OSError, ValueError):
        return False


def _sites(python: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders whose `.pth` files an interpreter reads, by its path alone."""
    real = python.resolve()
    named = _RELEASE.fullmatch(real.name)
    release = f"python{named[1]}*" if named else "python3*"
    prefixes = [python.absolute().parent.parent]
    if not hides_users(prefixes[0]):
        prefixes.append(real.parent.parent)
        if not environ.get("PYTHONNOUSERSITE"):
            home = environ.get("HOME", "/nonexistent")
            prefixes.append(Path(environ.get("PYTHONUSERBASE") or f"{home}/.local"))
    for prefix in dict.fromkeys(prefixes):
        for start in ("lib", "lib64", "local/lib"):
            yield from sorted(prefix.glob(f"{start}/{release}/*-packages"))
        yield prefix / "lib/python3/dist-packages"  # Debian's


def startup_file_with(sites: Iterable[Path], text: str) -> Path | None:
    """Return the file with a text that each start runs; None: there is none.

    That is a `.pth`, a module that one imports, `sitecustomize` or `usercustomize`.
    """
    files = (file for site in filter(Path.is_dir, sites) for file in _startup_files(site))
    return next((file for file in files if text in _text_of(file)), None)


def _startup_files(site: Path) -> Iterator[Path]:
    yield from (site / name for name in ("sitecustomize.py", "usercustomize.py"))
    for file in sorted(site.glob("*.pth")):
        yield file
        for name in filter(None, _IMPORTED.findall(_text_of(file))):
            yield from (site / f"{name}.py", site / name / "__init__.py")


def _text_of(file: Path) -> str:
    try:
        return read_text(file)
    except (OSError, UnicodeDecodeError):
        return ""


def removal_of(file: Path, text: str, installed: Iterable[Distribution]) -> str:
    """Return the command that removes a text's lines from a startup file; empty: none is safe.

    What is left has to be valid; a file without more goes. One that a distribution installed, as
    an editable one's, stays as it is.
    """
    if any(file in named_files(own) for own in installed):
        return ""
    lines = _text_of(file).splitlines()
    rest = [line for line in lines if text not in line]
    code = [line for line in rest if line.strip() and not line.lstrip().startswith("#")]
    try:
        tree = parse_module("\n".join(code if file.suffix == ".py" else "").encode())
    except SyntaxError:
        return ""
    if len(rest) == len(lines) or not os.access(file, os.W_OK):
        return ""
    if all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in tree.body) and (
        file.suffix == ".py" or not code
    ):
        return f"rm {shlex.quote(str(file))}"
    pattern = re.sub(r"([\\/.*^$\[\]])", r"\\\1", text)
    return f"sed -i {shlex.quote(f'/{pattern}/d')} {shlex.quote(str(file))}"


def find_ending_file(python: Path, environ: Mapping[str, str]) -> str:
    """Return the startup file at which Python ends; empty if it starts, or fails without any."""
    if _run(python, environ, "-c", _USUAL)[0] or not _run(python, environ, "-S", "-c", _USUAL)[0]:
        return ""
    files = filter(_NAMES.search, _READ.findall(_run(python, environ, "-v", "-c", "")[1]))
    last = next(reversed(list(files)), "")
    return _COMPILED.sub(r"\1.py", last)


def _run(python: Path, environ: Mapping[str, str], *words: str) -> tuple[bool, str]:
    try:
        done = run([python, *words], env=environ, timeout=_TIME_LIMIT, check=False)
    except CommandFailedError as problem:
        return False, problem.why
    return done.status == 0, done.output
