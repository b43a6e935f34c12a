from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.paths import ROOT
from cuwheel.smoke.hide_cuda import find_cuda, hiding_prefix, supplier_among, write_decoy
from cuwheel.system.process import run
from tests.support.factories import compile_library
from tests.support.requirements import require

PYTHON = Path(sys.executable)

# Run as root of a user namespace of its own, with an /etc/ld.so.cache that knows one more folder.
_WITH_CACHE = """
/sbin/ldconfig -X -C "$1/cache" -f "$1/conf" && mount --bind "$1/cache" /etc/ld.so.cache || exit 77
cd "$2" && exec "$3" -c "$4" "$1"
"""
_LOAD_HIDDEN = """
import os, sys
from pathlib import Path
from cuwheel.smoke.hide_cuda import find_cuda, hiding_prefix, write_decoy
from cuwheel.system.process import run
code = '''
import ctypes, sys
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
        print(name, "loads")
    except OSError as error:
        print(error)
'''
names = ("libcublas.so.77", "libother.so.77", "libcuda.so.1")
decoy = write_decoy(Path(sys.argv[1]) / "decoy")
prefix = hiding_prefix(find_cuda({}, Path(sys.executable), keep=()), decoy)
for words in ((), prefix):
    print(run([*words, sys.executable, "-c", code, *names], env={"PATH": os.defpath}).output)
"""
# Namespaces of both kinds are refused here, as in many containers.
_REFUSING = """
for kind in user mnt; do echo 0 > /proc/sys/user/max_${kind}_namespaces || exit 77; done
cd "$1" && exec "$2" -c "$3" "$4"
"""
_HIDE = """
import sys
from pathlib import Path
from cuwheel.smoke.hide_cuda import hiding_prefix, write_decoy
print(hiding_prefix((), write_decoy(Path(sys.argv[1]))))
"""


def in_namespace(*words: str | Path, kinds: tuple[str, ...] = ()) -> str:
    """Run a script as root of a user namespace."""
    require("namespaces", "what the smoke test hides of the machine")
    unshare = ("unshare", "--user", "--map-root-user", *kinds, "sh", "-c")
    done = run([*unshare, *words], env={"PATH": os.defpath}, check=False)
    assert done.status == 0, done.output
    return done.output


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

    found = find_cuda({"CUDA_PATH": str(toolkit)}, PYTHON, keep=())

    assert {place.name for place in found if place.is_relative_to(toolkit)} == {
        "bin",
        "lib64",
        "nvvm",
    }


def test_leaves_what_has_to_be_kept_in_sight(toolkit: Path) -> None:
    found = find_cuda({"CUDA_HOME": str(toolkit)}, PYTHON, keep=(toolkit / "bin",))

    assert {place.name for place in found if place.is_relative_to(toolkit)} == {"lib64", "nvvm"}


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CONDA_PREFIX"])
def test_finds_single_files_where_cuda_is_not_alone(tmp_path: Path, variable: str) -> None:
    library = tmp_path / "lib" / "libcublas.so.77.1"
    library.parent.mkdir()
    library.touch()
    library.with_name("libcublas.so.77").symlink_to(library.name)
    library.with_name("libz.so.1").touch()
    library.with_name("libcuda.so.1").touch()

    found = find_cuda({variable: str(tmp_path)}, PYTHON, keep=())

    assert [place for place in found if place.is_relative_to(tmp_path)] == [library]


def test_finds_what_the_interpreter_would_search(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "libcublas.so.77"
    for path in (library, tmp_path / "bin" / "python"):
        path.parent.mkdir()
        path.touch()

    assert library in find_cuda({}, tmp_path / "bin" / "python", keep=())


def test_hides_what_the_loaders_cache_names(tmp_path: Path) -> None:
    compile_empty(tmp_path / "libs" / "libcublas.so.77")
    compile_empty(tmp_path / "libs" / "libother.so.77")
    compile_empty(tmp_path / "libs" / "libcuda.so.1")
    (tmp_path / "conf").write_text(f"{tmp_path / 'libs'}\n")

    said = in_namespace(
        *(_WITH_CACHE, "sh", tmp_path, ROOT, sys.executable, _LOAD_HIDDEN), kinds=("--mount",)
    )

    openly, hidden = said.strip().split("\n\n")
    assert openly.splitlines() == [
        "libcublas.so.77 loads",
        "libother.so.77 loads",
        "libcuda.so.1 loads",
    ]
    assert hidden.splitlines() == [
        "libcublas.so.77: cannot open shared object file: No such file or directory",
        "libother.so.77 loads",
        "libcuda.so.1 loads",
    ]


def test_hides_for_an_ordinary_user_who_stays_one(tmp_path: Path, toolkit: Path) -> None:
    require("namespaces", "that hiding CUDA makes nobody root")
    prefix = hiding_prefix((toolkit,), write_decoy(tmp_path / "decoy"))

    said = run([*prefix, "/bin/sh", "-c", f"ls {toolkit}; id -u"], env={"PATH": os.defpath}).output

    assert said == f"{os.getuid()}\n"
    assert (toolkit / "lib64").is_dir()


def test_hides_nothing_where_namespaces_are_refused(tmp_path: Path) -> None:
    said = in_namespace(_REFUSING, "sh", ROOT, sys.executable, _HIDE, tmp_path / "decoy")

    assert said == "()\n"


def test_names_the_file_that_was_hidden(toolkit: Path, tmp_path: Path) -> None:
    single = tmp_path / "libcublas.so.77.1"
    single.touch()

    assert supplier_among((toolkit,), "libcudart.so.77") == toolkit / "lib64" / "libcudart.so.77"
    assert supplier_among((toolkit, single), "libcublas.so.77") == single
    assert supplier_among((toolkit, single), "libcufft.so.77") is None
