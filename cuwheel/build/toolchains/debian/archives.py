"""Addresses of Debian archives: `CUWHEEL_DEBIAN_MIRROR`, else what this machine's apt uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import checked_mirror, is_local, redact_url, split_url
from cuwheel.base.fetch.web import read_head
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.toolchains.debian.lock_file import DebianPackage

ARCHIVES_VARIABLE = "CUWHEEL_DEBIAN_MIRROR"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SETTING_FIX = (
    f"set or correct {ARCHIVES_VARIABLE}, the address of a Debian archive: of the folder with "
    "`dists` and `pool`, https://HOST/debian or file:///FOLDER, several separated by spaces"
)

_APT = Path("/etc/apt")  # sources.list(5)
_ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)")
_FIELD = re.compile(r"^([\w-]+):[ \t]*(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_SECURITY = "-security"
_SCHEMES = ("http", "https", "file")


@dataclass(frozen=True, kw_only=True)
class DebianArchive:
    """A Debian archive.

    Attributes:
        address: http, https or file, without slash at its end.
        keyring: of the keys that may sign its indexes.
    """

    address: str
    keyring: Path = KEYRING


def configured_archives(environ: Mapping[str, str], apt: Path = _APT) -> tuple[DebianArchive, ...]:
    """Return the archives of the variable, else of this machine's apt, in their order.

    Args:
        apt: the folder of apt's configuration.

    Raises:
        UsageError: the variable is malformed, or names a folder that doesn't exist.
    """
    if named := environ.get(ARCHIVES_VARIABLE, "").split():
        addresses = (checked_mirror(address, ARCHIVES_VARIABLE) for address in named)
        return tuple(DebianArchive(address=address) for address in addresses)
    return tuple(dict.fromkeys(_configured(apt)))


def find_url(
    package: DebianPackage,
    archives: Sequence[DebianArchive],
    *,
    offline: bool = False,
) -> str:
    """Return the address of a package's file in the first archive that has it.

    Args:
        offline: look into archives of this machine's file system only.

    Raises:
        DownloadError: none has it, or one can't be reached.
    """
    url = address_of(package, archives, offline=offline)
    if url is None:
        raise missing_error((package,), archives)
    return url


def address_of(
    package: DebianPackage,
    archives: Sequence[DebianArchive],
    *,
    offline: bool,
    most: int | None = None,
) -> str | None:
    """Return the address that `find_url` finds; None if no archive has the file.

    Args:
        most: attempts at each archive; None: as many as for a download.
    """
    for archive in archives:
        url = f"{archive.address}/{quote(package.path)}"
        if offline and not is_local(url):
            continue
        if read_head(url, Attempts(most=most), fix=SETTING_FIX).is_there:
            return url
    return None


def missing_error(
    packages: Sequence[DebianPackage], archives: Sequence[DebianArchive]
) -> DownloadError:
    """Return the error for packages that no archive has."""
    names = ", ".join(package.file_name for package in packages)
    if not archives:
        return DownloadError(
            f"{names} could not be downloaded: no Debian archive is known",
            why=f"{ARCHIVES_VARIABLE} isn't set, and apt of this machine has no Debian archive",
            fix=SETTING_FIX,
        )
    addresses = ", ".join(redact_url(archive.address) for archive in archives)
    return DownloadError(
        f"{names}: not in the Debian archive any more",
        why=f"{addresses} has no {packages[0].path}: a point release replaces files of a suite, "
        "and old suites move to another archive",
        fix="use a mirror that was written while the archive had it (CUWHEEL_MIRROR, "
        f"docs/how-to/offline.md); or set {ARCHIVES_VARIABLE} to the address that a snapshot "
        "service has for the date in the lock's `index`; or write the lock again with "
        "`nox -s lock`",
    )


def _configured(apt: Path) -> Iterator[DebianArchive]:
    """Yield Debian's archives in apt's files, in apt's order."""
    parts = apt / "sources.list.d"
    files = [apt / "sources.list", *sorted((*parts.glob("*.list"), *parts.glob("*.sources")))]
    for file in files:
        try:
            text = read_text(file, errors="replace")
        except OSError:  # none, or only root may read it, as it has a password
            continue
        entries = _deb822 if file.suffix == ".sources" else _one_line
        for uri, suites, signers in entries(text):
            address = uri.rstrip("/")
            if _is_debian(address, suites, signers):
                keyring = Path(signers) if Path(signers).is_absolute() else KEYRING
                yield DebianArchive(address=address, keyring=keyring)


def _one_line(text: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield address, suites and keyring of each entry of a `.list` file."""
    for line in text.splitlines():
        if match := _ONE_LINE.match(line.strip()):
            signers = re.search(r"signed-by=(\S+)", match["options"] or "", re.IGNORECASE)
            yield match["uri"], [match["suite"]], signers[1] if signers else ""


def _deb822(text: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield address, suites and keyring of each entry of a `.sources` file."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        fields = {name.lower(): value.strip() for name, value in _FIELD.findall(paragraph)}
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes") != "no":
            for uri in fields.get("uris", "").split():
                yield uri, fields.get("suites", "").split(), fields.get("signed-by", "")


def _is_debian(address: str, suites: list[str], signers: str) -> bool:
    """Return True for Debian's own archive: other projects use its form and its suites' names.

    It is signed by a keyring of Debian's; where the entry names none, its folder has Debian's name.
    """
    parts = split_url(address)
    folder = parts.path.rpartition("/")[2]
    if parts.scheme not in _SCHEMES or folder.endswith(_SECURITY):
        return False
    if all(_SECURITY in suite or "/" in suite for suite in suites):
        return False
    if signers:
        return Path(signers).name.startswith("debian-archive")
    return folder == "debian"
