"""Settings of the caller that uv gets: indexes, connections, credentials.

uv reads any option from `UV_*` or a `uv.toml`: `UV_TARGET` or `[pip] prefix` would change the
effect of an installation. So uv gets only the variables below, and a file of cuwheel's with the
settings below from the caller's files. Names: uv's documentation, "Environment variables",
"Settings" and "Configuration files".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuwheel.base.fetch.indexes.pages import tree_of
from cuwheel.base.fetch.pip_settings import malformed_config, pip_settings
from cuwheel.base.fetch.urls import is_local
from cuwheel.base.system.regular_files import read_toml

# PATH is for `keyring`; uv looks for nothing else there, as its Python is always named.
_VARIABLES = re.compile(
    r"HOME|PATH|XDG_CONFIG_HOME|XDG_DATA_HOME|NETRC|TMPDIR|UV_CREDENTIALS_DIR"
    r"|UV_((DEFAULT|EXTRA)_)?INDEX(_\w+)?|UV_FIND_LINKS|UV_KEYRING_PROVIDER|UV_INSECURE_HOST"
    r"|UV_NATIVE_TLS|UV_SYSTEM_CERTS|UV_NO_INDEX|UV_HTTP_\w+|UV_CONCURRENT_DOWNLOADS"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|SSL_CLIENT_CERT|(?i:(HTTP|HTTPS|ALL|NO)_PROXY)"
)
_FIELDS = (
    *("allow-insecure-host", "concurrent-downloads", "extra-index-url", "find-links"),
    *("http-proxy", "https-proxy", "index", "index-strategy", "index-url", "keyring-provider"),
    *("native-tls", "no-index", "no-proxy", "system-certs"),
)
_WITH_PATHS = ("extra-index-url", "find-links", "index", "index-url")
# pip's settings that uv has under another name, used where the caller set none of uv's.
_OF_PIP = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}


def uv_variables(environ: Mapping[str, str], folder: Path, *, with_pips: bool) -> dict[str, str]:
    """Return the variables for uv, with pip's settings or without, and write its configuration.

    Raises InstallError where a configuration file can't be understood.
    """
    settings = uv_settings(environ)
    passed = {name: value for name, value in environ.items() if _VARIABLES.fullmatch(name)}
    if with_pips:
        passed = _with_pips(passed, settings, pip_settings(environ))
    config = folder / "uv.toml"
    config.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in settings.items()))
    return {**passed, "UV_CONFIG_FILE": str(config)}


def local_sources(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that local indexes and links of the caller's settings may lead to."""
    settings = uv_settings(environ)
    variables = _with_pips(dict(environ), settings, pip_settings(environ))
    addresses = [
        address.partition("=")[2] if re.match(r"\w+=", address) else address
        for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL")
        for address in variables.get(name, "").split()
    ]
    addresses += variables.get("UV_FIND_LINKS", "").split(",")
    for key in _WITH_PATHS:
        value = settings.get(key, ())
        entries = [value] if isinstance(value, str) else value
        addresses += [entry["url"] if isinstance(entry, dict) else str(entry) for entry in entries]
    local = (text for text in addresses if text and (is_local(text) or "://" not in text))
    urls = (text if is_local(text) else Path(text).absolute().as_uri() for text in local)
    return tuple(map(tree_of, urls))


def _config_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths of uv's configuration files on Linux, nearest first; they needn't exist."""
    if environ.get("UV_NO_CONFIG"):
        return
    if environ.get("UV_CONFIG_FILE"):
        yield Path(environ["UV_CONFIG_FILE"])
        return
    home = Path(environ.get("HOME", "/"))
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    yield from (Path(folder) / "uv" / "uv.toml" for folder in system)
    yield Path("/etc/uv/uv.toml")


def uv_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings to pass on, of the nearest file first; lists of indexes are joined.

    Raises InstallError where a configuration file can't be understood.
    """
    merged: dict[str, Any] = {}
    for path in filter(Path.is_file, _config_files(environ)):
        try:
            config = read_toml(path)
            values = {**config, **config.get("pip", {})}
            settings = {
                key: _rooted(key, values[key], path.parent) for key in _FIELDS if key in values
            }
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as problem:
            raise malformed_config(path, problem) from problem
        for key, value in settings.items():
            if isinstance(value, list) and isinstance(merged.get(key), list):
                merged[key] += value
            else:
                merged.setdefault(key, value)
    return merged


def _rooted(key: str, value: Any, folder: Path) -> Any:
    if key not in _WITH_PATHS:
        return value
    if key == "index":
        return [{**table, "url": _rooted("index-url", table["url"], folder)} for table in value]
    if isinstance(value, list):
        return [_rooted(key, entry, folder) for entry in value]
    text = str(value)
    return text if "://" in text else os.path.normpath(folder / text)


def _with_pips(
    passed: dict[str, str], settings: Mapping[str, Any], pips: Mapping[str, str]
) -> dict[str, str]:
    variables = dict(passed)
    for option, name in _OF_PIP.items():
        if option in pips:
            variables.setdefault(name, pips[option].replace(" ", ","))
    if pips.get("keyring-provider") in {"subprocess", "import"}:
        variables.setdefault("UV_KEYRING_PROVIDER", "subprocess")
    has_main = {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & variables.keys() or "index-url" in settings
    has_main = has_main or any(index.get("default") for index in settings.get("index", ()))
    if "index-url" in pips and not has_main:
        variables["UV_DEFAULT_INDEX"] = pips["index-url"]
    for option, name, sign in (
        ("extra-index-url", "UV_EXTRA_INDEX_URL", " "),
        ("find-links", "UV_FIND_LINKS", ","),
    ):
        values = [
            *variables.get(name, "").replace(",", sign).split(sign),
            *pips.get(option, "").split(),
        ]
        if any(values):
            variables[name] = sign.join(dict.fromkeys(filter(None, values)))
    if pips.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        variables.setdefault("UV_NO_INDEX", "1")
    return variables


def _toml(value: Any) -> str:
    """Return a value on one line: JSON where it agrees with TOML, and inline tables."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
