"""The address of a remote compile cache, from `CUWHEEL_REMOTE_CACHE`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.urls import redact_url

REMOTE_VARIABLE = "CUWHEEL_REMOTE_CACHE"
KEYS_VARIABLE = "CUWHEEL_REMOTE_CACHE_KEYS"
SIGN_VARIABLE = "CUWHEEL_REMOTE_CACHE_SIGN"
SAMPLE_VARIABLE = "CUWHEEL_REMOTE_CACHE_SAMPLE"
_SAMPLE = 20  # one entry of so many is compiled again
SCHEMES = ("redis", "rediss", "redis+unix", "http", "https", "s3", "file")

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")  # "Bucket naming rules", Amazon S3
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_DEFAULT_REGION = "us-east-1"
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
# S3's keys: the caller's variables, and their names in obstore's `S3Config`
_KEYS = {"AWS_ACCESS_KEY_ID": "access_key_id", "AWS_SECRET_ACCESS_KEY": "secret_access_key"}
_TOKEN = "AWS_SESSION_TOKEN"  # noqa: S105 - a variable's name


@dataclass(frozen=True, kw_only=True)
class RemoteSigning:
    """The keys of a remote cache whose entries are signed.

    Attributes:
        public_keys: those that are trusted, a word each.
        private_key: the file of the one that signs what this machine compiles; None: it only reads.
        sample: one of so many entries is compiled again; 0: none.
    """

    public_keys: tuple[str, ...] = ()
    private_key: Path | None = None
    sample: int = _SAMPLE


@dataclass(frozen=True, kw_only=True)
class RemoteCache:
    """The address of a remote cache; its secrets are in no `repr`.

    Attributes:
        signing: None: its entries aren't signed.
        url: its parts; the scheme is one of `SCHEMES`.
        s3: keys, region and endpoint of S3, as obstore's `S3Config` names them.
    """

    url: SplitResult = field(repr=False)
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)
    signing: RemoteSigning | None = None

    @property
    def redacted_url(self) -> str:
        """Address without user, password and query."""
        return redact_url(self.url.geturl())

    def without_secrets(self, text: str) -> str:
        """Return a text without any of the secrets."""
        secrets = [self.s3.get(name, "") for name in ("secret_access_key", "session_token")]
        for word in filter(None, (unquote(self.url.password or ""), *secrets)):
            for form in (word, quote(word, safe="")):
                text = text.replace(form, "***")
        return text


def parse_remote_cache(environ: Mapping[str, str]) -> RemoteCache | None:
    """Parse `CUWHEEL_REMOTE_CACHE`, and S3's keys; None where it isn't set.

    Raises:
        UsageError: it is no address that cuwheel can use; all its problems together.
    """
    text = environ.get(REMOTE_VARIABLE, "").strip()
    if not text:
        return None
    url, problems = _split(text)
    if url.scheme == "s3":
        problems += [
            f"s3: needs {name}, which isn't set" for name in _KEYS if not environ.get(name)
        ]
        if "@" in url.netloc or not _BUCKET.fullmatch(url.netloc):
            problems.append("what follows s3:// is not a bucket name")
    if problems:
        raise UsageError(
            f"{REMOTE_VARIABLE} is not a valid remote cache",
            why="\n".join(problems),
            fix="set it to redis://host:6379/0, redis+unix:/path/of/socket, https://host/folder, "
            "s3://bucket/prefix or file:/folder; with user and password: "
            "https://user:password@host",
        )
    s3 = _s3_config(environ) if url.scheme == "s3" else {}
    return RemoteCache(url=url, s3=s3, signing=_read_signing(environ))


def _read_signing(environ: Mapping[str, str]) -> RemoteSigning | None:
    """Return the keys of signed entries; None where neither variable names one.

    Raises:
        UsageError: one can't be used.
    """
    words, sample = environ.get(KEYS_VARIABLE, "").split(), environ.get(SAMPLE_VARIABLE, "")
    private = Caller(environ).path(environ[SIGN_VARIABLE]) if environ.get(SIGN_VARIABLE) else None
    if not words and private is None:
        return None
    problems = [f"{KEYS_VARIABLE}: {fault}" for fault in map(_fault_of_key, words) if fault]
    if private and not private.is_file():
        problems.append(f"{SIGN_VARIABLE}: there is no {private}")
    if sample and not sample.isdecimal():
        problems.append(f"{SAMPLE_VARIABLE} is not a number: {sample}")
    if problems:
        raise UsageError(
            "the keys of the remote compile cache can't be used",
            why="\n".join(problems),
            fix=f"`nox -s rebuild -- --new-key FILE` makes a key: {SIGN_VARIABLE}=FILE signs, and "
            f"{KEYS_VARIABLE} takes the words that it prints, separated by blanks",
        )
    if private:
        from cuwheel.base.formats.signing_keys import read_signing_key  # noqa: PLC0415 - as below

        read_signing_key(private)
    number = int(sample) if sample else _SAMPLE
    return RemoteSigning(public_keys=tuple(words), private_key=private, sample=number)


def _fault_of_key(word: str) -> str:
    """Return why a public key can't be used; empty where it can."""
    # It loads slowly, and few builds have keys.
    from cuwheel.base.formats.signing_keys import read_public_key  # noqa: PLC0415

    try:
        read_public_key(word)
    except ValueError as problem:
        return str(problem)
    return ""


def _split(text: str) -> tuple[SplitResult, list[str]]:
    """Return the parts of an address and its problems, in which no secret may be."""
    problems = []
    try:
        url = urlsplit(text)
    except ValueError:
        return urlsplit(""), ["its host is invalid"]
    try:
        _ = url.port
    except ValueError:
        problems.append("its port is not a number from 0 to 65535")
    if url.scheme not in SCHEMES:
        named = url.scheme if url.scheme.isidentifier() else "none"
        problems.append(f"its scheme is {named}, which is not one of {', '.join(SCHEMES)}")
    elif url.scheme in {"file", "redis+unix"}:
        if not url.path.startswith("/"):
            problems.append(f"{url.scheme}: needs an absolute path")
    elif not url.hostname:
        problems.append("it has no host")
    if url.scheme in {"redis", "rediss"} and not re.fullmatch(r"/?\d*", url.path):
        problems.append("only a database number may follow Redis's host")
    return url, problems


def _s3_config(environ: Mapping[str, str]) -> dict[str, str]:
    first = {
        "session_token": (_TOKEN,),
        "region": _REGIONS,
        "endpoint": _ENDPOINTS,
    }
    config = {key: environ[name] for name, key in _KEYS.items()}
    config["region"] = _DEFAULT_REGION
    for key, names in first.items():
        if values := [environ[name] for name in names if environ.get(name)]:
            config[key] = values[0]
    return config
