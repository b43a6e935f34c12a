"""Known sources: their data, a recorded page of each form, and the limits of a query."""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bench import known_sources as check
from bench.pick import recorded_releases
from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.check.pick.choice import query_sources
from cuwheel.check.pick.document import PickDocument
from cuwheel.check.pick.known_sources import CHECKED, KNOWN_SOURCES, Sources, read_sources
from cuwheel.check.pick.pick import PickOptions, find
from tests.support.check.offers import MACHINE
from tests.support.check.stacks import WheelIndex
from tests.support.servers.http import Site, serving

FORMS = sorted({source.form for source in KNOWN_SOURCES})


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WheelIndex]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        yield WheelIndex(folder=tmp_path, site=site)


def pick(project: str, index: WheelIndex, sources: Sources) -> PickDocument:
    options = PickOptions(
        wanted=Requirement(project), paper=MACHINE, sources=sources, start=Path.cwd()
    )
    return find(options, {"PIP_INDEX_URL": index.url, "PIP_CONFIG_FILE": "/dev/null"})


def write_page(source_page: str, form: str, name: str, project: str, index: WheelIndex) -> None:
    """Serve a wheel as a source of this form does, with synthetic content."""
    path = index.folder / name
    if form.startswith("simple index"):
        index.list_file(f"{source_page.rstrip('/')}/{project}/", path)
    elif form.startswith("page of links"):
        index.list_file(source_page, path, has_hash=False)
    else:
        index.list_file("/unused/", path)
        asset = {
            "name": name,
            "browser_download_url": index.site.url(f"/files/{name}"),
            "size": path.stat().st_size,
        }
        index.site.files[source_page] = json.dumps([{"assets": [asset]}]).encode()
        index.site.headers = {"Content-Type": "application/json"}


def addresses(sources: Sources, project: str) -> list[str]:
    return [page.address for page in sources.of(project)]


@pytest.mark.parametrize("source", KNOWN_SOURCES, ids=lambda source: source.name)
def test_reads_each_source(source: object, index: WheelIndex) -> None:
    [known] = [item for item in KNOWN_SOURCES if item is source]
    project = known.projects[0]
    name = index.add(project, "1.0+cu130torch2.11", at="/unused")
    base = index.site.url(f"/{known.name}")
    sources = Sources(names=(known.name,), bases={known.name: base})
    *_, last = known.addresses({known.name: base})
    page = last.address.removeprefix(index.site.url(""))
    write_page(page.replace("%2B", "+"), known.form, name, project, index)

    answer = pick(project, index, sources)

    assert answer.wheel
    assert (answer.wheel.name, answer.wheel.source) == (name, known.name)
    hashed = known.form.startswith("simple index")
    assert answer.wheel.trust.startswith("SHA-256 from the index" if hashed else "no SHA-256")
    assert f"{project} @ http://" in answer.commands["uv"]


def test_check_notes_the_day_of_sources_that_have_each_project(
    index: WheelIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = tmp_path / "checked.json"
    table.write_text('{"nvidia": "2020-01-01"}')
    names = {"natten": ["natten"], "flash-attn": ["flash-attn"], "pyg": ["pyg-lib"]}
    monkeypatch.setenv(
        "CUWHEEL_SOURCE_BASES", " ".join(f"{name}={index.site.url(f'/{name}')}" for name in names)
    )
    statuses = []
    for name, projects in names.items():
        [source] = [item for item in KNOWN_SOURCES if item.name == name]
        base = {name: index.site.url(f"/{name}")}
        page = next(source.addresses(base)).address.removeprefix(index.site.url(""))
        wheel = index.add(projects[0], "1.0+cu130torch2.11", at="/unused")
        index.site.headers = {"Content-Type": "text/html"}
        write_page(page.replace("%2B", "+"), source.form, wheel, projects[0], index)
        statuses.append(check.main([name, "--write"], table))

    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    dates = {"flash-attn": today, "natten": today, "nvidia": "2020-01-01"}
    assert (statuses, json.loads(table.read_text())) == ([False, False, True], dates)
    output = capsys.readouterr().out
    assert "natten: 1 wheel, 0 with a hash" in output
    assert "no wheel of torch-cluster: " in output


def test_no_source_is_said_to_be_read_that_was_not() -> None:
    dates = json.loads(CHECKED.read_text())

    assert {source.name: source.checked for source in KNOWN_SOURCES if source.checked} == dates


@pytest.mark.parametrize(
    ("project", "machine", "name"),
    [
        (
            "flash-attn",
            "python=3.12,torch=2.9,cuda=12.8",
            "flash_attn-2.8.3+cu12torch2.9cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        ),
        (
            "mamba-ssm",
            "python=3.11,torch=2.6,cuda=12.4",
            "mamba_ssm-2.2.6.post3+cu12torch2.6cxx11abiFALSE-cp311-cp311-linux_x86_64.whl",
        ),
        ("causal-conv1d", "python=3.12,torch=2.11,cuda=13.0", ""),  # only NVIDIA's containers
    ],
)
def test_chooses_from_recorded_lists_of_releases(project: str, machine: str, name: str) -> None:
    with recorded_releases() as sources:
        options = PickOptions(
            wanted=Requirement(project),
            paper=f"{machine},arch=90,platform=x86_64",
            sources=sources,
            start=Path.cwd(),
        )
        answer = find(options, {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"})

    assert (answer.wheel.name if answer.wheel else "") == name


def test_covers_each_form() -> None:
    assert len(FORMS) == 5
    for source in KNOWN_SOURCES:
        assert source.documentation.startswith("https://")
        assert source.base.startswith("https://")
        assert all(project == project.lower() for project in source.projects)
        assert list(source.addresses({}))


def test_own_index_comes_first(index: WheelIndex) -> None:
    index.add("flash-attn", "1.0+cu130torch2.11")
    index.add("flash-attn", "9.0+cu130torch2.11", at="/astral/cu130")
    sources = Sources(names=("astral",), bases={"astral": index.site.url("/astral")})

    answer = pick("flash-attn", index, sources)

    assert answer.wheel
    assert (answer.wheel.version, answer.wheel.source) == ("1.0+cu130torch2.11", "")
    assert not [path for path, _ in index.site.asked if path.startswith("/astral")]


def test_names_only_projects_that_a_source_holds(index: WheelIndex) -> None:
    index.add("secret", "1.0", python="cp39")
    sources = read_sources([], {})

    assert pick("secret", index, sources).nearest
    assert sources.of("secret") == ()


def test_silent_source_is_unknown_and_quick(index: WheelIndex) -> None:
    index.add("flash-attn", "1.0+cu130torch2.8")
    mute = Site(is_mute=True)
    with serving(mute):
        bases = {"astral": mute.url("/simple"), "mamba": "http://127.0.0.1:9"}
        sources = Sources(names=("astral",), bases=bases)
        start = time.monotonic()
        answer = pick("flash-attn", index, sources)
        seconds = time.monotonic() - start

    assert seconds < 8
    assert not answer.fits
    silent = [asked for asked in answer.indexes if asked.is_silent]
    assert {asked.source for asked in silent} == {"astral"}


def test_address_states_cuda_and_torch(index: WheelIndex) -> None:
    name = index.add("mmcv", "2.2.0", at="/unused")
    sources = Sources(names=("openmmlab",), bases={"openmmlab": index.site.url("/mm")})
    index.list_file("/mm/cu121/torch2.4/index.html", index.folder / name)

    answer = pick("mmcv", index, sources)

    assert answer.nearest
    assert answer.nearest.cuda == "12.1"
    assert {reason.kind for reason in answer.nearest.reasons} == {"cuda", "framework"}


def test_queries_nothing_without_sources() -> None:
    offers = query_sources(Requirement("flash-attn"), ())

    assert (offers.files, dict(offers.faults)) == ((), {})


def test_variable_and_option_choose() -> None:
    every = tuple(source.name for source in KNOWN_SOURCES)

    assert read_sources([], {}).names == every
    assert read_sources([], {"CUWHEEL_SOURCES": "none"}).names == ()
    assert read_sources(["pyg", "astral,natten"], {"CUWHEEL_SOURCES": "none"}).names == (
        *("pyg", "astral", "natten"),
    )
    lines = {"CUWHEEL_TORCH_INDEX": "https://copy.example/whl"}
    assert "https://copy.example/whl/cu130/" in addresses(read_sources([], lines), "torch")
    bases = {"CUWHEEL_SOURCE_BASES": "astral=https://copy.example/a"}
    assert "https://copy.example/a/cu130/" in addresses(read_sources([], bases), "flash-attn")


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        (["pytorhc"], {}, "--sources names pytorhc"),
        ([], {"CUWHEEL_SOURCES": "x"}, "CUWHEEL_SOURCES names x"),
        ([], {"CUWHEEL_SOURCE_BASES": "astral"}, "CUWHEEL_SOURCE_BASES says astral"),
        ([], {"CUWHEEL_SOURCE_BASES": "x=https://h/"}, "CUWHEEL_SOURCE_BASES says x"),
    ],
)
def test_refuses_unknown_sources(words: list[str], environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_sources(words, environ)


def test_page_has_each_source() -> None:
    page = (ROOT / "docs" / "how-to" / "pick.md").read_text()
    table = page.partition("<!-- known sources -->")[2].partition("<!-- end -->")[0].strip()

    assert re.findall(r"`([^`]+)`", table) == [source.name for source in KNOWN_SOURCES]
