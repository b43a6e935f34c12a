"""Locks of Debian packages: solved by the real apt, from signed archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import CuwheelError, DownloadError, LockError
from cuwheel.build.toolchains.debian import solve as solving
from cuwheel.build.toolchains.debian.archives import ARCHIVES_VARIABLE, DebianArchive
from cuwheel.build.toolchains.debian.install import unpack_packages
from cuwheel.build.toolchains.debian.lock_file import DebianLock, render_debian_lock
from cuwheel.build.toolchains.debian.solve import solve
from cuwheel.build.toolchains.debian.source_file import read_source
from tests.support.factories import make_workspace
from tests.support.requirements import require
from tests.support.servers.certificates import write_certificates
from tests.support.servers.http import Site, serving
from tests.support.toolchains.debian_archive import (
    SUITE,
    Toy,
    link,
    signing_key,
    write_archive,
)

TOYS = (
    Toy(version="2:1.0~rc1-1+b1", control="Depends: toy-data (>= 1)\nRecommends: toy-doc\n"),
    Toy(version="2:1.0~rc1-1+b1", architecture="arm64", control="Depends: toy-data\n"),
    Toy(name="toy-data", architecture="all", members=(link("./usr/share/data", "toy"),)),
    Toy(name="toy-doc", architecture="all"),
    Toy(name="toy++", control="Depends: nosuch\n"),
)


@pytest.fixture(scope="module", autouse=True)
def _apt() -> None:
    require("apt", "the locks of Debian packages, which apt solves")


@pytest.fixture(scope="module")
def key() -> Iterator[Path]:
    with signing_key() as folder:
        yield folder


@pytest.fixture(scope="module")
def archive(key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("an archive")
    write_archive(folder, TOYS, key)
    return folder


def archive_of(address: str, key: Path) -> DebianArchive:
    return DebianArchive(address=address, keyring=key / "debian-archive-toy.gpg")


def lock(
    folder: Path,
    *archives: DebianArchive,
    packages: str = "toy",
    machines: str = "amd64",
    more: str = "",
) -> DebianLock:
    path = folder / "gcc1" / "debian.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f"suite: {SUITE}\ncomponents: [main]\narchitectures: [{machines}]\n"
        f"packages: [{packages}]\n{more}"
    )
    return solve(read_source(path), archives, make_workspace(folder))


def names(lock: DebianLock, architecture: str = "amd64") -> list[str]:
    return [f"{each.name} {each.version}" for each in lock.packages[architecture]]


@pytest.fixture
def site(archive: Path) -> Iterator[Site]:
    files = {
        f"/debian/{path.relative_to(archive)}": path.read_bytes()
        for path in archive.rglob("*")
        if path.is_file()
    }
    with serving(Site(files=files)) as served:
        yield served


def test_locks_packages_with_what_they_depend_on(tmp_path: Path, site: Site, key: Path) -> None:
    solved = lock(tmp_path, archive_of(site.url("/debian"), key), machines="arm64, amd64")

    assert names(solved, "amd64") == names(solved, "arm64")
    assert names(solved) == ["toy 2:1.0~rc1-1+b1", "toy-data 1.0"]
    [toy, data] = solved.packages["arm64"]
    assert (toy.architecture, data.architecture) == ("arm64", "all")
    assert toy.path == "pool/main/t/toy/toy_1.0~rc1-1+b1_arm64.deb"
    assert solved.index_date == "Sat, 01 Aug 2026 10:00:00 UTC"


def test_lock_of_the_same_index_is_the_same(
    tmp_path: Path, site: Site, archive: Path, key: Path
) -> None:
    texts = {
        render_debian_lock(lock(tmp_path, archive_of(address, key)), "a test")
        for address in (site.url("/debian"), site.url("/debian"), archive.as_uri())
    }

    assert len(texts) == 1


def test_locks_single_packages(tmp_path: Path, archive: Path, key: Path) -> None:
    solved = lock(
        *(tmp_path, archive_of(archive.as_uri(), key)),
        packages="toy++, toy=2:1.0~rc1-1+b1",
        more="dependencies: false\n",
    )

    assert names(solved) == ["toy 2:1.0~rc1-1+b1", "toy++ 1.0"]


def test_locked_packages_are_those_of_the_archive(
    tmp_path: Path, site: Site, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ARCHIVES_VARIABLE, site.url("/debian"))
    solved = lock(tmp_path, archive_of(site.url("/debian"), key))
    root = tmp_path / "root"
    root.mkdir()

    workspace = make_workspace(tmp_path)
    unpack_packages(solved, root, workspace, machine="x86_64", offline=False, title="the toys")

    assert (root / "usr/share/data").read_bytes() == b"toy\n"


def test_next_archive_counts_where_one_lacks_the_suite(
    tmp_path: Path, site: Site, archive: Path, key: Path
) -> None:
    other, here = archive_of(site.url("/other"), key), archive_of(archive.as_uri(), key)

    assert names(lock(tmp_path, other, here)) == names(lock(tmp_path, here))


def test_reads_archive_through_a_proxy(
    tmp_path: Path, site: Site, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://nosuch.invalid/debian"
    site.files = {
        path.replace("/debian", address, 1): content for path, content in site.files.items()
    }
    monkeypatch.setenv("HTTP_PROXY", site.url(""))

    assert "toy-data 1.0" in names(lock(tmp_path, archive_of(address, key)))


def test_reads_archive_with_own_authority(
    tmp_path: Path, site: Site, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, certificate = write_certificates(tmp_path, "sound")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with serving(Site(files=site.files), certificate=certificate) as secure:
        assert "toy-data 1.0" in names(lock(tmp_path, archive_of(secure.url("/debian"), key)))


@pytest.mark.parametrize(
    ("packages", "fact"),
    [
        ("nosuch", "Package 'nosuch' has no installation candidate"),
        ("t.y", "Unable to locate package t.y"),
        ("toy++", "toy++ : Depends: nosuch but it is not installable"),
        ("toy=3.0", "Version '3.0' for 'toy' was not found"),
    ],
)
def test_names_what_the_suite_lacks(
    tmp_path: Path, archive: Path, key: Path, packages: str, fact: str
) -> None:
    with pytest.raises(
        LockError, match=r"gcc1/debian\.yml could not be solved for amd64"
    ) as caught:
        lock(tmp_path, archive_of(archive.as_uri(), key), packages=packages)

    assert fact in caught.value.why


def test_refuses_suite_that_is_not_signed(tmp_path: Path, key: Path) -> None:
    write_archive(tmp_path / "archive", TOYS, None)

    with pytest.raises(LockError, match="is not trusted") as caught:
        lock(tmp_path, archive_of((tmp_path / "archive").as_uri(), key))

    assert "is not signed" in caught.value.why


def test_refuses_unknown_key(tmp_path: Path, site: Site) -> None:
    with signing_key() as other, pytest.raises(LockError, match="is not trusted") as caught:
        lock(tmp_path, archive_of(site.url("/debian"), other))

    assert "debian-archive-toy.gpg" in caught.value.why


def test_refuses_index_that_was_changed(tmp_path: Path, site: Site, key: Path) -> None:
    name = f"/debian/dists/{SUITE}/InRelease"
    site.files[name] = site.files[name].replace(b"Origin: Toy", b"Origin: Toys")

    with pytest.raises(LockError, match="is not trusted"):
        lock(tmp_path, archive_of(site.url("/debian"), key))


def test_refuses_packages_that_the_index_does_not_name(
    tmp_path: Path, site: Site, key: Path
) -> None:
    name = f"/debian/dists/{SUITE}/main/binary-amd64/Packages"
    site.files[name] = site.files[name].replace(b"toy-data", b"toy-evil")

    with pytest.raises(DownloadError, match=f"the index of Debian {SUITE} can't be read") as caught:
        lock(tmp_path, archive_of(site.url("/debian"), key))

    assert "Hash Sum mismatch" in caught.value.why


def test_refuses_another_release_under_the_name(tmp_path: Path, key: Path) -> None:
    write_archive(tmp_path / "archive", TOYS, key, codename="othersuite")

    with pytest.raises(LockError, match=f"has another release as {SUITE}") as caught:
        lock(tmp_path, archive_of((tmp_path / "archive").as_uri(), key))

    assert "othersuite" in caught.value.why


_UNREADABLE = {
    "no server": "http://127.0.0.1:9/debian",
    "no folder": "file:///nosuch/debian",
    "password": "http://me:secret@127.0.0.1:9/debian",
}


@pytest.mark.e2e  # apt waits for tries
@pytest.mark.parametrize("kind", _UNREADABLE)
def test_names_archive_that_can_not_be_read(tmp_path: Path, key: Path, kind: str) -> None:
    with pytest.raises(DownloadError) as caught:
        lock(tmp_path, archive_of(_UNREADABLE[kind], key))

    assert f"the index of Debian {SUITE} can't be read" in caught.value.what
    assert ARCHIVES_VARIABLE in caught.value.fix
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 403, 503])
def test_answer_of_a_server_is_no_missing_signature(tmp_path: Path, key: Path, status: int) -> None:
    with serving(Site(statuses=[status] * 99)) as site, pytest.raises(DownloadError) as caught:
        lock(tmp_path, archive_of(site.url("/debian"), key))

    assert str(status) in caught.value.why


def test_page_of_a_portal_is_no_missing_signature(tmp_path: Path, site: Site, key: Path) -> None:
    site.files[f"/debian/dists/{SUITE}/InRelease"] = b"<html>sign in</html>"

    with pytest.raises(DownloadError) as caught:
        lock(tmp_path, archive_of(site.url("/debian"), key))

    assert "Clearsigned file isn't valid" in caught.value.why


def test_names_machine_without_archives(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="can't be read") as caught:
        lock(tmp_path)

    assert "no Debian archive is in this machine's apt configuration" in caught.value.why


def test_names_machine_without_keyring(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(LockError) as caught:
        lock(tmp_path, archive_of(archive.as_uri(), tmp_path))

    assert caught.value.fix == "apt-get install debian-archive-keyring"


def test_names_machine_without_apt(
    tmp_path: Path, archive: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solving, "SYSTEM_PATH", str(tmp_path))

    with pytest.raises(LockError, match="can't be solved on this machine") as caught:
        lock(tmp_path, archive_of(archive.as_uri(), key))

    assert "`nox -s lock -- host-compiler:gcc1`" in caught.value.fix


def test_settings_of_the_machine_do_not_count(
    tmp_path: Path, archive: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hooks would run programs, and it may let unsigned packages in."""
    ran = tmp_path / "ran"
    settings = tmp_path / "apt.conf"
    settings.write_text(
        f'APT::Update::Pre-Invoke {{ "touch {ran}"; }};\nAPT::Install-Recommends "true";\n'
        'Acquire::AllowInsecureRepositories "true";\nAPT::Get::AllowUnauthenticated "true";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(settings))
    write_archive(tmp_path / "archive", TOYS, None)

    solved = lock(tmp_path, archive_of(archive.as_uri(), key))
    with pytest.raises(CuwheelError, match="is not trusted"):
        lock(tmp_path, archive_of((tmp_path / "archive").as_uri(), key))

    assert "toy-doc 1.0" not in names(solved)
    assert not ran.exists()
