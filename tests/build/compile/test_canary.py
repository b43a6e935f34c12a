"""The canary, on the real nvcc and on toolkits that can do less."""

from __future__ import annotations

import dataclasses
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from cuwheel.base.errors import ToolchainError
from cuwheel.base.paths import ROOT
from cuwheel.build.compile.canary import _SOURCES, Canary, _compare, run_canary
from cuwheel.build.compile.toolkit_view import ViewPaths
from tests.support.build.launchers import BASE_PYTHON
from tests.support.waiting import TIME_LIMIT, wait_for

# Writes an object, equal everywhere or the output of the script `calls.object`; knows the two
# options of nvcc's help.
_EASY_NVCC = """#!/bin/sh
case "$*" in *--help*) echo "-frandom-seed -objtemp"; exit ;; esac
echo "$@" >> {calls}
while [ -e {calls}.hold ]; do sleep 0.05; done
object=$(. {calls}.object 2>&-)
while [ "$1" ]; do [ "$1" = -o ] && echo "$object" > "$2"; shift; done
"""
_PROVE = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from cuwheel.build.compile.canary import run_canary
from cuwheel.base.system.parallel import Stop
from cuwheel.build.compile.toolkit_view import ViewPaths
home, python, cache = map(Path, sys.argv[1:])
request = Stop.request
def request_and_release(stop):
    request(stop)
    (home / "calls.hold").unlink(missing_ok=True)
Stop.request = request_and_release
submit = ThreadPoolExecutor.submit
def submit_slowly(pool, task, *arguments):
    work = submit(pool, task, *arguments)
    if task.__name__ == "_make_objects":
        while not (home / "calls").exists():
            time.sleep(0.01)
        time.sleep(0.2)  # the interrupt comes before the last task has begun
    return work
ThreadPoolExecutor.submit = submit_slowly
gcc, gxx = Path("/usr/bin/gcc"), Path("/usr/bin/g++")
places = ViewPaths(view=home, launcher=home, toolkit=home, python=python, cc=gcc, cxx=gxx)
run_canary(places, "x", cache)
"""


def toolchain(home: Path) -> ViewPaths:
    return ViewPaths(
        view=Path("unused"),
        launcher=Path("unused"),
        toolkit=home,
        python=BASE_PYTHON,
        cc=Path("/usr/bin/gcc"),
        cxx=Path("/usr/bin/g++"),
    )


@pytest.fixture
def easy_home(tmp_path: Path) -> Path:
    """A toolkit with a shell script for nvcc that counts its calls; `calls.hold` delays it."""
    nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(_EASY_NVCC.replace("{calls}", str(tmp_path / "toolkit" / "calls")))
    nvcc.chmod(0o755)
    return tmp_path / "toolkit"


def calls_of(home: Path) -> int:
    return len((home / "calls").read_text().splitlines())


def processes_of(home: Path) -> list[int]:
    """Those that run a program of a toolkit."""
    outcome = psutil.process_iter(["cmdline"])
    return [each.pid for each in outcome if f"{home}/bin" in " ".join(each.info["cmdline"] or ())]


def left_in(cache: Path) -> list[Path]:
    """Return the canaries' files but for locks."""
    return [path for path in (cache / "canaries").iterdir() if path.suffix != ".lock"]


def test_killed_one_leaves_no_process_and_no_folder_for_long(
    easy_home: Path, tmp_path: Path
) -> None:
    """Of another toolchain too: the next canary of this one may never come."""
    hold = easy_home / "calls.hold"
    hold.touch()
    command: list[str | Path] = [sys.executable, "-c", _PROVE, easy_home, BASE_PYTHON, tmp_path]
    with subprocess.Popen(command, cwd=ROOT) as canary:
        wait_for(lambda: (easy_home / "calls").exists() and calls_of(easy_home) == 2)
        canary.kill()
    wait_for(lambda: processes_of(easy_home) == [])
    hold.unlink()
    assert len(left_in(tmp_path)) == 1

    run_canary(toolchain(easy_home), "another", tmp_path)

    assert [path.suffix for path in left_in(tmp_path)] == [".json"]


@pytest.mark.e2e
def test_nvcc_gives_equal_objects_everywhere(cuda_home: Path, tmp_path: Path) -> None:
    """Of CUDA 13.0; docs/reproducibility.md."""
    outcome = run_canary(toolchain(cuda_home), "fingerprint", tmp_path)

    assert re.fullmatch("[0-9a-f]{64}", outcome.device_tools)
    assert dataclasses.replace(outcome, device_tools="") == Canary(
        flags=("path", "seed", "objtemp")
    )


@pytest.mark.parametrize(
    ("writes", "by_path", "always"),
    [
        ("dirname $PWD", (), ()),
        ("echo $PWD", _SOURCES, ()),
        ("case $* in *closed*) echo $$ ;; esac", (), ("closed",)),
        ("case $* in *closed*) echo $$ ;; *stamp*) echo $PWD ;; esac", ("stamp",), ("closed",)),
    ],
)
def test_reports_where_objects_differ(
    easy_home: Path,
    tmp_path: Path,
    writes: str,
    by_path: tuple[str, ...],
    always: tuple[str, ...],
) -> None:
    (easy_home / "calls.object").write_text(writes)

    outcome = run_canary(toolchain(easy_home), "fingerprint", tmp_path)

    assert (outcome.by_path, outcome.always) == (tuple(by_path), always)


@pytest.mark.e2e
def test_finds_what_differs_without_the_flags(cuda_home: Path, tmp_path: Path) -> None:
    outcome = _compare(toolchain(cuda_home), tmp_path, ("objtemp",))

    assert {"anonymous", "closed"} <= {*outcome.by_path}
    assert "stamp" not in outcome.by_path, "maps and SOURCE_DATE_EPOCH do that"
    assert outcome.always == ()


@pytest.mark.e2e
def test_objects_of_an_nvcc_without_a_seed_are_equal(cuda_home: Path, tmp_path: Path) -> None:
    flags = ("path", "objtemp")  # as before CUDA 12.9

    assert _compare(toolchain(cuda_home), tmp_path, flags) == Canary(flags=flags)


@pytest.mark.e2e
def test_does_without_an_option_that_nvcc_refuses(cuda_home: Path, tmp_path: Path) -> None:
    home = copy_of(cuda_home, tmp_path / "toolkit")
    real = cuda_home / "bin" / "cudafe++"
    cudafe = home / "bin" / "cudafe++"
    cudafe.unlink()
    # nvcc names the source itself first; what the launcher adds comes second.
    cudafe.write_text(
        '#!/bin/sh\ncase "$*" in *--orig_src_path_name=*) echo "unknown" >&2; exit 1 ;; esac\n'
        f'exec {real} "$@"\n'
    )
    cudafe.chmod(0o755)

    outcome = run_canary(toolchain(home), "fingerprint", tmp_path / "cache")

    assert outcome.flags == ("seed", "objtemp")
    assert "anonymous" in outcome.by_path
    assert outcome.always == ()


def copy_of(home: Path, folder: Path) -> Path:
    """The same toolkit, with a folder of links for its programs."""
    folder.mkdir()
    for entry in home.iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    (folder / "bin").mkdir()
    for entry in (home / "bin").iterdir():
        (folder / "bin" / entry.name).symlink_to(entry)
    return folder


def test_nvcc_that_compiles_nothing_is_an_error(cuda_home: Path, tmp_path: Path) -> None:
    broken = dataclasses.replace(toolchain(cuda_home), cxx=Path("/bin/false"))

    with pytest.raises(ToolchainError) as caught:
        run_canary(broken, "fingerprint", tmp_path)

    assert caught.value.what == "this nvcc doesn't work"
    assert left_in(tmp_path) == []


@pytest.mark.e2e
def test_names_the_cause_that_the_compiler_shows(cuda_home: Path, tmp_path: Path) -> None:
    """As with glibc 2.43: its mathcalls.h declares rsqrt otherwise than CUDA 13.0."""
    header = tmp_path / "mathcalls.h"
    header.write_text("#ifdef __CUDACC__\nextern double rsqrt(double) noexcept(true);\n#endif\n")
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\nexec g++ -include {header} "$@"\n')
    compiler.chmod(0o755)

    with pytest.raises(ToolchainError) as caught:
        run_canary(dataclasses.replace(toolchain(cuda_home), cxx=compiler), "fingerprint", tmp_path)

    assert '"rsqrt"' in caught.value.why
    assert "newer than this CUDA" in caught.value.why
    assert "build where glibc is older" in caught.value.fix
    assert "TROUBLESHOOTING.md#glibc-headers-too-new-for-nvcc" in caught.value.fix


def test_keeps_what_was_found_for_each_compiler(easy_home: Path, tmp_path: Path) -> None:
    first = run_canary(toolchain(easy_home), "fingerprint", tmp_path)
    before = calls_of(easy_home)

    assert run_canary(toolchain(easy_home), "fingerprint", tmp_path) == first
    assert calls_of(easy_home) == before
    run_canary(toolchain(easy_home), "another", tmp_path)
    assert calls_of(easy_home) == 2 * before


def test_two_at_once_agree(easy_home: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(run_canary, toolchain(easy_home), "same", tmp_path) for _ in range(2)]
        outcome = {each.result() for each in tries}

    assert outcome == {Canary(flags=("path", "seed", "objtemp"))}
    assert len(left_in(tmp_path)) == 1
    assert calls_of(easy_home) == 2 * 4, "one has waited for the other"


def test_interrupt_leaves_nothing(
    easy_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (easy_home / "calls.hold").touch()
    cache = tmp_path / "cache"
    words = [sys.executable, "-c", _PROVE, str(easy_home), str(BASE_PYTHON), str(cache)]
    monkeypatch.chdir(ROOT)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        try:
            wait_for((easy_home / "calls").exists)
            running.send_signal(signal.SIGINT)
            status = running.wait(TIME_LIMIT)
        finally:
            running.kill()

    assert status != 0
    assert left_in(cache) == []
    assert calls_of(easy_home) <= 2, "of eight, those that were running then"
