"""A site over a real server, whole and with one thing wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cuwheel import limits
from cuwheel.errors import DownloadError, UsageError
from cuwheel.index.check.result import CheckRequest
from cuwheel.index.check.rules import BY_CODE
from cuwheel.index.check.session import check_indexes
from cuwheel.index.site import SiteRequest, write_site
from cuwheel.system.console import Console
from cuwheel.wheel.variants import variants_name
from tests.index.test_folder_index import served
from tests.support.factories import HASTY
from tests.support.server import Site, serving
from tests.support.site_copies import SiteCopy, url_of
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuwheel.index.check.result import CheckResult

REQUEST = CheckRequest(places=(), retry_policy=HASTY)


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    for version in ("1.0+cu130", "2.0+cu130"):
        add_wheel(folder / "dist", version, requires_python=">=3.8")
    write_site(
        SiteRequest(
            folders=(folder / "dist",),
            site=folder / "site",
            base_url="",
            address="",
            cache=folder / "cache",
        )
    )
    return folder / "site"


@pytest.fixture
def copy(site: Path, tmp_path: Path) -> Iterator[SiteCopy]:
    made = SiteCopy.of(site, tmp_path / "site")
    with served(made.folder) as (address, _):
        made.address = address
        yield made


def check(*places: str, **options: object) -> CheckResult:
    asked = replace(REQUEST, places=places, **options)  # type: ignore[arg-type]
    return check_indexes(asked, Console())


def found(result: CheckResult) -> list[str]:
    return sorted(result.counts.elements())


def _no_page(copy: SiteCopy) -> None:
    shutil.rmtree(copy.project)


def _entry(copy: SiteCopy) -> None:
    copy.entry["size"] = "many"


def _project_name(copy: SiteCopy) -> None:
    root = copy.folder / "simple" / "index.html"
    root.write_text(root.read_text().replace("toy/index.html", "Toy/index.html"))


def _of_another(copy: SiteCopy) -> None:
    copy.page["name"] = "other"


def _file_name(copy: SiteCopy) -> None:
    old, metadata, name = copy.wheel, copy.metadata, "toy-1.0+cu130-py3-none.whl"
    copy.entry.update(filename=name, url=url_of(name))
    old.rename(copy.wheel)
    metadata.rename(copy.metadata)


def _file_kind(copy: SiteCopy) -> None:
    name = "toy-1.0.win32-py3.8.exe"
    copy.page["files"].insert(0, {**copy.entry, "filename": name, "url": url_of(name)})
    del copy.entry["core-metadata"]
    copy.replace_wheel(b"program")


def _duplicate(copy: SiteCopy) -> None:
    copy.page["files"].append(dict(copy.entry))


def _link(copy: SiteCopy) -> None:
    copy.entry["url"] = f"ftp://127.0.0.1/{copy.entry['filename']}"


def _link_to_this_machine(copy: SiteCopy) -> None:
    copy.entry["url"] = copy.wheel.as_uri()


def _no_hash(copy: SiteCopy) -> None:
    copy.entry["hashes"] = {}


def _weak_hash(copy: SiteCopy) -> None:
    content = copy.wheel.read_bytes()
    copy.entry["hashes"] = {"md5": hashlib.md5(content, usedforsecurity=False).hexdigest()}


def _missing(copy: SiteCopy) -> None:
    copy.wheel.unlink()


def _larger(copy: SiteCopy) -> None:
    copy.entry["size"] -= 1


def _smaller(copy: SiteCopy) -> None:
    copy.entry["size"] += 1


def _hash(copy: SiteCopy) -> None:
    content = copy.wheel.read_bytes()
    copy.wheel.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _archive(copy: SiteCopy) -> None:
    copy.replace_wheel(b"no archive")


def _record(copy: SiteCopy) -> None:
    copy.edit_wheel({"toy.py": lambda _: b"EVIL = True\n"})


def _record_lacks_file(copy: SiteCopy) -> None:
    copy.edit_wheel({"RECORD": lambda text: text.partition(b"\n")[2]})


def _other_version(text: bytes) -> bytes:
    return text.replace(b"Version: 1.0+cu130", b"Version: 1.0+cu131")


def _wheel_name(copy: SiteCopy) -> None:
    old = copy.metadata.read_bytes()
    row = f"sha256={_record_hash(old)}".encode()
    new = _other_version(old)
    edits = {
        "METADATA": lambda _: new,
        "RECORD": lambda text: text.replace(row, f"sha256={_record_hash(new)}".encode()),
    }
    copy.edit_wheel(edits)
    copy.replace_metadata(new)


def _record_hash(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _metadata_missing(copy: SiteCopy) -> None:
    copy.metadata.unlink()


def _metadata_hash(copy: SiteCopy) -> None:
    copy.metadata.write_bytes(copy.metadata.read_bytes() + b"more\n")


def _metadata(copy: SiteCopy) -> None:
    copy.replace_metadata(copy.metadata.read_bytes() + b"more\n")


def _metadata_keys(copy: SiteCopy) -> None:
    copy.entry["dist-info-metadata"] = {"sha256": "0" * 64}


def _old_metadata_key(copy: SiteCopy) -> None:
    copy.entry["dist-info-metadata"] = copy.entry.pop("core-metadata")


def _no_metadata(copy: SiteCopy) -> None:
    del copy.entry["core-metadata"]


def _requires_python(copy: SiteCopy) -> None:
    copy.entry["requires-python"] = ">=3.9"


def _forms(copy: SiteCopy) -> None:
    copy.html["yanked"] = "crashes"


def _versions(copy: SiteCopy) -> None:
    copy.page["versions"].pop()


def _no_versions(copy: SiteCopy) -> None:
    del copy.page["versions"]


def _no_size(copy: SiteCopy) -> None:
    del copy.entry["size"]


def _date(copy: SiteCopy) -> None:
    copy.entry["upload-time"] = "9999-01-01T00:00:00Z"


def _no_date(copy: SiteCopy) -> None:
    del copy.entry["upload-time"]


def _yank_reason(copy: SiteCopy) -> None:
    copy.entry["yanked"] = True


def _provenance(copy: SiteCopy) -> None:
    copy.entry["provenance"] = f"{copy.address}/files/nothing.provenance"


def _attestation(copy: SiteCopy) -> None:
    _attest(copy, "0" * 64)


def _attest(copy: SiteCopy, sha256: str, name: str = "") -> None:
    """Attestations of the first file, as far as their statements go."""
    subject = {"name": name or copy.entry["filename"], "digest": {"sha256": sha256}}
    statement = base64.b64encode(json.dumps({"subject": [subject]}).encode()).decode()
    bundle = {"attestations": [{"envelope": {"statement": statement}}]}
    content = json.dumps({"version": 1, "attestation_bundles": [bundle]})
    (copy.folder / "files" / "toy.provenance").write_text(content)
    copy.entry["provenance"] = f"{copy.address}/files/toy.provenance"


def _variants(copy: SiteCopy) -> None:
    plain = copy.entry["filename"]
    name = plain.replace(".whl", "-cu13.whl")
    (copy.folder / "files" / name).write_bytes(copy.wheel.read_bytes())
    metadata = copy.metadata.read_bytes()
    (copy.folder / "files" / f"{name}.metadata").write_bytes(metadata)
    copy.page["files"].append({**copy.entry, "filename": name, "url": url_of(name)})


def _variants_file(copy: SiteCopy, content: str) -> None:
    """A variant, and the file that says what variants there are."""
    _variants(copy)
    name = variants_name(copy.entry["filename"])
    (copy.folder / "files" / name).write_text(content)
    copy.page["files"].append(
        {
            "filename": name,
            "url": url_of(name),
            "hashes": {"sha256": hashlib.sha256(content.encode()).hexdigest()},
            "size": len(content),
            "upload-time": copy.entry["upload-time"],
        }
    )


def _variants_lack_label(copy: SiteCopy) -> None:
    _variants_file(copy, json.dumps({"variants": {"cu12": {}}}))


def _variants_are_no_json(copy: SiteCopy) -> None:
    _variants_file(copy, "cu13")


DEFECTS: dict[Callable[[SiteCopy], None], str] = {
    _no_page: "page",
    _entry: "entry",
    _project_name: "project-name",
    _of_another: "project-name",
    _file_name: "file-name",
    _file_kind: "file-kind",
    _duplicate: "duplicate",
    _link: "link",
    _link_to_this_machine: "link",
    _no_hash: "no-hash",
    _weak_hash: "weak-hash",
    _missing: "missing",
    _larger: "size",
    _smaller: "size",
    _hash: "hash",
    _archive: "archive",
    _record: "record",
    _record_lacks_file: "record",
    _wheel_name: "wheel-name",
    _metadata_missing: "metadata-missing",
    _metadata_hash: "metadata-hash",
    _metadata: "metadata",
    _metadata_keys: "metadata-keys",
    _old_metadata_key: "old-metadata-key",
    _no_metadata: "no-metadata",
    _requires_python: "requires-python",
    _forms: "forms",
    _versions: "versions",
    _no_versions: "versions",
    _no_size: "no-size",
    _date: "date",
    _no_date: "no-date",
    _yank_reason: "yank-reason",
    _provenance: "provenance",
    _attestation: "attestation",
    _variants: "variants",
    _variants_lack_label: "variants",
    _variants_are_no_json: "variants",
}
# Where a planted defect isn't one of a site: see the tests below, and those of the page's rules.
_ELSEWHERE = {
    "insecure-link",
    "unreachable",
    "unread",
    "changed",
    "vanished",
    "redated",
    "yanked",
    "new",
}


def test_every_rule_is_planted() -> None:
    assert set(DEFECTS.values()) | _ELSEWHERE == set(BY_CODE)


def test_our_own_site_is_clean(copy: SiteCopy) -> None:
    result = check(f"{copy.address}/simple/", f"{copy.address}/cu130/simple")

    assert found(result) == []
    assert (result.pages, result.files) == (2, 2)  # each file once
    assert result.downloaded == sum(one["size"] for one in copy.page["files"])


def test_attestations_that_are_there_are_no_finding(copy: SiteCopy) -> None:
    _attest(copy, copy.entry["hashes"]["sha256"])
    copy.write()

    assert found(check(f"{copy.address}/simple/")) == []


@pytest.mark.parametrize("is_quick", [False, True])
def test_variants_that_are_known_are_no_finding(*, copy: SiteCopy, is_quick: bool) -> None:
    _variants_file(copy, json.dumps({"variants": {"cu13": {}}}))
    copy.write()

    assert found(check(str(copy.folder), is_quick=is_quick)) == []


def test_site_that_was_written_anew_is_clean(copy: SiteCopy) -> None:
    copy.write()

    assert found(check(str(copy.folder))) == []


@pytest.mark.parametrize("is_quick", [False, True])
def test_folder_is_clean(*, copy: SiteCopy, is_quick: bool) -> None:
    result = check(str(copy.folder), is_quick=is_quick)

    assert found(result) == []
    assert result.downloaded == 0


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__.strip("_"))
def test_finds_planted_defect(plant: Callable[[SiteCopy], None], copy: SiteCopy) -> None:
    plant(copy)
    if copy.project.is_dir():
        copy.write()

    result = check(f"{copy.address}/simple/")

    assert found(result) == [DEFECTS[plant]]


IN_PARTS = [_missing, _record_lacks_file, _wheel_name, _metadata, _requires_python]


@pytest.mark.parametrize("plant", IN_PARTS, ids=lambda plant: plant.__name__.strip("_"))
def test_quick_check_finds_it_in_parts(plant: Callable[[SiteCopy], None], copy: SiteCopy) -> None:
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

    assert found(result) == [DEFECTS[plant]]
    assert any(parts)


def test_quick_check_compares_sizes(copy: SiteCopy) -> None:
    _smaller(copy)
    copy.write()

    assert found(check(str(copy.folder), is_quick=True)) == ["size"]


def test_quick_check_says_what_a_server_does_not_give(copy: SiteCopy) -> None:
    result = check(f"{copy.address}/simple/", is_quick=True)  # http.server gives no parts

    assert found(result) == ["unread", "unread"]
    assert result.downloaded == 0


def test_downloads_no_more_than_asked(copy: SiteCopy) -> None:
    result = check(f"{copy.address}/simple/", max_download=100)

    assert found(result) == ["unread", "unread"]
    assert result.downloaded == 0


def test_server_that_fails_is_a_finding(copy: SiteCopy) -> None:
    copy.entry["url"] = f"http://127.0.0.1:1/{copy.entry['filename']}"
    copy.write()

    result = check(f"{copy.address}/simple/")

    assert found(result) == ["unreachable"]


def test_page_larger_than_any_is_a_finding(copy: SiteCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INDEX_PAGE", copy.project.joinpath("index.json").stat().st_size)
    copy.page["files"] += [{**copy.entry, "filename": f"toy-{one}.zip"} for one in range(9)]
    copy.write()

    result = check(f"{copy.address}/simple/")

    assert (found(result), result.files) == (["page", "page"], 0)


def test_checks_one_project_without_the_list(copy: SiteCopy) -> None:
    (copy.folder / "simple" / "index.html").unlink()
    (copy.folder / "simple" / "index.json").unlink()

    result = check(f"{copy.address}/simple/", projects=("Toy",))

    assert (found(result), result.files) == ([], 2)


def test_place_without_index_is_an_error(copy: SiteCopy, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check(str(tmp_path / "nowhere"))
    with pytest.raises(DownloadError) as caught:
        check(f"{copy.address}/nowhere/")

    assert "--index-url" in caught.value.fix


def test_snapshot_finds_what_has_changed(copy: SiteCopy, tmp_path: Path) -> None:
    snapshot = tmp_path / "seen.json"
    first = check(str(copy.folder), snapshot=snapshot)
    copy.edit_wheel({"toy.py": lambda text: text})  # stored, not packed: other bytes
    copy.page["files"].pop()
    copy.write()

    result = check(f"{copy.address}/simple/", snapshot=snapshot)

    assert found(first) == []
    assert found(result) == ["changed", "vanished"]


def test_change_is_found_until_it_is_accepted(copy: SiteCopy, tmp_path: Path) -> None:
    snapshot = tmp_path / "seen.json"
    check(str(copy.folder), snapshot=snapshot)
    copy.page["files"].pop()
    copy.write()

    results = [check(str(copy.folder), snapshot=snapshot) for _ in range(2)]
    snapshot.unlink()
    after = check(str(copy.folder), snapshot=snapshot)

    assert [found(one) for one in results] == [["vanished"], ["vanished"]]
    assert found(after) == []


def test_snapshot_takes_what_is_new(copy: SiteCopy, tmp_path: Path) -> None:
    snapshot = tmp_path / "seen.json"
    entries = list(copy.page["files"])
    copy.page["files"] = entries[:1]
    copy.write()
    check(f"{copy.address}/simple/", snapshot=snapshot)
    copy.page["files"] = entries
    copy.entry["yanked"] = "crashes"
    copy.write()

    second = check(f"{copy.address}/simple/", snapshot=snapshot)
    third = check(f"{copy.address}/simple/", snapshot=snapshot)

    assert found(second) == ["new", "yanked"]
    assert found(third) == []


def test_page_without_projects_is_no_index() -> None:
    page = b'<title>News</title><a href="/about">Who we are</a> <a href="https://x.test/">x</a>'
    with serving(Site(files={"/": page})) as server, pytest.raises(DownloadError) as caught:
        check(server.url("/"))

    assert "is not a package index" in caught.value.what
    assert "none of the links" in caught.value.why
