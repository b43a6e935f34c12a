"""The solver of Debian locks: apt itself, in a root of its own.

Nothing of this machine counts but its Debian keyring and its access to the network: no packages are
installed there, and apt's other settings, pins and hooks aren't read. apt checks the signature of
the suite's index, and the index holds the hashes of all packages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cuwheel.base.errors import DownloadError, LockError
from cuwheel.base.fetch.retry import slow_factor
from cuwheel.base.fetch.urls import redact_text, redact_url
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import Finished, inherited, run, which
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.toolchains.debian.archives import SETTING_FIX, DebianArchive
from cuwheel.build.toolchains.debian.lock_file import DebianLock, DebianPackage
from cuwheel.build.toolchains.debian.source_file import DebianSource
from cuwheel.build.workspace.workspace import Workspace

_LIMIT = 900.0  # seconds for the indexes of one suite, about 20 MB for each architecture
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_NETWORK = re.compile(r"Acquire::https?::[\w:-]+ \".+\";")  # in apt's settings
# apt calls an index that it couldn't download "not signed" too.
_UNSIGNED = re.compile(
    "GPG error|OpenPGP signature|^(?!.*Failed to fetch).*is not signed", re.DOTALL
)
_FILE = re.compile(r"'(?P<uri>[^']+)' (?P<name>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")
_FIELD = re.compile(r"^(Suite|Codename|Date): (.+)$", re.MULTILINE)  # of the index
_PROBLEM = re.compile(r"(?:[EW]:)?\s+(.+)")  # indented: which dependency, which part of an index
_FOLDERS = (
    *("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"),
    *("etc/sources.list.d", "etc/trusted.gpg.d"),
)
_SETTINGS = """\
Dir::State "{root}";
Dir::State::Lists "{root}/lists";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Etc "{root}/etc";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
APT::Architectures "{architectures}";
APT::Install-Recommends "false";
APT::Get::AllowUnauthenticated "false";
APT::Update::Error-Mode "any";
APT::Cmd::Pattern-Only "true";
APT::Sandbox::User "root";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "3";
"""
_SOURCES = """\
Types: deb
URIs: {address}
Suites: {suite}
Components: {components}
Architectures: {architectures}
Signed-By: {keyring}
"""


def solve(
    source: DebianSource, archives: Sequence[DebianArchive], workspace: Workspace
) -> DebianLock:
    """Choose the packages of a `debian.yml` with apt, for each of its architectures.

    The archives are tried in their order; the first whose index can be read counts.

    Raises:
        LockError: this machine has no apt or no keyring, the suite isn't signed by a known key, an
            archive has another suite under its name, or nothing satisfies the input.
        DownloadError: no archive can be read.
    """
    name = f"{source.path.parent.name}/{source.path.name}"
    if which("apt-get", SYSTEM_PATH) is None:
        raise LockError(
            f"{name} can't be solved on this machine",
            why=f"apt-get isn't on {SYSTEM_PATH}, and a Debian lock is made by apt's own solver",
            fix=f"run `{source.command}` on Debian or Ubuntu, or in a container of these; "
            "installing from the lock needs no apt",
        )
    problems: list[str] = []
    for archive in archives:
        try:
            with workspace.console.live(f"solving with apt, {source.suite}"):
                return _solve_from(archive, source, name)
        except DownloadError as problem:  # noqa: PERF203 - each is reported
            problems.append(f"{redact_url(archive.address)}: {problem.why}")
    raise DownloadError(
        f"the index of Debian {source.suite} can't be read",
        why="\n".join(problems) or "no Debian archive is in this machine's apt configuration",
        fix=SETTING_FIX,
    )


def _solve_from(archive: DebianArchive, source: DebianSource, name: str) -> DebianLock:
    if not archive.keyring.is_file():
        raise LockError(
            f"{name} can't be solved on this machine",
            why=f"{archive.keyring}, with the keys that sign Debian's suites, is missing",
            fix="apt-get install debian-archive-keyring",
        )
    with temporary_folder() as root:
        _write_root(root, archive, source)
        _update(root, archive, source, name)
        index, fields = _read_index(root)
        if source.suite not in {fields.get("Suite"), fields.get("Codename")}:
            raise LockError(
                f"{redact_url(archive.address)} has another release as {source.suite}",
                why=f"its signed index is that of {fields.get('Codename')}",
                fix=SETTING_FIX,
            )
        return DebianLock(
            suite=source.suite,
            components=source.components,
            input_digest=source.input_digest,
            index_sha256=sha256_of_file(index),
            index_date=fields["Date"],
            packages={
                architecture: _choose(root, archive, source, architecture, name)
                for architecture in source.architectures
            },
        )


def _write_root(root: Path, archive: DebianArchive, source: DebianSource) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True)
    (root / "status").touch()
    architectures = " ".join(source.architectures)
    settings = _SETTINGS.format(root=root, architectures=",".join(source.architectures))
    of_machine = run(["apt-config", "dump"], env={"PATH": SYSTEM_PATH}).output
    lines = [line for line in of_machine.splitlines() if _NETWORK.fullmatch(line)]
    if authorities := inherited("SSL_CERT_FILE").get("SSL_CERT_FILE"):
        lines.append(f'Acquire::https::CAInfo "{authorities}";')
    (root / "apt.conf").write_text("\n".join((settings, *lines, "")))
    (root / "etc" / "sources.list.d" / "archive.sources").write_text(
        _SOURCES.format(
            address=archive.address,
            suite=source.suite,
            components=" ".join(source.components),
            architectures=architectures,
            keyring=archive.keyring,
        )
    )


def _apt(root: Path, *arguments: str) -> Finished:
    env = {
        **{name.lower(): value for name, value in inherited(*_PROXIES).items()},
        "PATH": SYSTEM_PATH,
        "LC_ALL": "C",
        "HOME": str(root),
        "TMPDIR": str(root),
        "APT_CONFIG": str(root / "apt.conf"),
    }
    command = ["apt-get", "-q", *arguments]
    return run(command, env=env, check=False, timeout=_LIMIT * slow_factor())


def _update(root: Path, archive: DebianArchive, source: DebianSource, name: str) -> None:
    process = _apt(root, "update")
    if not process.status:
        return
    why = _problems_of(process)
    if _UNSIGNED.search(why):
        raise LockError(
            f"{name} can't be solved: {redact_url(archive.address)} is not trusted",
            why=f"the index of {source.suite} isn't signed by a key of {archive.keyring}:\n{why}",
            fix=f"{SETTING_FIX}; or, if the suite is newer than the keyring, `apt-get install "
            "debian-archive-keyring` brings its key",
        )
    raise DownloadError("", why=why)


def _problems_of(process: Finished) -> str:
    """Return apt's messages, or its whole output, without passwords."""
    lines = process.output.strip().splitlines()
    messages = [match[1] for line in lines if (match := _PROBLEM.fullmatch(line))]
    text = "\n".join(dict.fromkeys(messages or lines))
    return redact_text(text) or f"apt-get ended with status {process.status}"


def _read_index(root: Path) -> tuple[Path, dict[str, str]]:
    [index] = [*(root / "lists").glob("*_InRelease")] or [*(root / "lists").glob("*_Release")]
    return index, {key: value.strip() for key, value in _FIELD.findall(read_text(index))}


def _choose(
    root: Path, archive: DebianArchive, source: DebianSource, architecture: str, name: str
) -> tuple[DebianPackage, ...]:
    """Return apt's choice for an architecture, sorted by name."""
    verb = ("install", "--yes") if source.has_dependencies else ("download",)
    options = (
        "-o",
        f"APT::Architecture={architecture}",
        "-o",
        f"APT::Architectures={architecture}",
    )
    process = _apt(root, *options, "--print-uris", *verb, *source.packages)
    lines = [line for line in process.output.splitlines() if line.startswith("'")]
    packages = [_package(line, archive) for line in lines]
    chosen = {package.name for package in packages}
    missing = [text for text in source.packages if text.partition("=")[0] not in chosen]
    if process.status or missing:
        why = _problems_of(process) if process.status else f"apt chose none of {', '.join(missing)}"
        raise LockError(
            f"{name} could not be solved for {architecture}",
            why=why,
            fix=f"correct its packages and components: each package has to be in {source.suite}",
        )
    return tuple(sorted(packages, key=lambda package: package.name))


def _package(line: str, archive: DebianArchive) -> DebianPackage:
    """Return the package in a line of apt's: quoted address, `name_version_architecture.deb`."""
    match = _FILE.fullmatch(line)
    top = unquote(urlsplit(archive.address).path)
    path = unquote(urlsplit(match["uri"]).path) if match else ""
    if match is None or not path.startswith(f"{top}/"):
        raise LockError(
            "the answer of apt can't be used",
            why=f"it has no SHA-256 or another address: {redact_text(line)}",
            fix=SETTING_FIX,
        )
    name, version, architecture = match["name"].removesuffix(".deb").split("_")
    return DebianPackage(
        name=name,
        version=unquote(version),
        architecture=architecture,
        path=path.removeprefix(f"{top}/"),
        size=int(match["size"]),
        sha256=match["sha256"],
    )
