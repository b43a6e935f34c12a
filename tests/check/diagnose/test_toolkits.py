"""Toolkits and compilers, real and damaged ones, and the verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.check.cuda import installed_toolkits
from cuwheel.check.diagnose.toolkits import find_installations, judge_extension_building
from tests.check.diagnose.samples import make_host, toolkit_verdicts
from tests.support.factories import write_compiler
from tests.support.toolchains.layouts import write_debian, write_toolkit

pytestmark = pytest.mark.usefixtures("bare_machine")


def test_reads_real_nvcc_and_compilers(cuda_home: Path) -> None:
    installations = find_installations({"PATH": "/usr/bin:/bin", "CUDA_HOME": str(cuda_home)})

    [nvcc] = installations.toolkits
    assert (nvcc.release, nvcc.header_release, nvcc.found) == ("13.0", "13.0", ("CUDA_HOME",))
    [gcc] = [tool for tool in installations.tools if tool.name == "g++"]
    assert gcc.path
    assert gcc.version.count(".") == 2


def test_has_no_verdict_without_toolkit() -> None:
    assert toolkit_verdicts() == []


@pytest.mark.parametrize(
    ("script", "limit"),
    [("true", 60.0), ("/bin/sleep 100", 1.0), (r"printf 'a\0\377\200\n'", 60.0)],
)
def test_goes_on_past_nvcc_without_version(
    tmp_path: Path, script: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_toolkits, "TIME_LIMIT", limit)
    home = write_toolkit(tmp_path / "cuda", "", script=script)

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home))

    assert (verdict.level, verdict.anchor) == ("warning", "diagnose-not-asked")


@pytest.mark.parametrize("value", ["{}:/other", "{}/bin", "{}/bin/nvcc", '"{}"', "{}/gone"])
def test_names_malformed_home(tmp_path: Path, value: str) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")

    verdict = toolkit_verdicts(CUDA_HOME=value.format(home))[0]

    assert (verdict.level, verdict.anchor) == ("broken", "malformed-cuda-home")
    assert verdict.cause.startswith(f'it is "{value.format(home)}"')


@pytest.mark.parametrize(
    ("name", "version", "anchor"),
    [("g++", "16.1.0", "host-compiler-too-new"), ("g++-11", "11.4.0", "")],
)
def test_judges_the_host_compiler(tmp_path: Path, name: str, version: str, anchor: str) -> None:
    home = write_toolkit(tmp_path / "cuda", "12.2")
    compiler = write_compiler(tmp_path / "bin", name, version)

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), NVCC_CCBIN=str(compiler))

    assert verdict.anchor == anchor


def test_names_two_releases(tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")
    other = write_toolkit(tmp_path / "other", "12.4")

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), PATH=f"{other / 'bin'}")

    assert verdict.anchor == "wrong-nvcc-picked"


@pytest.mark.parametrize(("debian", "other"), [("11.8", "13.0"), ("12.4", "11.8")])
def test_names_distribution_that_hides_another_toolkit(
    debian: str, other: str, tmp_path: Path
) -> None:
    usr = write_debian(tmp_path, debian)
    home = write_toolkit(tmp_path / "usr" / "local" / f"cuda-{other}", other)
    path = f"{usr / 'bin'}"

    [verdict] = toolkit_verdicts(PATH=path, NVCC_CCBIN="nonesuch")

    assert (verdict.level, verdict.anchor) == ("warning", "wrong-nvcc-picked")
    assert f"put {home / 'bin'} first on PATH and set CUDA_HOME={home}" in verdict.fix
    fixed = toolkit_verdicts(PATH=f"{home}/bin:{path}", CUDA_HOME=str(home), NVCC_CCBIN="nonesuch")
    assert [each.level for each in fixed] == ["note"]  # the headers in /usr/include are still there
    assert toolkit_verdicts(PATH=path, CUDA_HOME=str(usr), NVCC_CCBIN="nonesuch")[0].level == "ok"


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDACXX"])
def test_fix_of_two_releases_leaves_no_problem(variable: str, tmp_path: Path) -> None:
    homes = [write_toolkit(tmp_path / name, name) for name in ("13.0", "12.4")]
    values = [str(home if variable == "CUDA_HOME" else home / "bin" / "nvcc") for home in homes]
    path = f"{homes[1] / 'bin'}"

    [verdict] = toolkit_verdicts({variable: values[0], "PATH": path, "NVCC_CCBIN": "nonesuch"})

    assert f"put {homes[0] / 'bin'} first on PATH, or set {variable} to {values[1]}" == verdict.fix
    for changed, value in ((f"{homes[0] / 'bin'}:{path}", values[0]), (path, values[1])):
        [after] = toolkit_verdicts({variable: value, "PATH": changed, "NVCC_CCBIN": "nonesuch"})
        assert after.level == "ok"


def test_names_link_by_which_nvcc_finds_nothing(cuda_home: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "nvcc"
    link.parent.mkdir()
    link.symlink_to(cuda_home / "bin" / "nvcc")

    [verdict] = toolkit_verdicts(PATH=f"{link.parent}", NVCC_CCBIN="nonesuch")

    assert verdict.anchor == "diagnose-incomplete-toolkit"
    failed = run([link, "-E", "-x", "cu", "/dev/null"], env={"PATH": "/usr/bin:/bin"}, check=False)
    assert "cuda_runtime.h: No such file" in failed.output
    link.unlink()
    fixed = toolkit_verdicts(PATH=f"{cuda_home}/bin", NVCC_CCBIN="nonesuch")
    assert [each.level for each in fixed] == ["ok"]


@pytest.mark.parametrize("part", ["include/cuda_runtime.h", "lib64/libcudart.so", "bin/ptxas"])
def test_names_what_the_toolkit_lacks(part: str, tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "12.4")
    (home / part).unlink()

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), NVCC_CCBIN="nonesuch")

    assert (verdict.level, verdict.anchor) == ("warning", "diagnose-incomplete-toolkit")


def test_names_debians_folder_for_clang(tmp_path: Path) -> None:
    usr = write_debian(tmp_path, "11.8")
    (usr / "lib" / "cuda" / "bin").mkdir(parents=True)

    verdict = toolkit_verdicts(CUDA_HOME=str(usr / "lib" / "cuda"))[0]

    assert (verdict.anchor, verdict.fix) == ("malformed-cuda-home", f"set CUDA_HOME={usr}")
    assert [each.level for each in toolkit_verdicts(CUDA_HOME=str(usr))] == ["ok"]


def test_names_debians_package_with_headers(tmp_path: Path) -> None:
    usr = write_debian(tmp_path, "11.8")
    (usr / "include" / "cuda_runtime.h").unlink()

    [verdict] = toolkit_verdicts(PATH=str(usr / "bin"))

    assert verdict.fix == "apt-get install nvidia-cuda-dev"


@pytest.mark.parametrize("variable", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_names_headers_of_another_release_in_variables(variable: str, tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")
    other = write_toolkit(tmp_path / "other", "11.8") / "include"
    environ = {"CUDA_HOME": str(home), "NVCC_CCBIN": "nonesuch"}

    [verdict] = toolkit_verdicts(environ | {variable: f"/tmp:{other}"})

    assert (verdict.level, verdict.anchor) == ("warning", "conflicting-cuda-installs")
    assert verdict.fix == f"remove {other} from {variable}"
    assert toolkit_verdicts(environ | {variable: "/tmp"})[0].level == "ok"


def test_names_headers_of_another_release_than_nvcc(tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0", headers="11.8")

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), NVCC_CCBIN="nonesuch")

    assert verdict.anchor == "conflicting-cuda-installs"


def test_lets_debians_nvcc_choose_its_own_compiler(tmp_path: Path) -> None:
    usr = write_debian(tmp_path, "11.8")
    compilers = write_compiler(tmp_path / "bin", "g++", "14.2.0").parent

    [verdict] = toolkit_verdicts(PATH=f"{usr}/bin:{compilers}")

    assert verdict.level == "ok"


def test_names_torch_of_other_cuda(tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), torch="12.8")

    assert verdict.anchor == "torch-cuda-mismatch"


def test_names_missing_compiler_of_triton(tmp_path: Path) -> None:
    [verdict] = toolkit_verdicts(triton=True, PATH=str(tmp_path))

    assert verdict.anchor == "triton-no-c-compiler"


@pytest.mark.parametrize(("other", "is_offered"), [("g++-14", True), ("g++-17", False)])
def test_offers_an_installed_compiler(tmp_path: Path, other: str, *, is_offered: bool) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")
    for name, version in (("g++", "16.1.0"), (other, "14.1.0")):
        write_compiler(tmp_path / "bin", name, version)

    verdicts = toolkit_verdicts(CUDA_HOME=str(home), PATH=str(tmp_path / "bin"))

    [verdict] = [one for one in verdicts if one.anchor == "host-compiler-too-new"]
    assert verdict.command == f"export NVCC_CCBIN={tmp_path / 'bin' / other}" * is_offered


@pytest.mark.parametrize(
    ("noexec", "has_ninja", "found"),
    [("", True, []), ("/t", True, ["permission-denied"]), ("", False, ["ninja-missing"])],
)
def test_names_what_compiling_extensions_lacks(
    noexec: str, found: list[str], *, has_ninja: bool
) -> None:
    installations = find_installations({"PATH": "/nonexistent"})
    host = make_host(noexec=noexec)

    verdicts = judge_extension_building(installations, host, has_ninja=has_ninja)

    assert [one.anchor for one in verdicts] == found
