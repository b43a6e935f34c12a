"""Checks of a site on a real server: valid, and with one planted defect each."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base import limits
from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.publish.index.check.rules import RULES, CheckResult
from cuwheel.publish.index.check.snapshot import find_changes, read_snapshot
from cuwheel.publish.index.check.walk import CheckRequest, check_indexes
from cuwheel.publish.index.site import SiteRequest, write_site
from tests.build.wheelhouse.test_folder_index import served
from tests.support.packages.toy_wheel import add_wheel
from tests.support.publish.site_copies import SiteCopy, url_of
from tests.support.servers.http import Site, serving

REQUEST = CheckRequest(places=())


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    for version in ("1.0+cu130", "2.0+cu130"):
        add_wheel(folder / "dist", version, requires_python=">=3.8")
    write_site(
        SiteRequest(folders=(folder / "dist",), site=folder / "site", cache=folder / "cache")
    )
    return folder / "site"


@pytest.fixture
def copy(site: Path, tmp_path: Path) -> Iterator[SiteCopy]:
    copy = SiteCopy.of(site, tmp_path / "site")
    with served(copy.folder) as (address, _):
        copy.address = address
        yield copy


def check(*places: str, **options: object) -> CheckResult:
    request = replace(REQUEST, places=places, **options)  # type: ignore[arg-type]
    return check_indexes(request, Console())


def codes_of(result: CheckResult) -> list[str]:
    return sorted(result.counts.elements())


def _set(**fields: object) -> Callable[[SiteCopy], object]:
    """Change fields of the first entry."""
    return lambda copy: copy.entry.update(fields)


def _project_name(copy: SiteCopy) -> None:
    root = copy.folder / "simple" / "index.html"
    root.write_text(root.read_text().replace("toy/index.html", "Toy/index.html"))


def _file_name(copy: SiteCopy) -> None:
    old, metadata, name = copy.wheel, copy.metadata, "toy-1.0+cu130-py3-none.whl"
    copy.entry.update(filename=name, url=url_of(name))
    old.rename(copy.wheel)
    metadata.rename(copy.metadata)


def _weak_hash(copy: SiteCopy) -> None:
    content = copy.wheel.read_bytes()
    copy.entry["hashes"] = {"md5": hashlib.md5(content, usedforsecurity=False).hexdigest()}


def _hash(copy: SiteCopy) -> None:
    content = copy.wheel.read_bytes()
    copy.wheel.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _wheel_name(copy: SiteCopy) -> None:
    old = copy.metadata.read_bytes()
    row = f"sha256={_record_hash(old)}".encode()
    new = old.replace(b"Version: 1.0+cu130", b"Version: 1.0+cu131")
    edits = {
        "METADATA": lambda _: new,
        "RECORD": lambda text: text.replace(row, f"sha256={_record_hash(new)}".encode()),
    }
    copy.edit_wheel(edits)
    copy.replace_metadata(new)


def _record_hash(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# Defects by name: how each is planted, and the rule that finds it.
DEFECTS: dict[str, tuple[Callable[[SiteCopy], object], str]] = {
    "no page": (lambda copy: shutil.rmtree(copy.project), "page"),
    "size is text": (_set(size="many"), "entry"),
    "project name": (_project_name, "project-name"),
    "page of another": (lambda copy: copy.page.update(name="other"), "project-name"),
    "file name": (_file_name, "file-name"),
    "duplicate": (lambda copy: copy.page["files"].append(dict(copy.entry)), "duplicate"),
    "link": (lambda copy: copy.entry.update(url=f"ftp://host/{copy.wheel.name}"), "link"),
    "link to this machine": (lambda copy: copy.entry.update(url=copy.wheel.as_uri()), "link"),
    "no hash": (_set(hashes={}), "no-hash"),
    "weak hash": (_weak_hash, "no-hash"),
    "missing": (lambda copy: copy.wheel.unlink(), "missing"),
    "larger": (lambda copy: copy.entry.update(size=copy.entry["size"] - 1), "size"),
    "smaller": (lambda copy: copy.entry.update(size=copy.entry["size"] + 1), "size"),
    "hash": (_hash, "hash"),
    "archive": (lambda copy: copy.replace_wheel(b"no archive"), "archive"),
    "record": (lambda copy: copy.edit_wheel({"toy.py": lambda _: b"EVIL = True\n"}), "record"),
    "record lacks a file": (
        lambda copy: copy.edit_wheel({"RECORD": lambda text: text.partition(b"\n")[2]}),
        "record",
    ),
    "wheel name": (_wheel_name, "wheel-name"),
    "metadata missing": (lambda copy: copy.metadata.unlink(), "metadata-missing"),
    "metadata hash": (lambda copy: copy.metadata.write_bytes(b"Name: toy\n"), "metadata"),
    "metadata": (
        lambda copy: copy.replace_metadata(copy.metadata.read_bytes() + b"more\n"),
        "metadata",
    ),
    "requires python": (_set(**{"requires-python": ">=3.9"}), "requires-python"),
    "forms": (lambda copy: copy.html.update(yanked="crashes"), "forms"),
}


def test_every_rule_is_planted() -> None:
    elsewhere = {"insecure-link", "requirements", "unreachable", "unread", "changed", "vanished"}

    assert {code for _, code in DEFECTS.values()} | elsewhere == {rule.code for rule in RULES}


@pytest.mark.parametrize(("requires", "expected"), [("numpy", ["requirements"]), ("", [])])
def test_compares_requirements_of_a_release(
    requires: str, expected: list[str], copy: SiteCopy, tmp_path: Path
) -> None:
    other = add_wheel(tmp_path / "d", "1.0+cu130", requires_python=">=3.8", requires=requires)
    name = other.name.replace("-py3", "-1-py3")
    shutil.copy(other, copy.wheel.with_name(name))
    digest = hashlib.sha256(other.read_bytes()).hexdigest()
    entry = {key: value for key, value in copy.entry.items() if "metadata" not in key}
    entry |= {"filename": name, "url": url_of(name), "size": other.stat().st_size}
    copy.page["files"].append({**entry, "hashes": {"sha256": digest}})
    copy.write()

    assert codes_of(check(str(copy.folder))) == expected


def test_our_own_site_is_clean(copy: SiteCopy) -> None:
    result = check(f"{copy.address}/simple/", f"{copy.address}/cu130/simple")

    assert codes_of(result) == []
    assert (result.pages, result.files) == (2, 2)  # each file once
    assert result.downloaded == sum(entry["size"] for entry in copy.page["files"])


def test_rewritten_site_is_clean(copy: SiteCopy) -> None:
    copy.write()

    assert codes_of(check(str(copy.folder))) == []


@pytest.mark.parametrize("is_quick", [False, True])
def test_folder_is_clean(*, copy: SiteCopy, is_quick: bool) -> None:
    result = check(str(copy.folder), is_quick=is_quick)

    assert codes_of(result) == []
    assert result.downloaded == 0


@pytest.mark.parametrize("name", DEFECTS)
def test_finds_planted_defect(name: str, copy: SiteCopy) -> None:
    plant, code = DEFECTS[name]
    plant(copy)
    if copy.project.is_dir():
        copy.write()

    result = check(f"{copy.address}/simple/")

    assert codes_of(result) == [code]


@pytest.mark.parametrize(
    "name", ["missing", "record lacks a file", "wheel name", "metadata", "requires python"]
)
def test_quick_check_reads_parts(name: str, copy: SiteCopy) -> None:
    plant, code = DEFECTS[name]
    plant(copy)
    copy.write()
    files = {
        f"/{path.relative_to(copy.folder).as_posix()}": path.read_bytes()
        for path in copy.folder.rglob("*")
        if path.is_file()
    }
    pages = {name.removesuffix("index.html"): content for name, content in files.items()}
    with serving(Site(files={**files, **pages})) as server:
        result = check(server.url("/simple/"), is_quick=True)
        parts = [span for path, span in server.asked if path.endswith(".whl")]

    assert codes_of(result) == [code]
    assert any(parts)


def test_quick_check_compares_sizes(copy: SiteCopy) -> None:
    copy.entry["size"] += 1
    copy.write()

    assert codes_of(check(str(copy.folder), is_quick=True)) == ["size"]


def test_quick_check_needs_range_requests(copy: SiteCopy) -> None:
    result = check(f"{copy.address}/simple/", is_quick=True)  # of http.server, which has none

    assert codes_of(result) == ["unread", "unread"]
    assert result.downloaded == 0


def test_downloads_no_more_than_the_limit(copy: SiteCopy) -> None:
    result = check(f"{copy.address}/simple/", max_download=100)

    assert codes_of(result) == ["unread", "unread"]
    assert result.downloaded == 0


def test_server_that_fails_is_a_finding(copy: SiteCopy) -> None:
    copy.entry["url"] = f"http://127.0.0.1:1/{copy.entry['filename']}"
    copy.write()

    result = check(f"{copy.address}/simple/")

    assert codes_of(result) == ["unreachable"]


def test_page_larger_than_any_is_a_finding(copy: SiteCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INDEX_PAGE", copy.project.joinpath("index.json").stat().st_size)
    copy.page["files"] += [{**copy.entry, "filename": f"toy-{number}.zip"} for number in range(9)]
    copy.write()

    result = check(f"{copy.address}/simple/")

    assert (codes_of(result), result.files) == (["page", "page"], 0)


def test_checks_one_project_without_the_list(copy: SiteCopy) -> None:
    (copy.folder / "simple" / "index.html").unlink()
    (copy.folder / "simple" / "index.json").unlink()

    result = check(f"{copy.address}/simple/", projects=("Toy",))

    assert (codes_of(result), result.files) == ([], 2)


def test_place_without_index_is_an_error(copy: SiteCopy, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check(str(tmp_path / "nowhere"))
    with pytest.raises(DownloadError) as caught:
        check(f"{copy.address}/nowhere/")

    assert "--index-url" in caught.value.fix


def test_snapshot_finds_what_has_changed(copy: SiteCopy, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    first = check(str(copy.folder), snapshot=snapshot)
    copy.edit_wheel({"toy.py": lambda text: text})  # stored, not packed: other bytes
    copy.page["files"].pop()
    copy.write()

    result = check(f"{copy.address}/simple/", snapshot=snapshot)

    assert codes_of(first) == []
    assert codes_of(result) == ["changed", "vanished"]


def test_change_is_found_until_it_is_accepted(copy: SiteCopy, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    check(str(copy.folder), snapshot=snapshot)
    copy.page["files"].pop()
    copy.write()

    results = [check(str(copy.folder), snapshot=snapshot) for _ in range(2)]
    snapshot.unlink()
    after = check(str(copy.folder), snapshot=snapshot)

    assert [codes_of(result) for result in results] == [["vanished"], ["vanished"]]
    assert codes_of(after) == []


def test_snapshot_adds_new_files(copy: SiteCopy, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    entries = list(copy.page["files"])
    copy.page["files"] = entries[:1]
    copy.write()
    check(f"{copy.address}/simple/", snapshot=snapshot)
    copy.page["files"] = entries
    copy.write()
    second = check(f"{copy.address}/simple/", snapshot=snapshot)
    copy.page["files"] = entries[:1]
    copy.write()
    third = check(f"{copy.address}/simple/", snapshot=snapshot)

    assert codes_of(second) == []
    assert codes_of(third) == ["vanished"]


def test_page_without_projects_is_no_index() -> None:
    page = b'<title>News</title><a href="/about">Who we are</a> <a href="https://x.test/">x</a>'
    with serving(Site(files={"/": page})) as server, pytest.raises(DownloadError) as caught:
        check(server.url("/"))

    assert "is not a package index" in caught.value.what
    assert "none of the links" in caught.value.why


def test_hashes_of_two_kinds_cannot_be_compared() -> None:
    before, now = {"toy.whl": "sha256=ab"}, {"toy.whl": "sha512=cd"}

    assert list(find_changes("simple/toy", before, now)) == []


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1, "indexes": {"a": {"b": {"c": 1}}}}']
)
def test_refuses_what_is_no_snapshot(text: str, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(text)

    with pytest.raises(UsageError):
        read_snapshot(path)
