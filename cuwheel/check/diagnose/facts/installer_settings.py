"""Files in which pip and uv find options, as their variables give them."""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel.base.errors import CuwheelError
from cuwheel.base.system.regular_files import read_text, read_toml

_NONE = os.devnull  # as the value of PIP_CONFIG_FILE it stands for no file at all


@dataclass(frozen=True, kw_only=True)
class InstallerSetting:
    """An option in a file, by the name of the variable that gives the same one: `PIP_TARGET`.

    Attributes:
        name: empty: the file can't be read, and `value` is why.
        key: as the file has it, `install.target`.
        level: pip's word for the file, `user`; empty for uv's.
    """

    name: str
    value: str
    key: str
    file: Path
    level: str = ""

    @property
    def text(self) -> str:
        """`target = /a in /etc/pip.conf`."""
        return f"{self.key.rpartition('.')[2]} = {self.value} in {self.file}"


def read_settings(
    prefix: Path, environ: Mapping[str, str], *, has_pip: bool
) -> tuple[InstallerSetting, ...]:
    """Return the options of pip, or else of uv; the last of one name counts.

    Args:
        prefix: of the environment, which may have a file of its own.
    """
    home = environ.get("HOME", "/nonexistent")
    own = Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config")
    if has_pip:
        return tuple(_of_pip(prefix, Path(home), own, environ))
    named = environ.get("UV_CONFIG_FILE")
    files = [Path(named)] if named else [Path("/etc/uv/uv.toml"), own / "uv/uv.toml"]
    return () if environ.get("UV_NO_CONFIG") else tuple(_of_uv(files))


def _of_pip(
    prefix: Path, home: Path, own: Path, environ: Mapping[str, str]
) -> Iterator[InstallerSetting]:
    """Yield what pip's files have: its documentation, "Configuration", names them in this order."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == _NONE:
        return
    users = [] if named and os.path.exists(named) else [home / ".pip", own / "pip"]  # noqa: PTH110
    places = [("global", Path("/etc/xdg/pip/pip.conf")), ("global", Path("/etc/pip.conf"))]
    places += [("user", folder / "pip.conf") for folder in users]
    places += [("site", prefix / "pip.conf"), *([("env", Path(named))] if named else [])]
    for level, file in places:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(read_text(file))
        except OSError:
            continue
        except (configparser.Error, UnicodeDecodeError) as problem:
            why = " ".join(str(problem).split())
            yield InstallerSetting(name="", value=why, key="", file=file, level=level)
            continue
        for section in ("global", "install"):
            options = parser.items(section) if parser.has_section(section) else []
            for key, value in options:
                name = f"PIP_{key.upper().replace('-', '_')}"
                key = f"{section}.{key}"  # noqa: PLW2901 - as pip names it
                yield InstallerSetting(name=name, value=value, key=key, file=file, level=level)


def _of_uv(files: list[Path]) -> Iterator[InstallerSetting]:
    for file in filter(Path.is_file, files):
        try:
            content: dict[str, Any] = read_toml(file)
        except (OSError, ValueError, CuwheelError) as problem:
            why = " ".join(str(problem).split())
            yield InstallerSetting(name="", value=why, key="", file=file)
            continue
        tables = (content, content.get("pip", {}))
        options = ((key, value) for table in tables for key, value in table.items())
        for key, value in options:
            if isinstance(value, (bool, str)):
                name = f"UV_{key.upper().replace('-', '_')}"
                text = str(value).lower() if isinstance(value, bool) else value
                yield InstallerSetting(name=name, value=text, key=key, file=file)
