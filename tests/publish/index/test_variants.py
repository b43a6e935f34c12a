"""Variants of a site's wheels, and uv's choice among them on different machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pypi_simple
import pytest

from cuwheel.base.errors import WheelIndexError
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.build.wheelhouse.yanks import YANKS, PublishedNames, yank
from cuwheel.publish.index.check.walk import CheckRequest, check_indexes
from cuwheel.publish.index.site import SiteRequest, write_site
from tests.support.factories import compile_library, write_wheel
from tests.support.servers.site import serving_site, uv_install

KERNEL = "__global__ void fill(int *a) { a[threadIdx.x] = 1; }\nint run() { return 0; }\n"
TAG = "py3-none-linux_x86_64"
LABEL = "cu13_sm80_sm90"


@pytest.fixture(scope="module")
def dist(cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel for sm_80 and sm_90, made by the real nvcc, which needs CUDA 13."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "fill.cu"
    source.write_text(KERNEL)
    flags = ["-Xcompiler", "-fPIC", "-cudart=shared", f"-L{cuda_home / 'lib'}"]
    flags += [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("80", "90")]
    nvcc = cuda_home / "bin" / "nvcc"
    library = compile_library(folder / "libfill.so", nvcc, *flags, source)
    return write_wheel(folder / "wheels", {"toy/lib.so": library}, name="toy", tag=TAG).parent


def publish(dist: Path, folder: Path, **options: Any) -> Any:
    usual = {"base_url": "", "address": "", "has_variants": True, **options}
    return write_site(
        SiteRequest(folders=(dist,), site=folder / "site", cache=folder / "cache", **usual)
    )


@pytest.fixture(scope="module")
def site(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The site, and its address."""
    folder = tmp_path_factory.mktemp("site")
    publish(dist, folder)
    with serving_site(folder / "site") as address:
        yield folder / "site", address


def installed(index: str, target: Path, *options: str, **variables: str) -> str:
    """Install with uv, and return the variant's label, or `plain`."""
    uv_install(index, target, "--no-deps", *options, "toy", **variables)
    [dist_info] = target.glob("toy-*.dist-info")
    document = dist_info / "variant.json"
    return (
        next(iter(json.loads(document.read_text())["variants"])) if document.exists() else "plain"
    )


@pytest.mark.parametrize(
    ("driver", "capability", "expected"),
    [
        ("13.0", "8.0", LABEL),
        ("13.0", "8.9", LABEL),
        ("13.0", "9.0", LABEL),
        ("13.5", "9.0", LABEL),
        ("14.0", "8.6", LABEL),
        ("12.9", "9.0", "plain"),
        ("12.2", "8.0", "plain"),
        ("13.0", "7.5", "plain"),
        ("13.0", "10.0", "plain"),
        ("13.0", "12.1", "plain"),
        ("12.8", "10.0", "plain"),
    ],
)
def test_uv_takes_the_variant_that_fits(
    site: tuple[Path, str], tmp_path: Path, driver: str, capability: str, expected: str
) -> None:
    machine = {
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": driver,
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": capability,
    }
    options = ("--preview-features", "wheel-variants")

    assert installed(f"{site[1]}/simple/", tmp_path / "out", *options, **machine) == expected


def test_installers_without_variants_get_the_plain_wheel(
    site: tuple[Path, str], tmp_path: Path
) -> None:
    index = f"{site[1]}/simple/"
    pip = [sys.executable, "-I", "-m", "pip", "--isolated", "--disable-pip-version-check"]
    options = ("--no-deps", "--no-cache-dir", "--target", tmp_path / "pip", "--index-url", index)

    process.run([*pip, "install", *options, "toy"], env={"PATH": "/usr/bin:/bin"})

    assert installed(index, tmp_path / "uv") == "plain"
    [dist_info] = (tmp_path / "pip").glob("toy-*.dist-info")
    assert not (dist_info / "variant.json").exists()


def test_page_lists_wheel_variant_and_variants_file(site: tuple[Path, str]) -> None:
    folder, address = site
    with pypi_simple.PyPISimple(f"{address}/simple/") as client:
        page = client.get_project_page("toy")

    names = {package.filename: package for package in page.packages}
    assert set(names) == {
        f"toy-1.2.3-{TAG}.whl",
        f"toy-1.2.3-{TAG}-{LABEL}.whl",
        "toy-1.2.3-variants.json",
    }
    document = json.loads((folder / "files" / "toy-1.2.3-variants.json").read_text())
    assert set(document["variants"]) == {LABEL}
    assert all(package.digests["sha256"] for package in names.values())


def test_check_of_an_index_knows_variants(site: tuple[Path, str]) -> None:
    result = check_indexes(CheckRequest(places=(f"{site[1]}/simple/",)), Console())

    assert result.files == 3
    assert result.violations == []


def test_published_variants_stay_and_are_yanked_with_their_wheel(
    dist: Path, tmp_path: Path
) -> None:
    first = publish(dist, tmp_path)
    files = tmp_path / "site" / "files"
    [variant] = files.glob(f"*-{LABEL}.whl")
    written = variant.stat().st_mtime_ns, variant.read_bytes()

    later = publish(dist, tmp_path, has_variants=False)
    published = PublishedNames(files, frozenset(path.name for path in files.glob("*.whl")))
    chosen = yank({"toy==1.2.3": "wrong results"}, [dist], published)
    withdrawn = publish(dist, tmp_path)
    yanked = json.loads((files / YANKS).read_text())
    yank({"toy==1.2.3": None}, [dist], published)
    publish(dist, tmp_path)

    assert (first.wheels, first.variants, later.variants, withdrawn.variants) == (1, 1, 1, 1)
    assert (variant.stat().st_mtime_ns, variant.read_bytes()) == written
    assert set(chosen["toy==1.2.3"]) == set(yanked) == {path.name for path in files.glob("*.whl")}
    assert json.loads((files / YANKS).read_text()) == {}


def test_variants_can_be_at_a_base_address(dist: Path, tmp_path: Path) -> None:
    publish(dist, tmp_path / "first")
    release = tmp_path / "first" / "site" / "files"

    publish(release, tmp_path, has_variants=False, base_url="https://example.org/v1")

    page = (tmp_path / "site" / "simple" / "toy" / "index.html").read_text()
    for path in (*release.glob("*.whl"), release / "toy-1.2.3-variants.json"):
        assert f'href="https://example.org/v1/{path.name}#sha256=' in page


def test_refuses_a_variant_with_the_name_of_another(dist: Path, tmp_path: Path) -> None:
    publish(dist, tmp_path)
    [variant] = (tmp_path / "site" / "files").glob(f"*-{LABEL}.whl")
    other = tmp_path / "dist" / variant.name.replace(LABEL, "cu12_sm80")
    other.parent.mkdir()
    other.write_bytes(variant.read_bytes())

    with pytest.raises(WheelIndexError) as error:
        publish(other.parent, tmp_path / "other")

    assert f"variant cu12_sm80 by its name, {LABEL} by its variant.json" in error.value.why
