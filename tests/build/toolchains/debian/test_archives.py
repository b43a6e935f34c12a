from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.build.toolchains.debian.archives import (
    ARCHIVES_VARIABLE,
    KEYRING,
    configured_archives,
    find_url,
)
from tests.support.servers.http import Site, serving
from tests.support.toolchains.debian_archive import Toy, locked, write_pool

PACKAGE = locked(Toy(name="libtoy++", version="1.0~rc1+b1"), b"x")


def configured(apt: Path, files: dict[str, str]) -> list[str]:
    """Write apt's files, and return the addresses that are taken."""
    for name, text in files.items():
        (apt / name).parent.mkdir(parents=True, exist_ok=True)
        (apt / name).write_text(text)
    return [archive.address for archive in configured_archives({}, apt)]


_ENTRIES = {
    "one line": ("deb http://a.invalid/debian bookworm main", True),
    "slash": ("deb https://a.invalid/pub/debian/ sid main", True),
    "with options": ("deb [arch=amd64 trusted=yes] http://a.invalid/debian sid main", True),
    "own folder": ("deb file:///srv/debian bookworm main", True),
    "signed by Debian": (
        "deb [signed-by=/usr/share/debian-archive-keyring.pgp] http://a.invalid/x sid main",
        True,
    ),
    "signed by another": (
        "deb [signed-by=/usr/share/keyrings/docker.gpg] http://a.invalid/linux/debian sid stable",
        False,
    ),
    "comment": ("# deb http://a.invalid/debian bookworm main", False),
    "sources": ("deb-src http://a.invalid/debian bookworm main", False),
    "security": ("deb http://a.invalid/debian-security bookworm-security main", False),
    "security's suite": ("deb http://a.invalid/debian bookworm-security main", False),
    "another distribution": ("deb http://a.invalid/ubuntu noble main", False),
    "disc": ("deb cdrom:[Debian]/debian bookworm main", False),
    "mirror list": ("deb mirror+file:/etc/apt/mirrors/debian.list bookworm main", False),
}


@pytest.mark.parametrize("kind", _ENTRIES)
def test_takes_entries_for_debian(tmp_path: Path, kind: str) -> None:
    line, is_taken = _ENTRIES[kind]

    addresses = configured(tmp_path, {"sources.list": f"{line}\n"})

    assert bool(addresses) == is_taken
    assert not any(address.endswith("/") for address in addresses)


_SOURCES = """\
# the archive
Types: deb deb-src
# near
URIs: http://near.invalid/debian http://far.invalid/debian/
Suites: bookworm bookworm-updates
Components: main
Signed-By: /srv/debian-archive-own.gpg

Types: deb
URIs: http://off.invalid/debian
Suites: bookworm
Enabled: no

Types: deb
URIs: http://embedded.invalid/debian
Suites: bookworm
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://sec.invalid/debian-security
Suites: bookworm-security
"""


def test_reads_both_forms_in_order(tmp_path: Path) -> None:
    addresses = configured(
        tmp_path,
        {
            "sources.list.d/b.sources": _SOURCES,
            "sources.list.d/a.list": "deb http://near.invalid/debian sid main\n",
            "sources.list.d/c.list.save": "deb http://saved.invalid/debian sid main\n",
            "sources.list": "deb http://first.invalid/debian sid main\n",
        },
    )
    archives = configured_archives({}, tmp_path)

    assert addresses == [
        f"http://{host}.invalid/debian" for host in ("first", "near", "near", "far")
    ]
    assert [str(archive.keyring) for archive in archives] == [
        *(str(KEYRING), str(KEYRING)),
        *("/srv/debian-archive-own.gpg", "/srv/debian-archive-own.gpg"),
    ]


def test_variable_counts_instead_of_apt(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://first.invalid/debian sid main\n")
    value = f"https://a.invalid/debian/  {tmp_path.as_uri()}"

    archives = configured_archives({ARCHIVES_VARIABLE: value}, tmp_path)

    addresses = [archive.address for archive in archives]
    assert addresses == ["https://a.invalid/debian", tmp_path.as_uri()]


@pytest.mark.parametrize("value", ["a.invalid/debian", "ftp://a.invalid/debian", "file:///nosuch"])
def test_refuses_what_is_no_address(value: str) -> None:
    with pytest.raises(UsageError, match=ARCHIVES_VARIABLE):
        configured_archives({ARCHIVES_VARIABLE: value})


def test_first_archive_that_has_the_file_counts(tmp_path: Path) -> None:
    write_pool(tmp_path, Toy(name="libtoy++", version="1.0~rc1+b1"))
    with serving(Site()) as empty:
        value = f"{empty.url('')} {tmp_path.as_uri()}"

        archives = configured_archives({ARCHIVES_VARIABLE: value})
        url = find_url(PACKAGE, archives)

    assert url == f"{tmp_path.as_uri()}/pool/main/t/toy/libtoy%2B%2B_1.0~rc1%2Bb1_amd64.deb"
    assert len(empty.asked) == 1


def test_reports_file_that_no_archive_has_any_more(tmp_path: Path) -> None:
    with serving(Site()) as empty:
        address = empty.url("/debian", "me:secret@")
        archives = configured_archives({ARCHIVES_VARIABLE: f"{address} {tmp_path.as_uri()}"})
        with pytest.raises(DownloadError) as caught:
            find_url(PACKAGE, archives)

    assert "any more" in caught.value.what
    assert f"{tmp_path.as_uri()} has no {PACKAGE.path}: a point release" in caught.value.why
    assert "secret" not in str(caught.value)
    ways = ("CUWHEEL_MIRROR", "snapshot service", ARCHIVES_VARIABLE, "nox -s lock")
    assert [way for way in ways if way not in caught.value.fix] == []


def test_offline_looks_only_into_folders(tmp_path: Path) -> None:
    write_pool(tmp_path, Toy(name="libtoy++", version="1.0~rc1+b1"))
    with serving(Site()) as site:
        value = f"{site.url('')} {tmp_path.as_uri()}"

        url = find_url(PACKAGE, configured_archives({ARCHIVES_VARIABLE: value}), offline=True)

    assert url.startswith("file://")
    assert site.asked == []


def test_reports_machine_without_archive(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="no Debian archive is known") as caught:
        find_url(PACKAGE, configured_archives({}, tmp_path))

    assert ARCHIVES_VARIABLE in caught.value.fix
