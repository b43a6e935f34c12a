"""The toolkit's view: all of a toolkit under its names, with the launcher and the gate in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.compile.toolkit_view import ToolkitView, ViewPaths, fingerprint_of
from cuwheel.build.workspace.records import Toolchain
from tests.support.build.launchers import Bench, make_bench
from tests.support.requirements import require

GATED = ("bin/ptxas", "bin/cudafe++", "nvvm/bin/cicc")
TAKEN = {"nvcc", "ptxas", "cudafe++", "cicc"}


@pytest.fixture(scope="module")
def bench(module_path: Path, cuda_home: Path) -> Bench:
    return make_bench(module_path / "pypi", cuda_home)


@pytest.fixture(scope="module")
def conda_bench(module_path: Path, conda_toolchain: Toolchain) -> Bench:
    assert conda_toolchain.cc
    assert conda_toolchain.cxx
    return make_bench(
        module_path / "conda",
        conda_toolchain.home,
        cc=conda_toolchain.cc,
        cxx=conda_toolchain.cxx,
    )


@pytest.fixture(scope="module")
def system_bench(module_path: Path) -> Bench:
    home = Path("/usr/local/cuda")
    require("toolkit", "the view of a toolkit that NVIDIA's installer laid out")
    return make_bench(module_path / "system", home)


@pytest.fixture(
    params=["bench", pytest.param("conda_bench", marks=pytest.mark.nightly), "system_bench"]
)
def any_bench(request: pytest.FixtureRequest) -> Bench:
    """A view of each provider's layout in turn."""
    settings: Bench = request.getfixturevalue(request.param)
    return settings


@pytest.mark.e2e
def test_has_every_file_under_its_name(any_bench: Bench) -> None:
    view, home = any_bench.inside.view, any_bench.inside.toolkit
    lost = [
        path.relative_to(home)
        for path in home.rglob("*")
        if path.exists() and not (view / path.relative_to(home)).exists()
    ]

    assert lost == []


def test_other_files_are_the_toolkits_own(any_bench: Bench) -> None:
    view, home = any_bench.inside.view, any_bench.inside.toolkit
    other = [path.name for path in (home / "bin").iterdir() if path.name not in TAKEN]

    assert "fatbinary" in other
    for name in other:
        assert (view / "bin" / name).samefile(home / "bin" / name), name


def test_nvcc_calls_programs_of_the_view(any_bench: Bench) -> None:
    any_bench.write("a.cu", "int x;\n")

    output = any_bench.run("nvcc", "--dryrun", "-arch=sm_90", "-c", "a.cu").output

    view = any_bench.inside.view
    [top] = [line.split("=")[1] for line in output.splitlines() if line.startswith("#$ TOP=")]
    assert top.strip().startswith(f"{view}/")
    [cicc] = [
        line.split("=")[1] for line in output.splitlines() if line.startswith("#$ CICC_PATH=")
    ]
    assert (Path(cicc.strip()) / "cicc").read_text().startswith("#!/bin/sh\n")
    assert str(any_bench.inside.toolkit) not in output


def test_compiles_and_gates_each_program(any_bench: Bench) -> None:
    any_bench.write("k.cu", "__global__ void k(int *p) { *p = 1; }\n")
    log = any_bench.folder / "gate.jsonl"

    done = any_bench.run("nvcc", "-arch=sm_90", "-c", "k.cu", "-o", "k.o", CUWHEEL_EVENTS=str(log))

    assert done.status == 0, done.output
    names = [line.split('"name": "')[1].split('"')[0] for line in log.read_text().splitlines()]
    assert sorted(names) == ["cicc", "cudafe++", "g++", "ptxas"]


def test_empties_a_file_that_cicc_alone_names(bench: Bench) -> None:
    bench.write("k.cu", "__global__ void k(int *p) { *p = 1; }\n")
    words = ("nvcc", "-arch=sm_90", "-rdc=true", "-c", "k.cu", "-o", "k.o")

    named = [line for line in bench.run(*words, "--dryrun").output.splitlines() if ".gpu" in line]
    assert bench.run(*words, "--keep").status == 0

    assert {line.split()[1] for line in named} <= {'"$CICC_PATH/cicc"', "rm"}
    [unread], [ptx] = bench.source.glob("k*.cudafe1.gpu"), bench.source.glob("k*.ptx")
    assert unread.read_bytes() == b""
    assert ".entry _Z1kPi" in ptx.read_text()


def test_host_compiler_is_the_chosen_one(any_bench: Bench) -> None:
    output = any_bench.run("g++", "-dumpfullversion").output

    assert (
        output
        == run([any_bench.inside.cxx, "-dumpfullversion"], env={"PATH": "/usr/bin:/bin"}).output
    )


def test_library_of_cmake_holds_no_name_of_a_temporary_file(bench: Bench) -> None:
    """It links with nvcc's host compiler, which would change the linker's build id."""
    linker, missing = bench.inside.launcher / "gated" / "g++", []
    for name in ("x_0.cudafe1.cpp", "k.compute_90.cudafe1.cpp"):
        source, library = bench.folder / name, bench.folder / f"{name}.so"
        source.write_text("int answer() { return 42; }\n")
        compiled, variables = source.with_suffix(".o"), {"PATH": os.defpath}
        run([linker, "-fPIC", "-c", source, "-o", compiled], env=variables)
        run([linker, "-shared", "-Wl,--build-id", "-o", library, compiled], env=variables)
        missing.append(library.read_bytes())

    assert missing[0] == missing[1]


def test_scripts_hold_the_fingerprint(bench: Bench) -> None:
    """A cache that looks at "the compiler" has to see another one with another toolkit."""
    view, launcher = bench.inside.view, bench.inside.launcher
    scripts = [view / name for name in ("bin/nvcc", *GATED)]
    scripts += [launcher / place / name for place in ("bin", "gated") for name in ("gcc", "g++")]

    for script in scripts:
        assert "# fingerprint" in script.read_text().splitlines(), script


def test_knows_each_name_of_a_compiler_where_the_build_sees_it(tmp_path: Path) -> None:
    """conda-forge's are called by their triple, and are somewhere else in a sandbox."""
    programs = tmp_path / "env" / "bin"
    programs.mkdir(parents=True)
    for name in ("x86_64-conda-linux-gnu-gcc", "x86_64-conda-linux-gnu-g++", "other-g++"):
        (programs / name).write_text(name)
    (programs / "x86_64-conda-linux-gnu-c++").symlink_to("x86_64-conda-linux-gnu-g++")

    def places(folder: Path) -> ViewPaths:
        return ViewPaths(
            view=Path("/view"),
            launcher=Path("/launcher"),
            toolkit=Path("/toolkit"),
            python=Path("/python"),
            cc=folder / "x86_64-conda-linux-gnu-gcc",
            cxx=folder / "x86_64-conda-linux-gnu-g++",
        )

    inside = Path("/cuwheel/toolchain/bin")
    view = ToolkitView(real=places(programs), inside=places(inside), fingerprint="")
    settings = view.settings(maps=(), flags=())

    assert isinstance(settings["standins"], dict)
    known = {
        name: path for name, path in settings["standins"].items() if name.startswith("/cuwheel")
    }
    assert known == {
        f"{inside}/x86_64-conda-linux-gnu-gcc": "/launcher/gated/gcc",
        f"{inside}/x86_64-conda-linux-gnu-g++": "/launcher/gated/g++",
        f"{inside}/x86_64-conda-linux-gnu-c++": "/launcher/gated/g++",
    }


def test_launcher_is_compiled(bench: Bench) -> None:
    compiled = {path.name.split(".")[0] for path in bench.inside.launcher.glob("__pycache__/*.pyc")}

    assert compiled == {path.stem for path in bench.inside.launcher.glob("*.py")}


@pytest.mark.parametrize("change", ["toolchain", "cxx", "banner"])
def test_fingerprint_distinguishes_compilers(change: str, tmp_path: Path) -> None:
    other = tmp_path / "g++"
    other.write_text("#!/bin/sh\necho another\n")
    other.chmod(0o755)
    same = {"toolchain": "abc", "cxx": "/usr/bin/g++", "banner": "g++ 12"}
    changed = {**same, change: str(other)}

    before, again, after = (
        fingerprint_of(one["toolchain"], Path(one["cxx"]), one["banner"])
        for one in (same, same, changed)
    )

    assert before == again != after


def test_linkers_find_a_stub_of_the_driver(tmp_path: Path, cuda_home: Path) -> None:
    bench = make_bench(tmp_path, cuda_home, driver_stub=b"stub")
    stubs = bench.inside.view / "lib64" / "stubs"

    assert (stubs / "libcuda.so").read_bytes() == b"stub"
    assert (stubs.parent / "libcudart.so").samefile(cuda_home / "lib64" / "libcudart.so")
    assert not (cuda_home / "lib64" / "stubs").exists()
    assert (stubs.parent.with_name("lib")).resolve() == stubs.parent.resolve()


def test_stub_of_the_toolkit_stays(tmp_path: Path, conda_toolchain: Toolchain) -> None:
    bench = make_bench(tmp_path, conda_toolchain.home, driver_stub=b"stub")

    stub = conda_toolchain.home / "lib64" / "stubs" / "libcuda.so"
    assert (bench.inside.view / "lib64" / "stubs" / "libcuda.so").samefile(stub)
