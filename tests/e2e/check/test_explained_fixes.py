"""Fixes that `explain` prints, typed as printed: the same cause doesn't come back.

Each trial makes a failure with the real compiler, loader or git, explains the log, takes the
command out of the printed fix and runs the failed command again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cuwheel.check.explain.explanation import Explainer, Explanation
from tests.support.check.explanations import explain

pytestmark = pytest.mark.e2e


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A failure and its fix.

    Attributes:
        cause: the slug that has to be named.
        before: makes the files of the failing project.
        command: fails.
        typed: a part of the printed fix.
        values: what a reader puts in place of a name in angle brackets or of an example.
        after: how `typed` is run, before `command`; `{}` is the part.
    """

    cause: str
    command: str
    typed: str
    before: str = "true"
    after: str = "{}"
    values: Mapping[str, str] = field(default_factory=dict)


def loads(soname: str, cause: str, typed: str, placeholder: str) -> Trial:
    """Return the trial of a module that needs a library in a folder the loader doesn't search."""
    return Trial(
        cause=cause,
        before=f"""
        mkdir lib && echo 'int used(void) {{ return 0; }}' > library.c
        gcc -shared -fPIC -Wl,-soname,{soname} library.c -o lib/{soname}
        echo 'int used(void); int use(void) {{ return used(); }}' > module.c
        gcc -shared -fPIC module.c lib/{soname} -o module.so""",
        command="python3 -c 'import ctypes; ctypes.CDLL(\"./module.so\")'",
        typed=typed,
        values={placeholder: "$PWD/lib"},
    )


def links(name: str, cause: str, typed: str, folder: str) -> Trial:
    """Return the trial of a program that links a library in a folder the linker doesn't search."""
    return Trial(
        cause=cause,
        before=f"""
        mkdir lib && echo 'int used(void) {{ return 0; }}' > library.c
        gcc -shared -fPIC library.c -o lib/lib{name}.so
        echo 'int main(void) {{ return 0; }}' > main.c""",
        command=f"gcc main.c -l{name} -o program",
        typed=typed,
        values={folder: "$PWD/lib"},
    )


def includes(header: str, cause: str, typed: str, values: Mapping[str, str]) -> Trial:
    """Return the trial of a source that includes a header in a folder of its own."""
    return Trial(
        cause=cause,
        before=f"""
        mkdir -p include/$(dirname {header}) && touch include/{header}
        echo '#include <{header}>' > source.cpp""",
        command="g++ -c source.cpp",
        typed=typed,
        values=values,
    )


def cmake(lines: str) -> str:
    """Return a command that writes a CMakeLists.txt."""
    start = "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES CXX)"
    return f"printf '%s\\n' '{start}' '{lines}' > CMakeLists.txt"


def configures(
    cause: str, lines: str, before: str, typed: str, values: Mapping[str, str] | None = None
) -> Trial:
    """Return the trial of a CMake project that an option builds."""
    return Trial(
        cause=cause,
        before=f"{before}\n{cmake(lines)}",
        command="cmake $OPTION -S . -B build && cmake --build build",
        typed=typed,
        values=values or {},
        after="export OPTION={}",
    )


_LOADER = "export LD_LIBRARY_PATH=<its folder>:$LD_LIBRARY_PATH"
TRIALS = [
    loads("libcudart.so.12", "libcudart-not-found", _LOADER, "<its folder>"),
    loads("libcudart.so.11.0", "libcudart-not-found", _LOADER, "<its folder>"),
    loads("libcublas.so.13", "cuda-math-lib-not-found", _LOADER, "<its folder>"),
    loads("libcufft.so.12", "cuda-math-lib-not-found", _LOADER, "<its folder>"),
    loads(
        "libnvrtc.so.13",
        "libnvrtc-missing",
        "export LD_LIBRARY_PATH=<folder>:$LD_LIBRARY_PATH",
        "<folder>",
    ),
    links(
        "cublas",
        "missing-cuda-libs-link",
        "export LIBRARY_PATH=/usr/local/cuda/lib64:$LIBRARY_PATH",
        "/usr/local/cuda/lib64",
    ),
    links(
        "cuda",
        "missing-libcuda-link",
        "export LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LIBRARY_PATH",
        "/usr/local/cuda/lib64/stubs",
    ),
    Trial(
        cause="missing-library-link",
        before="""
        mkdir lib && echo 'int used(void) { return 0; }' > library.c
        gcc -shared -fPIC library.c -o lib/libtiny.so
        echo 'int main(void) { return 0; }' > main.c""",
        command="gcc main.c -ltiny -o program",
        typed="LIBRARY_PATH",
        after="export {}=$PWD/lib",
    ),
    includes(
        "cusparse.h",
        "missing-cuda-headers",
        "export CPATH=$CUDA_HOME/include",
        {"$CUDA_HOME": "$PWD"},
    ),
    loads("libcusolver.so.12", "cuda-math-lib-not-found", _LOADER, "<its folder>"),
    includes(
        "cuda_runtime.h",
        "missing-cuda-headers",
        "export CPATH=$CUDA_HOME/include",
        {"$CUDA_HOME": "$PWD"},
    ),
    includes(
        "nlohmann/json.hpp",
        "dependency-header-missing",
        "export CPATH=/path/to/include:$CPATH",
        {"/path/to/include": "$PWD/include"},
    ),
    includes(
        "cudnn.h",
        "missing-cudnn-headers",
        "export CUDNN_HOME=/usr CUDNN_PATH=/usr CPATH=<folder of cudnn.h>",
        {"<folder of cudnn.h>": "$PWD/include"},
    ),
    Trial(
        cause="cxx-standard-too-low",
        before="""
        printf '#if __cplusplus < 201703L\\n#error You need C++17 to compile PyTorch\\n#endif\\n' \\
            > all.h
        echo '#include "all.h"' > source.cpp""",
        command="g++ $FLAGS -std=c++14 -c source.cpp $LAST",
        typed="-std=c++17",
        after="export LAST={}",
    ),
    Trial(
        cause="not-position-independent",
        before="""
        echo 'int value; int get(void) { return value; }' > library.c
        printf 'all:\\n\\tgcc $(CFLAGS) -c library.c\\n\\tar rcs libused.a library.o\\n' > Makefile
        printf '\\techo "int get(void); int use(void) { return get(); }" > m.c\\n' >> Makefile
        printf '\\tgcc -shared -fPIC m.c libused.a -o m.so\\n' >> Makefile""",
        command='make CFLAGS="-fno-pic $CFLAGS"',
        typed="-fPIC",
        after="export CFLAGS={}",
    ),
    Trial(
        cause="warnings-as-errors",
        before="""
        echo 'int f() { int unused; return 0; }' > source.cpp
        printf 'all:\\n\\tg++ -Wall -Werror $(CXXFLAGS) -c source.cpp\\n' > Makefile""",
        command="make",
        typed="CXXFLAGS=-Wno-error",
        after="export {}",
    ),
    Trial(
        cause="locale-encoding",
        before="printf 'gr\\303\\266\\303\\237er' > readme",
        command="python3 -c 'print(open(\"readme\").read())'",
        typed="export LC_ALL=C.UTF-8 PYTHONUTF8=1",
    ),
    Trial(
        cause="submodule-missing",
        before="""
        git init -q third && cd third && echo '[project]' > pyproject.toml && git add . \\
            && git commit -qm first && cd ..
        git init -q source && cd source && git submodule add -q ../third third_party/cutlass \\
            && git commit -qm second && cd ..
        git clone -q source clone && cd clone""",
        command="cd clone && python3 -m pip install --no-index --no-deps ./third_party/cutlass",
        typed="git submodule sync --recursive && git submodule update --init --recursive",
        after="(cd clone && {})",
    ),
    Trial(
        cause="lockfile-out-of-date",
        before="""
        printf '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.9"\n' > pyproject.toml
        uv lock -q --offline && sed -i s/3.9/3.10/ pyproject.toml""",
        command="uv sync --offline --locked",
        typed="uv lock",
        after="{} --offline",
    ),
    Trial(
        cause="pyproject-invalid",
        before="""
        mkdir data models && touch data/__init__.py models/__init__.py
        printf '[project]\\nname = "x"\\nversion = "1"\\n' > pyproject.toml""",
        command="python3 -c 'from setuptools import build_meta; build_meta.build_wheel(\".\")'",
        typed="py-modules = []",
        after="printf '[tool.setuptools]\\n{}\\n' >> pyproject.toml",
    ),
    Trial(
        cause="include-missing-in-source",
        before="""
        printf '#include <vector>\nuint32_t size(std::vector<int> &v) { return v.size(); }\n' \
            > source.cpp""",
        command="make source.o",
        typed='export CXXFLAGS="-include cstdint" NVCC_APPEND_FLAGS="-include cstdint"',
    ),
    Trial(
        cause="stale-ninja-path",
        before=f"""
        mkdir a && cd a && {cmake("")}
        cmake -S . -B build && cd .. && mv a b""",
        command="cd b && cmake -S . -B build",
        typed="rm -rf build _skbuild *.egg-info",
        after="(cd b && {})",
    ),
    configures(
        "cmake-package-not-found",
        """find_package(Tiny REQUIRED)""",
        "mkdir -p Tiny && touch Tiny/TinyConfig.cmake",
        "-DCMAKE_PREFIX_PATH=/folder",
        {"/folder": "$PWD/Tiny"},
    ),
    configures(
        "cxx-standard-too-low",
        """set(CMAKE_CXX_STANDARD 14 CACHE STRING "")\nadd_library(x x.cpp)""",
        """
        printf '#if __cplusplus < 201703L\\n#error You need C++17 to compile PyTorch\\n#endif\\n' \\
            > x.cpp""",
        "-DCMAKE_CXX_STANDARD=17",
    ),
    configures(
        "not-position-independent",
        """add_library(s STATIC s.cpp)\nadd_library(x SHARED x.cpp)\ntarget_link_libraries(x s)
set(CMAKE_CXX_FLAGS -fno-pic)""",
        """echo 'int v; int get() { return v; }' > s.cpp
        echo 'int get(); int use() { return get(); }' > x.cpp""",
        "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
    ),
    configures(
        "warnings-as-errors",
        """set(CMAKE_COMPILE_WARNING_AS_ERROR ON CACHE BOOL "")
add_compile_options(-Wall)\nadd_library(x x.cpp)""",
        "echo 'int f() { int unused; return 0; }' > x.cpp",
        "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF",
    ),
    Trial(
        cause="libcudnn-not-found",
        before="""
        mkdir -p nvidia/cudnn/lib && touch nvidia/cudnn/__init__.py
        echo 'int used;' > library.c
        gcc -shared -fPIC -Wl,-soname,libcudnn.so.9 library.c -o nvidia/cudnn/lib/libcudnn.so.9
        gcc -shared -Wl,--no-as-needed nvidia/cudnn/lib/libcudnn.so.9 -o module.so""",
        command="python3 -c 'import ctypes; ctypes.CDLL(\"./module.so\")'",
        typed='$(python -c "import nvidia.cudnn as c; print(c.__path__[0])")/lib',
        after="export LD_LIBRARY_PATH={}",
    ),
    loads("libnccl.so.2", "cuda-math-lib-not-found", _LOADER, "<its folder>"),
]


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: f"{trial.cause}-{trial.typed[-12:]}")
def test_printed_fix_ends_the_cause(trial: Trial, tmp_path: Path) -> None:
    explainer = Explainer()
    run(f"set -e; {trial.before}", tmp_path)

    explanation = explain(explainer, *run(trial.command, tmp_path))

    assert explanation.causes[0].slug == trial.cause
    assert trial.typed in explanation.causes[0].fix
    fix = trial.typed
    for name, value in trial.values.items():
        fix = fix.replace(name, value)
    again = run(f"{trial.after.format(fix)}; {trial.command}", tmp_path)
    assert trial.cause not in slugs(explain(explainer, *again)), again


def slugs(explanation: Explanation) -> list[str]:
    return [cause.slug for cause in explanation.causes]


def run(script: str, folder: Path) -> list[str]:
    """Run a script without the caller's settings; return its output."""
    programs = Path(sys.executable).parent
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(folder),
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "GIT_ALLOW_PROTOCOL": "file",
        **{
            f"GIT_{role}_{part}": "x@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for part in ("NAME", "EMAIL")
        },
    }
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace").splitlines()
