"""A wheel that serves fewer machines than the published wheel of its version isn't published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import PublishedWheelError
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.wheelhouse.facts import WheelFacts
from cuwheel.build.wheelhouse.narrower import (
    Offered,
    check_declared,
    check_serves_as_many,
    losses,
    preferred,
    read_folder,
    wins_over,
)
from cuwheel.build.wheelhouse.yanks import yank
from cuwheel.cli.commands.build import build_parser
from cuwheel.cli.commands.maintain.index import index_parser
from cuwheel.cli.commands.maintain.release import release_parser
from cuwheel.publish.index.site import SiteRequest, write_site
from tests.build.wheelhouse.test_simple_api import make_entry
from tests.support.factories import compile_cuda, make_target, write_wheel

_TAG = "cp311-cp311-manylinux_2_39_x86_64"


def named(
    python: str = "cp312-cp312", platform: str = "manylinux_2_28_x86_64", **facts: Any
) -> Any:
    version = facts.pop("version", "1.0+cu130")
    return make_entry(f"toy-{version}-{python}-{platform}.whl", **facts)


def offered(
    archs: str = "80 90", ptx: str = "", entry: Entry | None = None, drivers: tuple[str, ...] = ()
) -> Offered:
    facts = WheelFacts(
        cuda=(13,), archs=tuple(archs.split()), ptx=tuple(ptx.split()), drivers=drivers
    )
    return Offered(entry=entry or named(), facts=facts)


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (("80 90", ""), ("75", ""), {"sm_80", "sm_86", "sm_90"}),
        (("80 90", ""), ("80", ""), {"sm_90"}),
        (("80 90", ""), ("80", "80"), {"machine code for sm_90 (only PTX is left)"}),
        (("80", "80"), ("80 90", "80"), set()),
        (("80", ""), ("90", ""), {"sm_80", "sm_86"}),
        (("80", "80"), ("80 90", ""), {"sm_100", "sm_120"}),
        (("80 90", "90"), ("80 90", "80"), set()),
        (("90", ""), ("90a", ""), set()),
        (("90a", ""), ("90", ""), set()),
        (("100", ""), ("100a", ""), {"sm_103"}),
        (("100a", ""), ("100f", ""), set()),
        (("", ""), ("75", ""), set()),
        (("80", ""), ("", ""), {"sm_80", "sm_86"}),
    ],
)
def test_names_the_gpus_that_users_lose(
    old: tuple[str, str], new: tuple[str, str], lost: set[str]
) -> None:
    named_losses = set(losses(offered(*old), offered(*new)))

    assert lost <= named_losses
    assert bool(lost) == bool(named_losses)


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (named(), named(platform="manylinux_2_34_x86_64"), "glibc 2.28"),
        (named(platform="manylinux_2_34_x86_64"), named(), ""),
        (named("cp310-abi3"), named("cp312-abi3"), "Python 3.10"),
        (named("cp312-abi3"), named("cp310-abi3"), ""),
        (named("py3-none"), named(), "Python 3.11"),
        (named(), named(requires_python=">=3.13"), "Python 3.12"),
        (named(framework="torch>=2.11"), named(framework="torch>=2.12"), "torch 2.11"),
        (named(framework="torch>=2.11"), named(framework="torch>=2.11,<2.13"), "torch 2.13"),
        (named(), named(framework="torch==2.11.*"), "torch 2.10"),
        (named(framework="torch==2.11.*"), named(framework="torch>=2.11"), ""),
        (named(framework="torch==2.11.0"), named(framework="torch==2.11.*"), ""),
    ],
)
def test_names_the_systems_that_users_lose(old: Entry, new: Entry, lost: str) -> None:
    text = " ".join(losses(offered(entry=old), offered(entry=new)))

    assert lost in text
    assert bool(lost) == bool(text)


def test_names_the_drivers_that_users_lose() -> None:
    old, new = offered(drivers=("525.60.13",)), offered(drivers=("580.65.06",))

    assert losses(old, new) == ("drivers from 525.60.13 on, but older than 580.65.06",)
    assert losses(new, old) == ()


@pytest.mark.parametrize(
    ("new", "wins"),
    [
        (named(), True),
        (named(version="1.0+cu130-1"), True),
        (named(version="1.0+cu130.bundled"), True),
        (named(version="1.0+cu130.bundled.source.h1"), False),
        (named(platform="manylinux_2_34_x86_64"), True),
        (named("cp310-abi3"), True),
        (named(version="1.0+cu128"), False),
        (named(version="1.1+cu130"), False),
        (named("cp311-cp311"), False),
        (named(platform="manylinux_2_28_aarch64"), False),
    ],
)
def test_knows_which_wheels_compete(new: Entry, *, wins: bool) -> None:
    assert wins_over(new, named()) is wins


def test_link_modes_of_one_given_source_compete() -> None:
    old, new = (named(version=f"1.0+cu130{mode}.source.h1") for mode in (".bundled", ""))

    assert wins_over(new, old)


def test_lower_build_tag_wins_nothing(tmp_path: Path) -> None:
    old, new = named(version="1.0+cu130-2"), named(version="1.0+cu130-1")

    assert not wins_over(new, old)
    assert [*preferred({tmp_path / "old": old, tmp_path / "new": new})] == [tmp_path / "old"]


@pytest.fixture(scope="module")
def libraries(cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A kernel compiled for some archs, by their names."""
    folder = tmp_path_factory.mktemp("compiled")
    source = folder / "kernel.cu"
    source.write_text("__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n")
    flags = {
        "80 90": ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"),
        "75": ("-gencode=arch=compute_75,code=sm_75",),
        "75 80 90": tuple(f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in (75, 80, 90)),
    }
    return {
        archs: compile_cuda(folder / archs / "libtiny.so", cuda_home, source, *options)
        for archs, options in flags.items()
    }


@pytest.fixture
def build(libraries: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Put a kernel for some archs into a wheel of a folder."""

    def act(folder: str, archs: str, *, tag: str = "") -> Path:
        files = {"tiny_cuda/libtiny.so": libraries[archs]}
        wheel = write_wheel(tmp_path / folder, files, version="1.2.3+cu130", tag=_TAG)
        name = wheel.name.replace("cu130-", f"cu130-{tag}-" if tag else "cu130-")
        return wheel.rename(wheel.with_name(name))

    return act


@pytest.mark.e2e
def test_refuses_by_the_bytes_and_names_what_is_lost(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    build("dist", "80 90")
    narrow, wide = build("narrow", "75", tag="1"), build("wide", "75 80 90")
    cache = tmp_path / "cache"
    published = read_folder(tmp_path / "dist", cache)

    check_serves_as_many(read_folder(wide.parent, cache), published, cache)
    with pytest.raises(PublishedWheelError) as caught:
        check_serves_as_many(
            read_folder(narrow.parent, cache), published, cache, kept_at=str(narrow)
        )

    for part in ("has sm_75", "has sm_80 sm_90", "lose sm_80, sm_86, sm_87, sm_88, sm_89, sm_90"):
        assert part in caught.value.why
    assert str(narrow) in caught.value.fix
    yank({_only(tmp_path / "dist"): "broken"}, [tmp_path / "dist"])
    withdrawn = read_folder(tmp_path / "dist", cache)
    check_serves_as_many(read_folder(narrow.parent, cache), withdrawn, cache)


@pytest.mark.e2e
def test_refuses_before_anything_is_compiled(build: Callable[..., Path], tmp_path: Path) -> None:
    build("dist", "80 90")
    dist, cache = tmp_path / "dist", tmp_path / "cache"

    check_declared(make_target(archs=("80", "90", "100")), dist, cache)
    check_declared(make_target(archs=("75",), version="1.2.4"), dist, cache)
    check_declared(make_target(archs=("75",), python="3.12"), dist, cache)
    with pytest.raises(PublishedWheelError) as caught:
        check_declared(make_target(archs=("75",)), dist, cache)

    assert "would have sm_75; users would lose sm_80" in caught.value.why


@pytest.mark.e2e
def test_site_takes_none_from_another_folder(build: Callable[..., Path], tmp_path: Path) -> None:
    folders = (build("a", "80 90").parent, build("b", "75", tag="1").parent)
    site = tmp_path / "site"
    options: dict[str, Any] = {"base_url": "", "address": "", "cache": tmp_path / "cache"}

    with pytest.raises(PublishedWheelError):
        write_site(SiteRequest(folders=folders, site=site, **options))
    write_site(SiteRequest(folders=folders[:1], site=site, **options))
    with pytest.raises(PublishedWheelError):
        write_site(SiteRequest(folders=folders[1:], site=site, **options))
    names = [path.name for path in (site / "files").glob("*.whl")]
    done = write_site(SiteRequest(folders=folders, site=site, replaces_broader=True, **options))

    assert (names, done.wheels) == ([_only(folders[0])], 2)


def _only(folder: Path) -> str:
    [wheel] = folder.glob("*.whl")
    return wheel.name


@pytest.mark.parametrize(
    ("parser", "arguments"),
    [(build_parser, ()), (index_parser, ("--to", "site")), (release_parser, ())],
)
def test_every_verb_that_publishes_has_the_printed_option(
    parser: Callable[[], Any], arguments: tuple[str, ...]
) -> None:
    assert parser().parse([*arguments, "--replace-broader"]).replace_broader
