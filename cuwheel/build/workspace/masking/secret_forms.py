"""The forms of secrets: the rules of detect-secrets, and values after a name or a header.

Rules that judge by entropy are left out: a build log is full of hashes. docs/adr/0045.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.basic_auth import BasicAuthDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.high_entropy_strings import HighEntropyStringsPlugin
from detect_secrets.plugins.ibm_cloud_iam import IbmCloudIamDetector
from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
from detect_secrets.plugins.ip_public import IPPublicDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.keyword import DENYLIST
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.softlayer import SoftlayerDetector

# Hashes, addresses of machines, rules for names that cost a second for each megabyte, or its square
# (names are below), the first line of a key, and addresses, which stay without password.
_LEFT_OUT = (
    *(HighEntropyStringsPlugin, IPPublicDetector, NpmDetector, PrivateKeyDetector),
    *(BasicAuthDetector, CloudantDetector, IbmCloudIamDetector, IbmCosHmacDetector),
    SoftlayerDetector,
)

# Tokens younger than the library's rules, or of this field.
_YOUNGER = {
    # https://docs.github.com/en/authentication (fine-grained tokens)
    r"github_pat_\w{22,}": ("GitHub Token", "github_pat_"),
    # https://huggingface.co/docs/hub/security-tokens
    r"\bhf_[A-Za-z0-9]{30,}": ("Hugging Face Token", "hf_"),
    # https://docs.nvidia.com/ngc (personal keys)
    r"\bnvapi-[\w-]{40,}": ("NVIDIA API Key", "nvapi-"),
    # https://docs.npmjs.com/about-access-tokens
    r"\bnpm_[A-Za-z0-9]{36}": ("NPM tokens", "npm_"),
    # https://cloud.google.com/docs/authentication/api-keys
    r"\bAIza[\w-]{35}": ("Google API Key", "AIza"),
    # https://platform.openai.com/docs, https://docs.anthropic.com
    r"(?<![\w-])sk-[\w-]{32,}": ("API Key", "sk-"),
    # https://docs.docker.com/security/access-tokens
    r"\bdckr_[a-z]{3}_[\w-]{20,}": ("Docker Token", "dckr_"),
    # Tokens of other indexes than PyPI: https://warehouse.pypa.io, macaroons
    r"\bpypi-[\w-]{70,}": ("PyPI Token", "pypi-"),
}

# A key as one text with line breaks, or escaped on one line; cut off, it ends with its last line
# of base64. RFC 7468, RFC 1421, RFC 4880.
_KEY = (
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----).){0,200}(?:\r?\n|\\n)){0,400}?"
    r".{0,200}?-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
)
_CUT_KEY = (
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----[^\n]*"
    r"(?:\n(?:[A-Z][\w-]{1,40}: [^\n]{0,200}|[^\n]{0,60}?(?<![^\s])[A-Za-z0-9+/=]{16,}|))*"
)

# Begin of matches of the library's slow rules: so many characters before a literal. A rule that has
# changed isn't here, and is searched for everywhere.
_BEGINS = {
    r'(?:\s|=|:|"|^)AKC[a-zA-Z0-9]{10,}(?:\s|"|$)': ("AKC", 1),
    r'(?:\s|=|:|"|^)AP[\dABCDEF][a-zA-Z0-9]{8,}(?:\s|"|$)': ("AP", 1),
    r"[0-9a-z]{32}-us[0-9]{1,2}": ("-us", 32),
    r"eyJ[A-Za-z0-9-_=]+\.[A-Za-z0-9-_=]+\.?[A-Za-z0-9-_.+/=]*?": ("eyJ", 0),
    r"xox(?:a|b|p|o|s|r)-(?:\d+-)+[a-z0-9]+": ("xox", 0),
    r"(?:r|s)k_live_[0-9a-zA-Z]{24}": ("k_live_", 1),
    r"AC[a-z0-9]{32}": ("AC", 0),
    r"SK[a-z0-9]{32}": ("SK", 0),
    r"https://hooks\.slack\.com/services/T[a-zA-Z0-9_]+/B[a-zA-Z0-9_]+/[a-zA-Z0-9_]+": (
        *("https://hooks.slack.com", 0),
    ),
    r"aws.{0,20}?(?:key|pwd|pw|password|pass|token).{0,20}?['\"]([0-9a-zA-Z/+]{40})['\"]": (
        *("aws", 0),
    ),
}

# Names that announce a secret. `PWD` is the working directory, and a path no password.
_WORDS = "|".join(word for word in DENYLIST if word != "pwd")
_NAME = (
    rf"(?:{_WORDS}|passphrase|access_?key(?!_?id)|api-key|access-token|_authToken"
    r"|pwd(?=[\w-]{0,40}[\"']?\s{0,9}[:=]\s{0,9}[\"']?[^/\s\"'])"
    r"|(?<![A-Za-z])(?:token|pat|auth|credentials?)(?![A-Za-z])|(?<=[a-z])Token(?![a-z]))"
)
_SETS = r"(?:\\?[\"'])?\]?[ \t]{0,9}(?::=|=>|==?|:)[ \t]{0,9}"
_QUOTED = r"\\?(?P<quote>[\"'])(?P<quoted>(?:[^\"'\n\\]|\\(?![\"'])){4,4096})(?=\\?(?P=quote))"
_BARE = r"(?P<bare>(?:\\(?![\"'nt])|[^\s\"'`\\]){4,4096})"
_NAMED = rf"{_NAME}[\w-]{{0,40}}(?:{_SETS}|(?<=\w)[ \t]+(?=\S))(?:{_QUOTED}|{_BARE})"
_OPTION = re.compile(r"--[\w-]{0,40}\Z")
_NAMES = (
    *(word.replace("_?", line) for word in DENYLIST for line in ("", "_")),
    *("passphrase", "access_key", "accesskey", "api-key", "access-token", "_authtoken", "token"),
    *("pat", "auth", "credential"),
)

_HEADER = (
    r"\b(?:(?:proxy-)?authorization|x-[\w-]{0,20}(?:key|token)|private-token|job-token)"
    r"\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?(?:(?:basic|bearer|token|digest|negotiate)\s+)?"
    r"(?P<bare>[^\s\"'\\]{4,})"
)
_TOKEN_HEADERS = ("x-", "private-token", "job-token")
_COOKIE = r"\b(?:set-)?cookie\\?[\"']?\s?:\s?\\?[\"']?(?P<bare>[^\n\"'\\]{4,})"
_SCHEME = r"\b(?:bearer|basic)[ \t]+(?P<bare>[\w+/=.~-]{8,4096})"
_LOGIN = r"\blogin\s+\S{1,200}\s+(?:account\s+\S{1,200}\s+)?password\s+(?P<bare>\S{1,4096})"
_USER_OPTION = r"(?<!\S)(?:-u|--user|--proxy-user)[ =]?[\"']?(?P<bare>[^\s:\"'/=]{1,200}:[^\s\"']+)"
_QUERY = (
    r"[?&][\w.-]{0,40}(?:sig|signature|credential|token|key|auth|password|secret)="
    r"(?P<bare>[^&\s\"'<>]{8,4096})"
)

# Before the library's pattern of a JSON web token: else its cost is the square of a line's length.
_BEFORE_JWT = r"(?<![\w-])(?=[\w=-]{3,4096}\.)"

_VERSION = re.compile(r"v?\d+(?:\.\w+)*[,;)]?")
_PLAIN_WORDS = frozenset({"true", "false", "none", "null", "disabled", "enabled", "required"})
_SHORT = 8  # characters: a shorter value of a weak name (`token: int`) is none
# Code that compilers and tracebacks show: `token_index = blockIdx.x`, `token: torch.Tensor`.
_CODE = re.compile(r"[A-Za-z_]+(?:(?:\.|->|::)[A-Za-z_]+)*|.*(?:[(\[{<*]|&&|\|\|).*")
_WEAK_NAME = re.compile(r"token|pat|auth|credential", re.IGNORECASE)
_PIP_FILE = "filename="  # `Created wheel for google-auth: filename=…`


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of secrets.

    Attributes:
        pattern: matches it; a group `bare` or `quoted` holds the secret, else all of it is one.
        is_token: it is recognised without its surroundings, so a line break may divide it.
        begins: literals, in small letters where case doesn't matter; each match begins `before`
            characters before one of them. Searching for literals is fast. Empty: unknown.
    """

    kind: str
    pattern: re.Pattern[str]
    is_secret: Callable[[re.Match[str]], bool] = bool
    is_token: bool = False
    begins: tuple[str, ...] = ()
    before: int = 0

    def spans(self, text: str, lowered: str) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each secret in a text, which is also passed in small letters."""
        for match in self._matches(text, lowered) if self.begins else self.pattern.finditer(text):
            if self.is_secret(match):
                groups = match.groupdict()
                group = next((name for name in ("bare", "quoted") if groups.get(name)), 0)
                yield match.span(group)

    def _matches(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        searched = lowered if self.pattern.flags & re.IGNORECASE else text
        places = sorted(at for literal in self.begins for at in places_of(literal, searched))
        last = 0
        for at in places:
            begin = max(0, at - self.before)
            if begin >= last and (match := self.pattern.match(text, begin)):
                yield match
                last = match.end()


def lowered(text: str) -> str:
    """Return a text in small letters, each where it was."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(sign.lower() if sign.isascii() else sign for sign in text)


def places_of(literal: str, text: str) -> Iterator[int]:
    """Yield the positions of a literal in a text, overlapping ones too."""
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1)


@functools.cache
def secret_forms() -> tuple[Form, ...]:
    """Return all forms, those of detect-secrets first."""
    return (*_of_library(), *_of_names())


def _of_library() -> Iterator[Form]:
    plugins: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    for kind, plugin in plugins.items():
        if not issubclass(plugin, RegexBasedDetector) or issubclass(plugin, _LEFT_OUT):
            continue
        is_jwt = plugin is JwtTokenDetector
        for pattern in plugin.denylist:
            literal, before = _BEGINS.get(pattern.pattern, ("", 0))
            yield Form(
                kind=kind,
                pattern=re.compile(f"{_BEFORE_JWT}{pattern.pattern}") if is_jwt else pattern,
                is_secret=_is_token_of_web if is_jwt else bool,
                is_token=True,
                begins=(literal,) if literal else (),
                before=before,
            )
    for written, (kind, begin) in _YOUNGER.items():
        yield Form(kind=kind, pattern=re.compile(written), is_token=True, begins=(begin,))


def _of_names() -> Iterator[Form]:
    for written in (_KEY, _CUT_KEY):
        yield Form(kind=PrivateKeyDetector.secret_type, pattern=re.compile(written))
    named = "Secret Keyword"
    sets = (
        (named, _NAMED, _is_value, _NAMES),
        ("Authorization", _HEADER, bool, ("proxy-auth", "authorization", *_TOKEN_HEADERS)),
        ("Cookie", _COOKIE, bool, ("set-cookie", "cookie")),
        ("Authorization", _SCHEME, _is_credential, ("bearer", "basic")),
        (named, _LOGIN, bool, ("login",)),
        (named, _USER_OPTION, _is_user, ("-u", "--user", "--proxy-user")),
        (named, _QUERY, bool, ("?", "&")),
    )
    for kind, written, is_secret, begins in sets:
        pattern = re.compile(written, re.IGNORECASE)
        yield Form(kind=kind, pattern=pattern, is_secret=is_secret, begins=begins)


def _is_token_of_web(match: re.Match[str]) -> bool:
    return JwtTokenDetector.is_formally_valid(match[0])


def _is_value(match: re.Match[str]) -> bool:
    """Return True if the value after a name is a secret: no version, number or `false`."""
    value = match["quoted"] or match["bare"]
    between = match[0][: match.start("quoted" if match["quoted"] else "bare") - match.start()]
    before = match.string[max(0, match.start() - 42) : match.start()]
    is_option = bool(_OPTION.search(before))
    is_set = between.rstrip("\"'\\").rstrip(" \t").endswith(("=", ":", ">"))
    if not (is_set or is_option):  # only after an option a space sets a value
        return False
    if is_plain(value) or value.startswith(_PIP_FILE):
        return False
    if not _WEAK_NAME.match(match[0]):
        return True
    is_variable = match[0][0].isupper() and between.endswith("=")  # `HF_TOKEN=x` of a shell
    is_code = bool(match["bare"]) and _CODE.fullmatch(value.rstrip(",;:)]}>"))
    return len(value) >= _SHORT and (is_option or is_variable or not is_code)


def is_plain(value: str) -> bool:
    """Return True if a value is a version, a number, or a word such as `disabled`."""
    return bool(_VERSION.fullmatch(value)) or value.lower().rstrip(",;)") in _PLAIN_WORDS


def _is_credential(match: re.Match[str]) -> bool:
    """Return True if the word after `Basic` or `Bearer` is one: `basic authentication` isn't."""
    value = match["bare"]
    if match[0][:1] in "bB" and match[0][1:2] in "eE":
        return any(sign.isdigit() for sign in value)
    try:
        return b":" in base64.b64decode(value, validate=True)
    except binascii.Error:
        return False


def _is_user(match: re.Match[str]) -> bool:
    """Return True if `-u` has a user and a password: `-u 1000:1000` has two numbers."""
    return not re.fullmatch(r"\d+:\d+", match["bare"])
