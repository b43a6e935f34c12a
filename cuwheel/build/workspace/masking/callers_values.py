"""The caller's own values: variables with secret names, credentials of programs, names."""

from __future__ import annotations

import base64
import contextlib
import getpass
import html
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote

from cuwheel.base.fetch.urls import credentials_of
from cuwheel.base.system.regular_files import read_regular
from cuwheel.build.workspace.masking.secret_forms import is_plain, lowered, secret_forms

SHORTEST = 8  # characters: a shorter value would be masked where it means nothing
_FILE_LIMIT = 1 << 20  # bytes
_SAFE = ("", "/", "!$&'()*+,;=")  # characters without escape: none, in a path, in a password
_ESCAPED = re.compile(r"%[0-9A-F]{2}")
_SECRET_NAME = re.compile(
    r"secret|token(?!iz)|passw|passphrase|pwd$|credential|cookie|auth(?!or)|private"
    r"|(?:_|^)(?:key|pat|pass)(?:_|$)"
    r"|api_?key|access_?key|session_?key",
    re.IGNORECASE,
)
# Variables that name a file, a socket, a program or a number, not a value.
_NO_VALUE = re.compile(
    r"_(?:file|path|dir|sock|url|home|socket|method|type|id)$|^PWD$|^OLDPWD$", re.IGNORECASE
)
_URL = re.compile(r"[a-z][a-z+]*://[^\s'\"]+")
# Files of credentials below the home, and the variable that names another file.
_FILES = {
    ".netrc": "NETRC",
    "_netrc": "",
    ".pypirc": "",
    ".git-credentials": "",
    ".gitconfig": "GIT_CONFIG_GLOBAL",
    ".config/git/config": "",
    ".config/git/credentials": "",
    ".config/pip/pip.conf": "PIP_CONFIG_FILE",
    ".pip/pip.conf": "",
    ".config/uv/uv.toml": "UV_CONFIG_FILE",
    ".config/gh/hosts.yml": "",
    ".docker/config.json": "",
    ".aws/credentials": "AWS_SHARED_CREDENTIALS_FILE",
    ".npmrc": "",
    ".ngc/config": "",
}
_WHOLE = (".cache/huggingface/token", ".huggingface/token")  # files that are nothing but a token
# Names of accounts and hosts that are ordinary words.
_ORDINARY = frozenset(
    {
        *("root", "user", "users", "admin", "nobody", "guest", "test", "tests", "tester", "agent"),
        *("build", "builder", "runner", "runneradmin", "worker", "jenkins", "github", "gitlab"),
        *("ubuntu", "debian", "centos", "fedora", "docker", "vagrant", "ec2-user", "azureuser"),
        *("rocky", "linux", "conda", "node", "coder", "code", "vscode", "codespace", "jovyan"),
        *("server", "host", "main", "make", "release", "buildkitsandbox", "docker-desktop"),
        *("nvidia", "cuda", "python", "torch", "cuwheel", "wheel", "localhost", "localdomain"),
    }
)
_SHORTEST_NAME = 4  # characters of a user or a host


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's secrets, in each way in which they may be written; value → kind.

    Values of fewer than `SHORTEST` characters, of files that aren't there and of variables that
    name a file are left out.
    """
    secrets: dict[str, str] = {}
    for name, value in environ.items():
        for secret in _of_variable(name, value):
            secrets.setdefault(secret, f"value of {name}")
    for path in _files(environ):
        with contextlib.suppress(OSError):
            text = read_regular(path.resolve(), limit=_FILE_LIMIT).decode(errors="replace")
            for secret in [text] if str(path).endswith(_WHOLE) else _in_file(text):
                secrets.setdefault(secret.strip(), f"credential of {path.name}")
    return {
        form: kind
        for value, kind in secrets.items()
        if len(value) >= SHORTEST and not is_plain(value)
        for form in _forms(value)
        if len(form) >= SHORTEST
    }


def machine_names() -> dict[str, str]:
    """Return the names of user and host that are no ordinary words; name → placeholder."""
    host = platform.node()
    names = {host: "<host>", host.partition(".")[0]: "<host>"}
    with contextlib.suppress(OSError, KeyError):
        names[getpass.getuser()] = "<user>"
    return {
        name: placeholder
        for name, placeholder in names.items()
        if len(name) >= _SHORTEST_NAME and name.lower() not in _ORDINARY
    }


def _of_variable(name: str, value: str) -> Iterator[str]:
    for url in _URL.findall(value):  # PIP_INDEX_URL, HTTPS_PROXY
        yield from _of_url(url)
    if not _SECRET_NAME.search(name) or _NO_VALUE.search(name):
        return
    if value.startswith(("/", "~", "./")) and os.path.exists(os.path.expanduser(value)):  # noqa: PTH110, PTH111 - any text
        return
    yield value
    lines = value.splitlines()
    yield from lines if len(lines) > 1 else ()


def _of_url(url: str) -> Iterator[str]:
    user, password = credentials_of(url)
    if password:
        yield password
        yield base64.b64encode(f"{user}:{password}".encode()).decode()
    elif user:
        yield user


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - never raises
    for place, variable in _FILES.items():
        yield Path(environ.get(variable) or home / place)
    yield Path("/etc/pip.conf")
    yield from (home / place for place in _WHOLE)


def _in_file(text: str) -> Iterator[str]:
    """Yield the secrets in a file of settings: of known forms, and of addresses."""
    for url in _URL.findall(text):
        yield from _of_url(url)
    lower = lowered(text)
    for form in secret_forms():
        yield from (text[start:end] for start, end in form.spans(text, lower))


def _forms(value: str) -> Iterator[str]:
    """Yield a value as addresses, JSON, HTML, base64 and headers write it."""
    yield value
    for quoted in (*(quote(value, safe=safe) for safe in _SAFE), quote_plus(value)):
        yield from (quoted, _ESCAPED.sub(lambda escape: escape[0].lower(), quoted))
    yield unquote(value)
    yield json.dumps(value)[1:-1]
    yield html.escape(value)
    yield from _base64_forms(value.encode())


def _base64_forms(value: bytes) -> Iterator[str]:
    """Yield the characters of base64 that a value alone decides, at each position of a group."""
    for before in range(3):  # bytes of a user's name before the value
        encoded = base64.b64encode(bytes(before) + value).decode().rstrip("=")
        has_rest = (before + len(value)) % 3 and before
        form = encoded[(0, 2, 3)[before] : -1 if has_rest else None]
        yield from (form, form.translate(str.maketrans("+/", "-_")))
