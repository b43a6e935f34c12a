"""Settings of the caller's pip that decide where packages come from, and the connection there.

pip reads any option from a variable or a file: `PIP_TARGET` or `user = true` would change the
effect of an installation. So the pip that cuwheel starts gets only those below, and no file. Names
and order: pip's documentation, "Configuration". Standard library only: bootstrap installs with pip.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuwheel.base.errors import InstallError
from cuwheel.base.system.regular_files import read_text

_PASSED = (
    *("cert", "client-cert", "extra-index-url", "find-links", "index-url", "keyring-provider"),
    *("no-index", "proxy", "retries", "timeout", "trusted-host"),
)
_OTHER_NAMES = {"default-timeout": "timeout", "pypi-url": "index-url"}


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return values by option name, `index-url`; variables win over files.

    Raises InstallError where a configuration file can't be understood.
    """
    merged: dict[str, str] = {}
    for path in reversed(tuple(_config_files(environ))):
        merged.update(_read(path))
    variables = {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in sorted(environ.items())
        if name.startswith("PIP_") and value
    }
    merged.update(_known(variables))
    return merged


def pip_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the same as variables of a pip that reads no files."""
    settings = pip_settings(environ).items()
    named = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in settings}
    return {**named, "PIP_CONFIG_FILE": os.devnull}


def _config_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths of pip's configuration files on Linux, nearest first; they needn't exist."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return  # pip then reads no file
    home = Path(environ.get("HOME", "/"))
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    if named:
        yield Path(named)
    yield Path(sys.prefix) / "pip.conf"
    yield user / "pip" / "pip.conf"
    yield home / ".pip" / "pip.conf"
    yield from (Path(folder) / "pip" / "pip.conf" for folder in system)
    yield Path("/etc/pip.conf")


def _read(path: Path) -> dict[str, str]:
    """Return the settings of one file; none where this user can't open it, as with pip."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_text(path) if path.is_file() else "")
    except OSError:
        return {}
    except (ValueError, configparser.Error) as problem:
        raise malformed_config(path, problem) from problem
    values: dict[str, str] = {}
    for section in filter(parser.has_section, ("global", "install")):  # the latter wins
        values.update(parser[section])
    return _known({name.replace("_", "-"): value for name, value in values.items()})


def malformed_config(path: Path, problem: Exception) -> InstallError:
    """Return the error for a configuration file of pip or uv that can't be understood."""
    line = getattr(problem, "lineno", None)  # not its text, which may quote a password
    return InstallError(
        f"{path} can't be read, so the package index to use is unknown",
        why=type(problem).__name__ + (f" in line {line}" if line else ""),
        fix="correct the file, or set PIP_CONFIG_FILE=/dev/null, UV_NO_CONFIG=1, and the index in "
        "UV_DEFAULT_INDEX and PIP_INDEX_URL",
    )


def _known(values: Mapping[str, str]) -> dict[str, str]:
    named = ((_OTHER_NAMES.get(name, name), value) for name, value in values.items())
    return {name: " ".join(value.split()) for name, value in named if name in _PASSED}
