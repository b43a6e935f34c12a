"""The variants of a site's wheels, and which one uv takes on which machine."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pypi_simple
import pytest

from cuwheel.errors import WheelIndexError
from cuwheel.index.check.result import CheckRequest
from cuwheel.index.check.session import check_indexes
from cuwheel.index.site import SiteRequest, write_site
from cuwheel.index.yanks import YANKS, PublishedNames, yank
from cuwheel.system import process
from cuwheel.system.console import Console
from tests.support.factories import compile_library, write_wheel
from tests.support.site_server import serving_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KERNEL = "__global__ void fill(int *a) { a[threadIdx.x] = 1; }\nint run() { return 0; }\n"
TAG = "py3-none-linux_x86_64"
LABEL = "cu13_sm80_sm90"


@pytest.fixture(scope="module")
def dist(cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel for sm_80 and sm_90, made by the real nvcc, which needs CUDA 13."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "fill.cu"
    source.write_text(KERNEL)
    words = ["-Xcompiler", "-fPIC", "-cudart=shared", f"-L{cuda_home / 'lib'}"]
    words += [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("80", "90")]
    nvcc = cuda_home / "bin" / "nvcc"
    library = compile_library(folder / "libfill.so", nvcc, *words, source)
    return write_wheel(folder / "wheels", {"toy/lib.so": library}, name="toy", tag=TAG).parent


def publish(dist: Path, folder: Path, **options: Any) -> Any:
    given = {"base_url": "", "address": "", "has_variants": True, **options}
    asked = SiteRequest(folders=(dist,), site=folder / "site", cache=folder / "cache", **given)
    return write_site(asked)


@pytest.fixture(scope="module")
def site(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The site, and its address."""
    folder = tmp_path_factory.mktemp("site")
    publish(dist, folder)
    with serving_site(folder / "site") as address:
        yield folder / "site", address


def installed(index: str, target: Path, *words: str, **variables: str) -> str:
    """Which wheel uv takes: the label of its variant, or `plain`."""
    uv = f"{sys.prefix}/bin/uv"
    command = [uv, "pip", "install", "--python", sys.executable, "--no-cache", "--no-config"]
    process.run(
        [*command, "--no-deps", *words, "--target", target, "--index-url", index, "toy"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(target.parent), **variables},
    )
    [found] = target.glob("toy-*.dist-info")
    document = found / "variant.json"
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
    words = ("--preview-features", "wheel-variants")

    assert installed(f"{site[1]}/simple/", tmp_path / "out", *words, **machine) == expected


def test_who_knows_no_variants_gets_the_plain_wheel(site: tuple[Path, str], tmp_path: Path) -> None:
    index = f"{site[1]}/simple/"
    pip = [sys.executable, "-I", "-m", "pip", "--isolated", "--disable-pip-version-check"]
    options = ("--no-deps", "--no-cache-dir", "--target", tmp_path / "pip", "--index-url", index)

    process.run([*pip, "install", *options, "toy"], env={"PATH": "/usr/bin:/bin"})

    assert installed(index, tmp_path / "uv") == "plain"
    [there] = (tmp_path / "pip").glob("toy-*.dist-info")
    assert not (there / "variant.json").exists()


def test_page_of_a_project_lists_wheel_variant_and_what_variants_there_are(
    site: tuple[Path, str],
) -> None:
    folder, address = site
    with pypi_simple.PyPISimple(f"{address}/simple/") as client:
        page = client.get_project_page("toy")

    names = {one.filename: one for one in page.packages}
    assert set(names) == {
        f"toy-1.2.3-{TAG}.whl",
        f"toy-1.2.3-{TAG}-{LABEL}.whl",
        "toy-1.2.3-variants.json",
    }
    document = json.loads((folder / "files" / "toy-1.2.3-variants.json").read_text())
    assert set(document["variants"]) == {LABEL}
    assert all(one.digests["sha256"] for one in names.values())


def test_check_of_an_index_knows_variants(
    site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    result = check_indexes(CheckRequest(places=(f"{site[1]}/simple/",)), Console())

    assert result.files == 3
    assert {one.code for one in result.findings} <= {"no-json"}, result.findings


def test_published_variants_stay_and_are_withdrawn_with_their_wheel(
    dist: Path, tmp_path: Path
) -> None:
    first = publish(dist, tmp_path)
    files = tmp_path / "site" / "files"
    [variant] = files.glob(f"*-{LABEL}.whl")
    written = variant.stat().st_mtime_ns, variant.read_bytes()

    later = publish(dist, tmp_path, has_variants=False)
    asked = {"toy==1.2.3": "wrong results"}
    published = PublishedNames(files, frozenset(path.name for path in files.glob("*.whl")))
    chosen = yank(asked, [dist], published)
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


def test_refuses_a_variant_whose_name_says_another(dist: Path, tmp_path: Path) -> None:
    publish(dist, tmp_path)
    [variant] = (tmp_path / "site" / "files").glob(f"*-{LABEL}.whl")
    other = tmp_path / "dist" / variant.name.replace(LABEL, "cu12_sm80")
    other.parent.mkdir()
    other.write_bytes(variant.read_bytes())

    with pytest.raises(WheelIndexError) as error:
        publish(other.parent, tmp_path / "other")

    assert f"variant cu12_sm80 by its name, {LABEL} by its variant.json" in error.value.why
