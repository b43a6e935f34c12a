"""Sites: their files, and what real installers do with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import PublishedWheelError, UsageError, WheelIndexError
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.build.wheelhouse import entries
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.build.wheelhouse.yanks import yank
from cuwheel.publish.index import site
from cuwheel.publish.index.site import Site, SiteRequest, write_site
from tests.build.wheelhouse.test_entries import STATEMENT
from tests.support.packages.toy_wheel import add_wheel
from tests.support.servers.site import serving_site, uv_install

Publish = Callable[..., Site]


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Publish `dist` into `site`."""

    def act(**options: Any) -> Site:
        usual = {"folders": (tmp_path / "dist",), "base_url": "", "address": "", **options}
        return write_site(SiteRequest(site=tmp_path / "site", cache=tmp_path / "cache", **usual))

    return act


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serving_site(tmp_path / "site") as address:
        yield address


def test_holds_only_public_files(tmp_path: Path, publish: Publish) -> None:
    wheel = add_wheel(tmp_path / "dist", "1.0+cu130")
    statement_of(wheel).write_text(json.dumps(STATEMENT))
    (tmp_path / "dist" / "build.log").write_text("private")

    publish()

    files = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path / "site")) for path in files) == sorted(
        [
            MARKER,
            ".lock",
            "index.html",
            "packages/toy/index.html",
            *(f"{top}simple/{page}" for top in ("", "cu130/") for page in _PAGES),
            *(f"files/{wheel.name}{suffix}" for suffix in ("", ".metadata", ".provenance.json")),
        ]
    )
    assert not [path for path in files if str(tmp_path).encode() in path.read_bytes()]


_PAGES = ("index.html", "index.json", "toy/index.html", "toy/index.json")


def test_wheel_that_changes_is_not_published(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = add_wheel(tmp_path / "dist", "1.0+cu130")

    def change(*_: object) -> None:
        add_wheel(tmp_path / "dist", "1.0+cu130", content="x = 1")

    monkeypatch.setattr(site, "check_unchanged", change)  # after it was read, before the copy

    with pytest.raises(WheelIndexError, match="changed while it was being published"):
        publish()

    assert not (tmp_path / "site" / "files" / wheel.name).exists()


def test_uv_installs_from_the_index_of_one_cuda_release(
    tmp_path: Path, publish: Publish, address: str
) -> None:
    add_wheel(tmp_path / "dist", "1.0+cu130")
    add_wheel(tmp_path / "dist", "2.0+cu122")
    done = publish()

    installed = uv_install(f"{address}/cu130/simple/", tmp_path / "out", "toy")

    assert (done.wheels, done.added, done.cuda) == (2, 2, ("cu122", "cu130"))
    assert "1.0+cu130" in (tmp_path / "out" / "toy.py").read_text(), installed.output


def test_uv_ignores_wheels_newer_than_a_date(
    tmp_path: Path, publish: Publish, address: str
) -> None:
    old, new = (add_wheel(tmp_path / "dist", version) for version in ("1.0", "2.0"))
    for wheel, year in ((old, 2025), (new, 2026)):
        text = json.dumps(STATEMENT).replace("2026", str(year))
        statement_of(wheel).write_text(text)
    publish()

    options = ("--exclude-newer", "2026-01-01T00:00:00Z")
    installed = uv_install(f"{address}/simple/", tmp_path / "out", *options, "toy")

    assert "'1.0'" in (tmp_path / "out" / "toy.py").read_text(), installed.output


def test_uv_ignores_yanked_wheels(tmp_path: Path, publish: Publish, address: str) -> None:
    add_wheel(tmp_path / "dist", "1.0")
    add_wheel(tmp_path / "dist", "2.0")
    yank({"toy==2.0": "wrong results"}, [tmp_path / "dist"])
    publish()

    uv_install(f"{address}/simple/", tmp_path / "any", "toy")
    pinned = uv_install(f"{address}/simple/", tmp_path / "pinned", "toy==2.0")

    assert "'1.0'" in (tmp_path / "any" / "toy.py").read_text()
    assert "'2.0'" in (tmp_path / "pinned" / "toy.py").read_text()
    assert "wrong results" in pinned.output


def test_install_command_installs_the_file(tmp_path: Path, publish: Publish, address: str) -> None:
    wheel = add_wheel(tmp_path / "dist", "1.0+cu130")

    publish(address=address)

    line = f"toy @ {address}/files/toy-1.0%2Bcu130-py3-none-any.whl#sha256={sha256_of_file(wheel)}"
    assert f"pip install &#x27;{line}&#x27;" in page_of(tmp_path)
    installed = uv_install("http://127.0.0.1:9/", tmp_path / "out", line)
    assert "1.0+cu130" in (tmp_path / "out" / "toy.py").read_text(), installed.output


def page_of(folder: Path) -> str:
    return (folder / "site" / "packages" / "toy" / "index.html").read_text()


def test_published_wheels_stay(tmp_path: Path, publish: Publish) -> None:
    old = add_wheel(tmp_path / "dist", "1.0")
    yank({"toy==1.0": "old"}, [tmp_path / "dist"])
    publish()
    old.unlink()
    yank_file = tmp_path / "dist" / "yanked.json"
    yank_file.unlink()
    add_wheel(tmp_path / "dist", "2.0")

    done = publish()

    assert (done.wheels, done.added) == (2, 1)
    assert "Yanked: old" in page_of(tmp_path)


def test_refuses_other_bytes_under_a_published_name(tmp_path: Path, publish: Publish) -> None:
    published = add_wheel(tmp_path / "dist")
    before = sha256_of_file(published)
    publish()
    add_wheel(tmp_path / "dist", content="other = True")

    with pytest.raises(PublishedWheelError) as caught:
        publish()

    assert before in caught.value.why
    assert sha256_of_file(tmp_path / "site" / "files" / published.name) == before


def test_publishes_rebuild_statements(tmp_path: Path, publish: Publish) -> None:
    wheel = add_wheel(tmp_path / "dist", "1.0")
    publish()  # a statement comes after its wheel
    for name in (wheel.name, "other-1.0-py3-none-any.whl"):
        (tmp_path / "dist" / f"{name}.rebuild-0123456789abcdef.json").write_text("{}")

    publish()

    names = [path.name for path in (tmp_path / "site" / "files").glob("*.rebuild-*")]
    assert names == [f"{wheel.name}.rebuild-0123456789abcdef.json"]


def test_refuses_two_wheels_of_one_name(tmp_path: Path, publish: Publish) -> None:
    add_wheel(tmp_path / "dist")
    add_wheel(tmp_path / "other", content="other = True")

    with pytest.raises(UsageError, match="different wheels with the name"):
        publish(folders=(tmp_path / "dist", tmp_path / "other"))


def test_links_to_wheels_elsewhere(tmp_path: Path, publish: Publish) -> None:
    add_wheel(tmp_path / "dist")

    publish(base_url="https://example.invalid/releases/download/v1/")

    assert not (tmp_path / "site" / "files").exists()
    link = "https://example.invalid/releases/download/v1/toy-1.0-py3-none-any.whl"
    for page in ("simple/toy/index.html", "simple/toy/index.json", "packages/toy/index.html"):
        assert link in (tmp_path / "site" / page).read_text()


def test_wheel_built_meanwhile_is_published_next_time(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_wheel(tmp_path / "dist", "1.0")
    write = site._write_pages

    def write_and_build(*arguments: Any, **options: Any) -> Site:
        add_wheel(tmp_path / "dist", "2.0")
        return write(*arguments, **options)

    monkeypatch.setattr(site, "_write_pages", write_and_build)
    publish()
    monkeypatch.undo()

    assert publish().wheels == 2


def test_writes_nothing_into_the_folder_of_wheels(tmp_path: Path, publish: Publish) -> None:
    wheel = add_wheel(tmp_path / "dist")

    publish()

    assert list((tmp_path / "dist").iterdir()) == [wheel]


@pytest.mark.parametrize("change", ["gone", "other"])
def test_wheel_at_a_base_address_stays_published(
    change: str, tmp_path: Path, publish: Publish
) -> None:
    old = add_wheel(tmp_path / "dist", "1.0")
    publish(base_url="https://example.invalid/v1")
    if change == "other":
        add_wheel(tmp_path / "dist", "1.0", content="other = True")
        with pytest.raises(PublishedWheelError):
            publish(base_url="https://example.invalid/v1")
        return
    old.unlink()
    add_wheel(tmp_path / "dist", "2.0")

    done = publish(base_url="https://example.invalid/v1")

    assert (done.wheels, done.added) == (2, 1)
    assert "v1/toy-1.0-py3" in (tmp_path / "site" / "simple" / "toy" / "index.html").read_text()


def test_statement_puts_nothing_into_pages(tmp_path: Path, publish: Publish) -> None:
    wheel = add_wheel(tmp_path / "dist")
    text = json.dumps(STATEMENT).replace("13.0", "13<script>alert(1)</script>")
    statement_of(wheel).write_text(text)

    done = publish()

    assert done.cuda == ()
    assert not [
        page for page in (tmp_path / "site").rglob("*.html") if "<script>alert" in page.read_text()
    ]


def test_gives_the_same_site_twice(tmp_path: Path, publish: Publish) -> None:
    def pages() -> dict[Path, int]:
        paths = (tmp_path / "site").rglob("*")
        return {path: path.stat().st_mtime_ns for path in paths if path.name != ".lock"}

    add_wheel(tmp_path / "dist", "1.0+cu130")
    publish()
    before = pages()

    publish()

    assert pages() == before


@pytest.mark.parametrize("field", ["name", "toolkit"])
def test_cached_entries_lead_nowhere(field: str, tmp_path: Path, publish: Publish) -> None:
    dist = tmp_path / "dist"
    wheel = add_wheel(dist)
    write_index(dist)
    cache = dist / ".cuwheel" / "wheels.json"
    content = json.loads(cache.read_text())
    content["wheels"][wheel.name][1][field] = "/../../../out"
    cache.write_text(json.dumps(content))

    before = {path.name for path in tmp_path.iterdir()}

    assert publish().cuda == ()

    assert {path.name for path in tmp_path.iterdir()} - before == {"cache", "site"}


def test_reads_no_wheel_that_its_folder_index_has_read(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")
    monkeypatch.setattr(entries, "open_wheel", None)

    assert publish().wheels == 1

    metadata = tmp_path / "site" / "files" / f"{wheel.name}.metadata"
    assert metadata.read_bytes() == (tmp_path / "dist" / metadata.name).read_bytes()


def test_ignores_metadata_of_another_wheel(tmp_path: Path, publish: Publish) -> None:
    wheel = add_wheel(tmp_path / "dist")
    (tmp_path / "dist" / f"{wheel.name}.metadata").write_text("Name: evil")

    publish()

    served = (tmp_path / "site" / "files" / f"{wheel.name}.metadata").read_text()
    assert "Name: toy" in served


def test_shows_names_as_text(tmp_path: Path, publish: Publish) -> None:
    add_wheel(tmp_path / "dist")
    yank({"toy==1.0": "<script>alert(1)</script>"}, [tmp_path / "dist"])

    publish()

    assert "<script>alert" not in page_of(tmp_path)
    assert "&lt;script&gt;alert" in page_of(tmp_path)


def test_leaves_a_project_unchanged(tmp_path: Path, publish: Publish) -> None:
    add_wheel(tmp_path / "dist")
    source = tmp_path / "site" / "packages" / "hello" / "kernel.cu"
    source.parent.mkdir(parents=True)
    source.write_text("mine")

    with pytest.raises(UsageError):
        publish()

    files = [path for path in (tmp_path / "site").rglob("*") if not path.is_dir()]
    assert (files, source.read_text()) == ([source], "mine")


def test_keeps_files_of_the_user(tmp_path: Path, publish: Publish) -> None:
    add_wheel(tmp_path / "dist")
    publish()
    mine = [tmp_path / "site" / name for name in ("CNAME", "packages/mine", "simple/toy/mine")]
    for path in mine:
        path.touch()

    add_wheel(tmp_path / "dist", "2.0")
    publish()

    assert all(path.exists() for path in mine)


@pytest.mark.parametrize("name", ["src/__init__.py", "packages/a/b/index.html", ".git/HEAD"])
def test_refuses_marker_that_lists_other_files(name: str, tmp_path: Path, publish: Publish) -> None:
    path = tmp_path / "site" / name
    path.parent.mkdir(parents=True)
    path.touch()
    marker = {"format": 1, "kind": "wheel site", "files": {name: [sha256_of_file(path)]}}
    (tmp_path / "site" / MARKER).write_text(json.dumps(marker))

    with pytest.raises(UsageError):
        publish()

    assert path.exists()


@pytest.mark.parametrize("name", ["simple/index.html", "index.html", "cu130/mine", "files/notes"])
def test_refuses_site_without_marker(name: str, tmp_path: Path, publish: Publish) -> None:
    add_wheel(tmp_path / "dist", "1.0+cu130")
    path = tmp_path / "site" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")

    with pytest.raises(UsageError, match="is not a site"):
        publish()

    assert path.read_text() == "mine"
