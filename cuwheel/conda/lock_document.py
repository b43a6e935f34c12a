"""The document in a `conda-lock.yml`: v1 of conda-lock's format, into records and out of them.

The fields are those of conda-lock's own model (`conda_lock/lockfile/v1/models.py`). It has none for
a file's size, nor for where the records came from: these stand in `custom_metadata`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuwheel.conda.environment_file import PLATFORM
from cuwheel.conda.records import NOT_FETCHED, CondaLock, CondaPackage
from cuwheel.errors import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_VERSION = 1
_SIZE = "size "  # before a file's name

_DOCUMENT_KEYS = ("version", "metadata", "package")
_METADATA_KEYS = ("content_hash", "channels", "platforms", "sources", "custom_metadata")
_PACKAGE_KEYS = (
    *("name", "version", "manager", "platform", "dependencies", "url", "hash", "build"),
    *("category", "optional"),
)
_TEXT = re.compile(r".*", re.DOTALL)
_NAME = re.compile(r"\S+")
_MD5 = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(rf"\w+://\S+/(?:{PLATFORM}|noarch)/[^/\s]+(?:\.conda|\.tar\.bz2)")
_BYTES = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class _Fields:
    """A mapping of the document, read field by field; what is wrong goes to `faults`."""

    where: str
    content: Any
    faults: list[str]

    def refuse_other_keys(self, known: Iterable[str]) -> None:
        if not isinstance(self.content, dict):
            self.faults.append(f"{self.where} is not a mapping")
            return
        for key in self.content:
            if key not in known:
                self.faults.append(f"{self.where} has a field `{key}`; {suggest(str(key), known)}")

    def text(self, key: str, form: re.Pattern[str] = _TEXT, *, default: str | None = None) -> str:
        value = self._value(key, default)
        if isinstance(value, str) and (form.fullmatch(value) or value == default):
            return value
        if value is not None:
            self.faults.append(f"{self.where}: its {key} is invalid: {value!r}")
        elif isinstance(self.content, dict):
            self.faults.append(f"{self.where} has no {key}")
        return ""

    def fields(self, key: str) -> _Fields:
        """The mapping under a key; an empty one where there is none."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            self.faults.append(f"{self.where}: its {key} is not a mapping")
            value = {}
        return _Fields(where=f"{key} of {self.where}", content=value, faults=self.faults)

    def list(self, key: str) -> list[Any]:
        value = self._value(key, None)
        if isinstance(value, list) and value:
            return value
        if isinstance(self.content, dict):
            self.faults.append(f"{self.where} has no list of {key}")
        return []

    def texts(self) -> dict[str, str]:
        """All of it, names and values."""
        return {str(key): self.text(key) for key in self.content}

    def _value(self, key: str, default: object) -> Any:
        found = self.content.get(key) if isinstance(self.content, dict) else None
        return default if found is None else found


def lock_of_document(content: object, faults: list[str]) -> tuple[CondaLock, str]:
    """Read a document.

    Args:
        content: as YAML gives it.
        faults: gets a line for each thing that is wrong; the lock is of no use then.

    Returns:
        The lock, and the SHA-256 that it states for its own content; empty where it states none.
    """
    document = _Fields(where="the lock", content=content, faults=faults)
    document.refuse_other_keys(_DOCUMENT_KEYS)
    if isinstance(content, dict) and content.get("version") != _VERSION:
        faults.append(f"its version is {content.get('version')}, not {_VERSION}")
    metadata = document.fields("metadata")
    metadata.refuse_other_keys(_METADATA_KEYS)
    if PLATFORM not in metadata.list("platforms"):
        faults.append(f"it isn't for {PLATFORM}")
    stated = metadata.fields("custom_metadata").texts()
    packages = [_package(one, n, stated, faults) for n, one in enumerate(document.list("package"))]
    number = Counter(package.name for package in packages)
    faults += [f"package {name} is listed twice" for name in sorted(number) if number[name] > 1]
    lock = CondaLock(
        packages=tuple(sorted(packages, key=lambda package: package.name)),
        channels=tuple(_channel(one, faults) for one in metadata.list("channels")),
        digest=metadata.fields("content_hash").text(PLATFORM, _SHA256),
        index=stated.get("index", ""),
        input_digest=stated.get("input", ""),
        files=stated.get("files", NOT_FETCHED),
    )
    return lock, stated.get("content", "")


def _channel(content: object, faults: list[str]) -> str:
    channel = _Fields(where="a channel", content=content, faults=faults)
    channel.refuse_other_keys(("url", "used_env_vars"))
    return channel.text("url", _NAME)


def _package(
    content: object, number: int, stated: Mapping[str, str], faults: list[str]
) -> CondaPackage:
    name = content.get("name", number) if isinstance(content, dict) else number
    fields = _Fields(where=f"package {name}", content=content, faults=faults)
    fields.refuse_other_keys(_PACKAGE_KEYS)
    for key, only in (("manager", "conda"), ("platform", PLATFORM)):
        fields.text(key, re.compile(only))
    digests = fields.fields("hash")
    digests.refuse_other_keys(("md5", "sha256"))
    if not any(digests.content.values()):
        faults.append(f"package {name} has no hash")
    url = fields.text("url", _URL)
    file_name = url.rpartition("/")[2]
    sizes = _Fields(where=f"the size of {file_name}", content=stated, faults=faults)
    return CondaPackage(
        name=fields.text("name", _NAME),
        version=fields.text("version", _NAME),
        build=fields.text("build", default="") or _build_of(file_name),
        url=url,
        sha256=digests.text("sha256", _SHA256, default=""),
        md5=digests.text("md5", _MD5, default=""),
        size=int(sizes.text(f"{_SIZE}{file_name}", _BYTES, default="0") or 0),
        depends=tuple(fields.fields("dependencies").texts().items()),
    )


def _build_of(file_name: str) -> str:
    """A conda package's file is called `name-version-build` and its extension."""
    return file_name.removesuffix(".conda").removesuffix(".tar.bz2").rpartition("-")[2]


def document_of_lock(lock: CondaLock) -> dict[str, Any]:
    """The document that says what a lock holds."""
    sizes = {f"{_SIZE}{one.file_name}": str(one.size) for one in lock.packages if one.size}
    stated = {
        "index": lock.index,
        "files": lock.files,
        "input": lock.input_digest,
        "content": lock.content,
    }
    return {
        "version": _VERSION,
        "metadata": {
            "content_hash": {PLATFORM: lock.digest},
            "channels": [{"url": channel, "used_env_vars": []} for channel in lock.channels],
            "platforms": [PLATFORM],
            "sources": ["environment.yml"],
            "custom_metadata": {**stated, **sizes},
        },
        "package": [_as_document(package) for package in lock.packages],
    }


def _as_document(package: CondaPackage) -> dict[str, Any]:
    sha256 = {"sha256": package.sha256} if package.sha256 else {}
    return {
        "name": package.name,
        "version": package.version,
        "manager": "conda",
        "platform": PLATFORM,
        "dependencies": dict(package.depends),
        "url": package.url,
        "hash": {"md5": package.md5, **sha256},
        "category": "main",
        "optional": False,
    }
