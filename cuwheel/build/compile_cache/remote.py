"""Where a remote compile cache is: what `CUWHEEL_REMOTE_CACHE` says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from cuwheel.errors import UsageError
from cuwheel.fetch.urls import redact_url

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

REMOTE_VARIABLE = "CUWHEEL_REMOTE_CACHE"
SCHEMES = ("redis", "rediss", "redis+unix", "http", "https", "s3", "file")

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")  # "Bucket naming rules", Amazon S3


@dataclass(frozen=True, kw_only=True)
class RemoteCache:
    """Where a remote cache is; what is secret of it shows in no `repr`.

    Attributes:
        scheme: one of `SCHEMES`.
        redacted_url: the address without user, password and query.
        host: its machine; for `s3` the bucket.
        port: 0 for the scheme's own.
        path: a folder, a socket, or what stands before each key.
        database: Redis's database number.
        user: who asks; empty for nobody.
        secret: password, or S3's secret key.
        token: S3's session token; empty for none.
        region: S3's region.
        endpoint: the S3 service where it isn't Amazon's own.
    """

    scheme: str
    redacted_url: str
    host: str = ""
    port: int = 0
    path: str = ""
    database: int = 0
    user: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    region: str = ""
    endpoint: str = ""

    @property
    def netloc(self) -> str:
        """Host and port as they stand in an address."""
        bracketed = f"[{self.host}]" if ":" in self.host else self.host
        return f"{bracketed}{f':{self.port}' if self.port else ''}"

    def without_secrets(self, text: str) -> str:
        """A text in which none of the secrets stands."""
        for word in filter(None, (self.secret, self.token)):
            for form in (word, quote(word, safe="")):
                text = text.replace(form, "***")
        return text


def parse_remote_cache(environ: Mapping[str, str]) -> RemoteCache | None:
    """What `CUWHEEL_REMOTE_CACHE` says; None where it isn't set.

    Args:
        environ: the caller's variables; S3's keys are read from them too.

    Raises:
        UsageError: it is no address that cuwheel can use; all its faults together.
    """
    text = environ.get(REMOTE_VARIABLE, "").strip()
    if not text:
        return None
    parts, problems = _split(text)
    if parts.scheme == "s3":
        problems += _s3_problems(parts, environ)
    if problems:
        raise UsageError(
            f"{REMOTE_VARIABLE} is not a valid remote cache",
            why="\n".join(problems),
            fix="set it to redis://host:6379/0, redis+unix:/path/of/socket, https://host/folder, "
            "s3://bucket/prefix or file:/folder; with user and password: "
            "https://user:password@host",
        )
    return _remote(parts, environ)


def _split(text: str) -> tuple[SplitResult, list[str]]:
    """The parts of an address, and what is wrong with them; no word of it may be a secret."""
    problems = []
    try:
        parts = urlsplit(text)
    except ValueError:
        return urlsplit(""), ["its host is invalid"]
    try:
        _ = parts.port
    except ValueError:
        problems.append("its port is not a number from 0 to 65535")
    if parts.scheme not in SCHEMES:
        named = parts.scheme if parts.scheme.isidentifier() else "none"
        problems.append(f"its scheme is {named}, which is not one of {', '.join(SCHEMES)}")
    elif parts.scheme in {"file", "redis+unix"}:
        if not parts.path.startswith("/"):
            problems.append(f"{parts.scheme}: needs an absolute path")
    elif not parts.hostname:
        problems.append("it has no host")
    if parts.scheme in {"redis", "rediss"} and not re.fullmatch(r"/?\d*", parts.path):
        problems.append("only a database number may follow Redis's host")
    return parts, problems


def _s3_problems(parts: SplitResult, environ: Mapping[str, str]) -> list[str]:
    needed = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    problems = [f"s3: needs {name}, which isn't set" for name in needed if not environ.get(name)]
    if "@" in parts.netloc or not _BUCKET.fullmatch(parts.netloc):
        problems.append("what follows s3:// is not a bucket name")
    return problems


def _remote(parts: SplitResult, environ: Mapping[str, str]) -> RemoteCache:
    database = re.search(r"(?:^|&)db=(\d+)(?:&|$)", parts.query)
    database = database or re.fullmatch(r"/(\d+)", parts.path)
    common = RemoteCache(
        scheme=parts.scheme,
        redacted_url=redact_url(parts.geturl()),
        host=parts.hostname or "",
        path=parts.path if parts.scheme.startswith("http") else unquote(parts.path),
    )
    if parts.scheme != "s3":
        return replace(
            common,
            port=parts.port or 0,
            database=int(database[1]) if database else 0,
            user=unquote(parts.username or ""),
            secret=unquote(parts.password or ""),
        )
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return replace(
        common,
        user=environ["AWS_ACCESS_KEY_ID"],
        secret=environ["AWS_SECRET_ACCESS_KEY"],
        token=environ.get("AWS_SESSION_TOKEN", ""),
        region=region,
        endpoint=environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL", ""),
    )
