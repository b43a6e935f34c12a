from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from cuwheel.build.finish.smoke.hide_cuda import find_cuda, supplier_among, write_decoy
from tests.support.factories import compile_library
from tests.support.requirements import require

PYTHON = Path(sys.executable)

# Run as root of a user namespace of its own, with an /etc/ld.so.cache that knows one more folder.
_WITH_CACHE = """
/sbin/ldconfig -X -C "$1/cache" -f "$1/conf" && mount --bind "$1/cache" /etc/ld.so.cache || exit 77
cd "$2" && exec "$3" -c "$4" "$1"
"""
_FIND = """
import sys
from pathlib import Path
from cuwheel.build.finish.smoke.hide_cuda import find_cuda
found = find_cuda({}, Path(sys.executable), keep=())
print(*[path.name for path in found if path.is_relative_to(Path(sys.argv[1]).resolve())])
"""
_LOAD = """
import ctypes, sys
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
        print(name, "loads")
    except OSError as error:
        print(error)
"""


def compile_empty(path: Path, soname: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text("int any;\n")
    return compile_library(path, "gcc", source, f"-Wl,-soname,{soname or path.name}")


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    home = tmp_path / "cuda"
    for name in ("nvvm", "lib64", "bin"):
        (home / name).mkdir(parents=True)
    (home / "lib64" / "libcudart.so.77").touch()
    return home


def test_finds_toolkit_that_the_caller_names(toolkit: Path) -> None:
    assert toolkit in find_cuda({"CUDA_HOME": str(toolkit)}, PYTHON, keep=())


def test_leaves_a_toolkits_driver_in_sight(toolkit: Path) -> None:
    (toolkit / "compat").mkdir()
    (toolkit / "compat" / "libcuda.so.580.95.05").touch()

    hidden_paths = find_cuda({"CUDA_PATH": str(toolkit)}, PYTHON, keep=())

    assert {place.name for place in hidden_paths if place.is_relative_to(toolkit)} == {
        "bin",
        "lib64",
        "nvvm",
    }


def test_leaves_what_has_to_be_kept_in_sight(toolkit: Path) -> None:
    hidden_paths = find_cuda({"CUDA_HOME": str(toolkit)}, PYTHON, keep=(toolkit / "bin",))

    assert {place.name for place in hidden_paths if place.is_relative_to(toolkit)} == {
        "lib64",
        "nvvm",
    }


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CONDA_PREFIX"])
def test_finds_single_files_where_cuda_is_not_alone(tmp_path: Path, variable: str) -> None:
    library = tmp_path / "lib" / "libcublas.so.77.1"
    library.parent.mkdir()
    library.touch()
    library.with_name("libcublas.so.77").symlink_to(library.name)
    library.with_name("libz.so.1").touch()
    library.with_name("libcuda.so.1").touch()

    hidden_paths = find_cuda({variable: str(tmp_path)}, PYTHON, keep=())

    assert [place for place in hidden_paths if place.is_relative_to(tmp_path)] == [library]


def test_finds_what_the_interpreter_would_search(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "libcublas.so.77"
    for path in (library, tmp_path / "bin" / "python"):
        path.parent.mkdir()
        path.touch()

    assert library in find_cuda({}, tmp_path / "bin" / "python", keep=())


def test_finds_what_the_loaders_cache_names(tmp_path: Path) -> None:
    require("namespaces", "what the smoke test hides of the machine")
    for name in ("libcublas.so.77", "libother.so.77", "libcuda.so.1"):
        compile_empty(tmp_path / "libs" / name)
    (tmp_path / "conf").write_text(f"{tmp_path / 'libs'}\n")
    unshare = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")

    done = run(
        [*unshare, _WITH_CACHE, "sh", tmp_path, ROOT, sys.executable, _FIND],
        env={"PATH": os.defpath},
    )

    assert done.output == "libcublas.so.77\n"


def test_the_loader_passes_over_a_decoy(tmp_path: Path) -> None:
    (tmp_path / "decoys").mkdir()
    write_decoy(tmp_path / "decoys" / "liba.so.77")
    write_decoy(tmp_path / "decoys" / "libb.so.77")
    compile_empty(tmp_path / "libs" / "libb.so.77")
    path = f"{tmp_path}/decoys:{tmp_path}/libs"

    done = run(
        [sys.executable, "-c", _LOAD, "liba.so.77", "libb.so.77"],
        env={"PATH": os.defpath, "LD_LIBRARY_PATH": path},
    )

    assert done.output.splitlines() == [
        "liba.so.77: cannot open shared object file: No such file or directory",
        "libb.so.77 loads",
    ]


def test_names_the_file_that_was_hidden(toolkit: Path, tmp_path: Path) -> None:
    single = tmp_path / "libcublas.so.77.1"
    single.touch()

    assert supplier_among((toolkit,), "libcudart.so.77") == toolkit / "lib64" / "libcudart.so.77"
    assert supplier_among((toolkit, single), "libcublas.so.77") == single
    assert supplier_among((toolkit, single), "libcufft.so.77") is None
