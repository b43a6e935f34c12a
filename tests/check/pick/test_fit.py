"""Each reason against a wheel, alone, and unknown facts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.check.cuda.drivers import oldest_driver
from cuwheel.check.cuda.torch_exports import is_judged, minor_of, torch_exports
from cuwheel.check.pick.contents import WheelContents
from cuwheel.check.pick.document import PickedWheel
from cuwheel.check.pick.fit import RemoteWheelFacts, WheelJudge
from cuwheel.check.pick.machine import parse_machine
from tests.support.check.offers import MACHINE, TAG, Index, find_on
from tests.support.factories import compile_device_file, write_wheel
from tests.support.packages.defective_wheels import make_library

ARCHS = {"archs": ["80", "90"], "toolkit": "13.0"}


def fitting(index: Index, paper: str = MACHINE) -> PickedWheel:
    """The wheel that fits."""
    wheel = index.pick(paper).wheel
    assert wheel
    return wheel


def reason_against(index: Index, paper: str = MACHINE) -> tuple[str, str]:
    """Kind and text of the only reason against the nearest wheel; none fits."""
    report = index.pick(paper)
    assert report.nearest
    [reason] = report.nearest.reasons
    return reason.kind, reason.text


@pytest.mark.parametrize(
    ("kind", "words", "wheel"),
    [
        ("python", "is for Python 3.11", {"tag": TAG.replace("312", "311")}),
        ("python", "Python 3.13 or newer", {"tag": f"cp313-abi3-{TAG.split('-')[2]}"}),
        ("python", ">=3.13", {"attributes": 'data-requires-python="&gt;=3.13"'}),
        ("abi", "without GIL", {"tag": f"cp312-cp312t-{TAG.split('-')[2]}"}),
        ("platform", "win_amd64", {"tag": "cp312-cp312-win_amd64"}),
        ("platform", "aarch64", {"tag": "cp312-cp312-manylinux_2_28_aarch64"}),
        ("platform", "musllinux", {"tag": "cp312-cp312-musllinux_1_2_x86_64"}),
        ("glibc", "2.34 or newer", {"tag": "cp312-cp312-manylinux_2_34_x86_64"}),
        ("framework", "requires torch==2.10.*", {"requires": "torch==2.10.*"}),
        ("framework", "built for torch 2.8", {"version": "1.0+cu13torch2.8"}),
        ("framework", "built for torch 2.10", {"version": "1.0+cu.13.0.torch.2.10"}),
        ("string-abi", "CXX11_ABI=FALSE", {"version": "1+cu13torch2.11cxx11abiFALSE"}),
        ("cuda", "CUDA 12.8, but the machine has CUDA 13.0", {"version": "1.0+cu128"}),
        ("cuda", "CUDA 12,", {"requires": "nvidia-cublas-cu12==12.8.4.1"}),
        ("device", "rocm", {"version": "1.0+rocm6.4"}),
        ("device", "cpu", {"version": "1.0+cpu"}),
        ("arch", "the GPU is sm_90", {"statement": {"archs": ["80"]}}),
        ("yanked", "wrong results", {"attributes": 'data-yanked="wrong results"'}),
        ("prerelease", "--pre", {"version": "1.0rc1"}),
    ],
)
def test_names_each_reason_alone(
    kind: str, words: str, wheel: dict[str, Any], index: Index
) -> None:
    add(index, **wheel)

    against, text = reason_against(index)

    assert against == kind
    assert words in text


@pytest.mark.parametrize("driver", ["570.211.01", "580.65.05", "570"])
def test_names_old_driver_alone(driver: str, index: Index) -> None:
    index.add("1.0+cu130")

    kind, text = reason_against(index, MACHINE.replace("580.95.05", driver))

    assert kind == "driver"
    assert f"580.65.06 or newer, this is {driver}" in text


@pytest.mark.parametrize("driver", ["580", "580.65.06", "610.1"])
def test_takes_new_enough_driver(driver: str, index: Index) -> None:
    index.add("1.0+cu130")

    assert index.pick(MACHINE.replace("580.95.05", driver)).wheel


def test_wheel_for_the_cpu_fits_machine_without_cuda(index: Index) -> None:
    index.add("1.0+cpu")

    assert index.pick("python=3.12,cuda=cpu,platform=x86_64").wheel


def test_wheel_for_cuda_does_not_fit_torch_without(index: Index) -> None:
    index.add("1.0+cu130")

    kind, _ = reason_against(index, "python=3.12,torch=2.11,cuda=cpu,platform=x86_64")

    assert kind == "cuda"


def test_lists_unknown_facts(index: Index) -> None:
    index.add("1.0", "cp312-cp312-linux_x86_64", "torch==2.11.*")

    wheel = fitting(index, "python=3.12,platform=x86_64")

    kinds = [reason.kind for reason in wheel.unknown]
    assert kinds == ["glibc", "framework", "cuda", "arch"]


def test_knows_archs_from_provenance_alone(index: Index) -> None:
    index.add(statement=ARCHS)

    wheel = fitting(index)

    assert wheel.archs == "sm_80 sm_90"
    assert not wheel.unknown


def test_ignores_provenance_of_other_bytes(index: Index) -> None:
    path = index.add(statement={"archs": ["80"]})
    stated = index.site.files[f"/files/{path.name}.provenance.json"]
    digest = stated.partition(b'"sha256": "')[2][:64]
    index.site.files[f"/files/{path.name}.provenance.json"] = stated.replace(digest, b"0" * 64)

    wheel = fitting(index)

    assert "arch" in [reason.kind for reason in wheel.unknown]


def test_ignores_parameters_of_other_builders(index: Index) -> None:
    index.add(statement=ARCHS, build_type="https://example.org/build")

    wheel = fitting(index)

    assert wheel.archs == ""


@pytest.mark.parametrize("archs", [["9x"], "90", [None], {"a": 1}])
def test_ignores_malformed_archs(archs: object, index: Index) -> None:
    index.add(statement={"archs": archs, "toolkit": "../13"})

    wheel = fitting(index)

    assert {reason.kind for reason in wheel.unknown} == {"cuda", "arch"}


def test_names_framework_to_install_with_it(index: Index) -> None:
    index.add("1.0+cu13torch2.11cxx11abiTRUE")

    report = index.pick("python=3.12,platform=x86_64")

    assert report.wheel
    assert report.wheel.needs == ("torch==2.11.*",)
    assert "'torch==2.11.*'" in report.commands["pip"]


def add(index: Index, requires: str = "", **wheel: Any) -> None:
    """Add a wheel that fits except for these arguments."""
    wheel.setdefault("statement", ARCHS if "version" not in wheel and not requires else None)
    index.add(
        wheel.pop("version", "1.0"), wheel.pop("tag", TAG), *filter(None, [requires]), **wheel
    )


@pytest.fixture
def old_code(tmp_path: Path, cuda_home: Path) -> Path:
    """Device code for sm_80 alone."""
    source = tmp_path / "twice.cu"
    source.write_text("__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n")
    return compile_device_file(tmp_path / "twice.cubin", cuda_home, source, "80")


def test_file_decides_on_archs(tmp_path: Path, old_code: Path) -> None:
    folder = tmp_path / "dist"
    files = {"toy/twice.cubin": old_code}
    write_wheel(folder, files, name="toy", version="2.0+cu130", tag=TAG)
    write_wheel(folder, {"toy.py": b""}, name="toy", version="1.0+cu130", tag=TAG)

    report = find_on(folder.as_uri())

    assert report.wheel
    assert report.newer
    assert (report.wheel.version, report.newer.version) == ("1.0+cu130", "2.0+cu130")
    assert [reason.kind for reason in report.newer.reasons] == ["arch"]


def serve_with_size(index: Index, *wheels: Path) -> None:
    """Offer wheels on a page that states their sizes, as the public index does."""
    files = []
    for path in wheels:
        content = path.read_bytes()
        index.site.files[f"/files/{path.name}"] = content
        digest = {"sha256": hashlib.sha256(content).hexdigest()}
        url = f"/files/{path.name.replace('+', '%2B')}"
        files.append({"filename": path.name, "url": url, "hashes": digest, "size": len(content)})
    page = {"meta": {"api-version": "1.1"}, "name": "toy", "versions": [], "files": files}
    index.site.files["/simple/toy/"] = json.dumps(page).encode()
    index.site.headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}


def test_small_file_on_a_server_decides_on_archs(index: Index, old_code: Path) -> None:
    new = write_wheel(
        index.folder, {"toy/twice.cubin": old_code}, name="toy", version="2.0+cu130", tag=TAG
    )
    old = write_wheel(index.folder, {"toy.py": b""}, name="toy", version="1.0+cu130", tag=TAG)
    serve_with_size(index, new, old)

    report = index.pick()

    assert report.wheel
    assert report.newer
    assert report.wheel.version == "1.0+cu130"
    assert [reason.kind for reason in report.newer.reasons] == ["arch"]


@pytest.mark.parametrize("is_fit", [True, False])
def test_symbols_decide_where_no_torch_is_stated(
    index: Index, tmp_path: Path, *, is_fit: bool
) -> None:
    table = torch_exports()
    name = next(
        name
        for name in table.names
        if is_judged(name) and table.releases_with(name) == table.releases[-4:]
    )
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"
    library = make_library(tmp_path / "made", "libc10.so", code=code)
    files: dict[str, bytes | Path] = {"toy/x.so": library}
    wheel = write_wheel(index.folder, files, name="toy", tag=TAG, requires=("torch",))
    serve_with_size(index, wheel)
    there = minor_of(table.releases[-4 if is_fit else -5])

    report = index.pick(MACHINE.replace("torch=2.11", f"torch={there}"))

    assert report.fits is is_fit
    shown = report.wheel or report.nearest
    assert shown
    assert [reason.kind for reason in shown.reasons] == ([] if is_fit else ["framework"])


@pytest.mark.parametrize("is_fit", [True, False])
def test_file_shows_that_it_loads_with_another_torch(tmp_path: Path, *, is_fit: bool) -> None:
    table = torch_exports()
    releases = table.releases[-4:]
    name = next(
        name for name in table.names if is_judged(name) and table.releases_with(name) == releases
    )
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"
    library = make_library(tmp_path / "made", "libc10.so", code=code)
    folder, built_for = tmp_path / "dist", minor_of(releases[-1])
    there = minor_of(releases[0] if is_fit else table.releases[-5])
    version = f"1.0+cu130torch{built_for}"
    write_wheel(
        folder, {"toy/x.so": library}, name="toy", version=version, tag=TAG, requires=("torch",)
    )

    report = find_on(folder.as_uri(), paper=MACHINE.replace("torch=2.11", f"torch={there}"))

    assert report.fits is is_fit
    shown = report.wheel or report.nearest
    assert shown
    reasons = (*shown.unknown, *shown.reasons)
    text = next(reason.text for reason in reasons if reason.kind == "framework")
    assert ("layouts of classes weren't compared" in text) is is_fit


def test_wheel_that_loads_needs_code_for_the_gpu(tmp_path: Path, old_code: Path) -> None:
    table = torch_exports()
    name = next(filter(is_judged, table.names))
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"
    library = make_library(tmp_path / "made", "libc10.so", code=code)
    files: dict[str, bytes | Path] = {"toy/x.so": library, "toy/twice.cubin": old_code}
    folder, there = tmp_path / "dist", minor_of(table.releases_with(name)[-1])
    version = "1.0+cu130torch2.3"
    write_wheel(folder, files, name="toy", version=version, tag=TAG, requires=("torch",))

    report = find_on(folder.as_uri(), paper=MACHINE.replace("torch=2.11", f"torch={there}"))

    assert report.nearest
    assert "arch" in {reason.kind for reason in report.nearest.reasons}


def test_cuda_of_the_only_extra_counts(index: Index) -> None:
    add(index, requires='nvidia-cublas-cu12==12.8.4.1; extra == "cuda"')

    assert reason_against(index)[0] == "cuda"


def test_extras_for_several_cudas_decide_nothing(index: Index) -> None:
    needs = ('nvidia-cublas-cu12; extra == "cuda12"', 'nvidia-cublas-cu13; extra == "cuda13"')
    index.add("1.0", TAG, *needs)

    assert fitting(index).cuda == ""


def test_torch_that_nothing_states_is_unknown(index: Index) -> None:
    index.add("1.0", TAG, "torch")

    assert "framework" in {fact.kind for fact in fitting(index).unknown}


@pytest.mark.parametrize("majors", [(12,), (12, 13)])
def test_library_for_another_cuda_decides_on_no_driver(majors: tuple[int, ...]) -> None:
    """Of libraries for several majors one is loaded, and their code is known only together."""
    code = DeviceCode(sass=("90",), is_zstd=True)
    drivers = tuple(map(oldest_driver, majors))
    contents = WheelContents(code=code, cuda=majors, drivers=drivers)
    name = f"toy-1.0-{TAG}.whl"
    offer = Offer(name=name, url="", index="", version=Version("1.0"), is_wheel=True)
    machine = parse_machine(MACHINE.replace("580.95.05", "535.261.03").replace("13.0", "12.4"))
    facts = RemoteWheelFacts(contents=contents)

    wheel = WheelJudge(offer, machine, facts, Requirement("toy")).judge()

    is_only = len(majors) == 1
    texts = [reason.text for reason in (wheel.reasons if is_only else wheel.unknown)]
    assert wheel.fits is not is_only
    assert any("compressed with zstd" in text for text in texts)
