"""Failures of compilers, linkers and CMake, without nvcc."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.check.trials import Trial


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
        action="export OPTION='{}'",
        needs=("cmake",),
    )


_CPP17 = "#if __cplusplus < 201703L\\n#error You need C++17 to compile PyTorch\\n#endif\\n"
TRIALS = (
    links(
        "cublas",
        "missing-cuda-libs-link",
        "export LIBRARY_PATH=/usr/local/cuda/lib64:",
        "/usr/local/cuda/lib64",
    ),
    links(
        "cuda",
        "missing-libcuda-link",
        "export LIBRARY_PATH=/usr/local/cuda/lib64/stubs:",
        "/usr/local/cuda/lib64/stubs",
    ),
    Trial(
        cause="missing-library-link",
        before="""
        mkdir lib && echo 'int used(void) { return 0; }' > library.c
        gcc -shared -fPIC library.c -o lib/libtiny.so
        echo 'int main(void) { return 0; }' > main.c""",
        command="gcc main.c -ltiny -o program",
        typed="export LIBRARY_PATH=",
        values={"/folder": "$PWD/lib"},
    ),
    includes(
        "cusparse.h",
        "missing-cuda-headers",
        "export CPATH=$CUDA_HOME/include",
        {"$CUDA_HOME": "$PWD"},
    ),
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
        before=f"""
        printf '{_CPP17}' > all.h
        echo '#include "all.h"' > source.cpp""",
        command="g++ $FLAGS -std=c++14 -c source.cpp $LAST",
        typed="-std=c++17",
        action="export LAST={}",
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
        action="export CFLAGS={}",
    ),
    Trial(
        cause="warnings-as-errors",
        before="""
        echo 'int f() { int unused; return 0; }' > source.cpp
        printf 'all:\\n\\tg++ -Wall -Werror $(CXXFLAGS) -c source.cpp\\n' > Makefile""",
        command="make",
        typed="CXXFLAGS=-Wno-error",
        action="export {}",
    ),
    Trial(
        cause="include-missing-in-source",
        before="""
        printf '#include <vector>\nuint32_t size(std::vector<int> &v) { return v.size(); }\n' \
            > source.cpp""",
        command="make source.o",
        typed='export CXXFLAGS="-include cstdint"',
    ),
    Trial(
        cause="stale-ninja-path",
        before=f"""
        mkdir a && cd a && {cmake("")}
        cmake -S . -B build && cd .. && mv a b""",
        command="cd b && cmake -S . -B build",
        typed="rm -rf build",
        action="(cd b && {})",
        needs=("cmake",),
    ),
    configures(
        "cmake-package-not-found",
        "find_package(Tiny REQUIRED)",
        "mkdir -p Tiny && touch Tiny/TinyConfig.cmake",
        "-DCMAKE_PREFIX_PATH=/folder",
        {"/folder": "'$PWD'/Tiny"},
    ),
    configures(
        "cxx-standard-too-low",
        """set(CMAKE_CXX_STANDARD 14 CACHE STRING "")\nadd_library(x x.cpp)""",
        f"printf '{_CPP17}' > x.cpp",
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
        cause="cmake-too-old",
        before=cmake("cmake_minimum_required(VERSION 4.0)"),
        settings="venv; only python sh sed gcc g++ make ld as cmake; PATH=$PWD/.env/bin:$PATH",
        command="cmake -S . -B build",
        typed="pip install --upgrade",
        action="{}; hash -r",
        needs=("cmake",),
        is_slow=True,
    ),
    Trial(
        cause="cmake-too-new",
        before="""
        (venv; pip install -q "cmake>=4")
        printf '%s\\n' 'cmake_minimum_required(VERSION 3.1)' 'project(x LANGUAGES CXX)' \\
            > CMakeLists.txt""",
        settings="venv",
        command="cmake -S . -B build",
        typed="export CMAKE_POLICY_VERSION_MINIMUM=",
        is_slow=True,
    ),
    Trial(
        cause="cmake-too-new",
        before="""
        (venv; pip install -q "cmake>=4")
        printf '%s\\n' 'cmake_minimum_required(VERSION 3.1)' 'project(x LANGUAGES CXX)' \\
            > CMakeLists.txt""",
        settings="venv",
        command="cmake -S . -B build",
        typed="pip install",
        action="{}; rm -rf build",
        is_slow=True,
    ),
    Trial(
        cause="ninja-missing",
        before=cmake(""),
        settings="""venv; only python uname sh sed rm gcc g++ make ld as cmake
        PATH=$PWD/.env/bin:$PATH""",
        command="cmake -G Ninja -S . -B build",
        typed="pip install ninja",
        action="{}; rm -rf build",
        needs=("cmake",),
        is_slow=True,
    ),
    Trial(
        cause="build-tool-missing",
        before="printf 'all:\\n\\tmeson --version\\n' > Makefile",
        settings="venv; only python sh make; PATH=$PWD/.env/bin:$PATH",
        command="make",
        advice="Install (?P<program>meson) .*or from PyPI",
        action='pip install "$program"',
        is_slow=True,
    ),
    Trial(
        cause="host-compiler-too-old",
        before="""
        printf '%s\\n' '#if __GNUC__ < 9' "#error You're trying to build PyTorch with a too old \\
version of GCC. We need GCC 9 or later." '#endif' > a.cpp
        mkdir old && ln -s "$(command -v g++)" old/g++-9
        printf '#!/bin/sh\\nexec /usr/bin/g++ -U__GNUC__ -D__GNUC__=8 "$@"\\n' > old/g++
        chmod +x old/g++""",
        settings="PATH=$PWD/old:$PATH",
        command="${CXX:-g++} -c a.cpp",
        typed="export CC=",
    ),
    Trial(
        cause="gxx-missing",
        before="printf 'all:\\n\\tg++ -c a.cpp\\n' > Makefile && echo 'int a;' > a.cpp",
        settings="gxx=$(command -v g++); only make gcc sh ln as",
        command="make",
        advice="Install g.. of the release",
        action="ln -s $gxx bin/g++",
    ),
    Trial(
        cause="no-host-compiler",
        before=cmake(""),
        settings="export CXX=${CXX-/opt/gcc14/bin/g++}",
        command="cmake -S . -B build",
        advice="If CC or CXX names a compiler that no longer exists, unset it and remove the build",
        action="export CXX=; rm -rf build",
        needs=("cmake",),
    ),
    Trial(
        cause="c-newer-rules",
        before="""
        echo 'int f(void) { return g(); }' > a.c
        printf 'all:\\n\\tgcc -Werror=implicit-function-declaration $(CFLAGS) -c a.c\\n' \\
            > Makefile""",
        command="make",
        typed="CFLAGS=",
        action="export {}",
    ),
    Trial(
        cause="source-error",
        before="printf 'int f() {\\n  return nothing;\\n}\\n' > source.cpp",
        command="g++ -c source.cpp",
        advice="Correct (?P<file>[^ ]+) at line (?P<line>[0-9]+)",
        action='sed -i "${line}s/nothing/0/" "$file"',
    ),
    Trial(
        cause="usr-include-as-system",
        before="""
        echo '#include <cstdlib>' > a.cpp
        printf 'all:\\n\\tg++ -isystem /usr/include -c a.cpp\\n' > Makefile""",
        command="make",
        typed="-isystem /usr/include",
        advice="Remove `",
        action="sed -i 's|{}||' Makefile",
    ),
    Trial(
        cause="python-dev-headers-missing",
        before="echo '#include <Python.h>' > a.c",
        command="gcc -c a.c",
        advice="The Pythons of conda, uv and pyenv include them: use one of those",
        action="""export CPATH=$(python3 -c '
import sysconfig; print(sysconfig.get_paths()["include"])')""",
    ),
    Trial(
        cause="conda-sysroot-crypt-h",
        before="""
        mkdir -p python3.9 conda/include && touch conda/include/crypt.h
        echo '#include <crypt.h>' > python3.9/Python.h
        echo '#include <Python.h>' > a.c""",
        settings="export CONDA_PREFIX=$PWD/conda",
        command="gcc -nostdinc -I$PWD/python3.9 -c a.c",
        typed="export CPATH=",
    ),
    Trial(
        cause="cutlass-version-mismatch",
        before="""
        mkdir -p old/cutlass third_party/cutlass
        echo 'namespace cutlass {}' > old/cutlass/numeric_types.h
        echo 'namespace cutlass { struct float_e4m3_t {}; }' > third_party/cutlass/numeric_types.h
        printf '#include <cutlass/numeric_types.h>\\ncutlass::float_e4m3_t value;\\n' > gemm.cpp""",
        settings="CUTLASS_PATH=$PWD/old",
        command="g++ -I${CUTLASS_PATH-third_party} -c gemm.cpp",
        advice="unset variables that name another one .(?P<variable>CUTLASS_PATH)",
        action='unset "$variable"',
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
        typed="git submodule sync --recursive",
        action="(cd clone && {})",
        then="No matching distribution found for setuptools",
    ),
    Trial(
        cause="own-symbol-undefined",
        before="""
        echo 'int scale(int); int main() { return scale(0); }' > main.cpp
        echo 'int scale(int x) { return x; }' > scale.cpp""",
        command="g++ main.cpp $MORE -o program",
        advice="Add the source or the object that defines (?P<symbol>\\w+)",
        action='MORE="$symbol.cpp"',
    ),
    Trial(
        cause="source-files-left-out",
        before="""
        echo 'namespace at { struct Tensor {}; }' > tensor.h
        printf '#include "tensor.h"\\nint rasterize(const at::Tensor &, int) { return 0; }\\n' \\
            > rasterize.cpp
        printf '%s\\n' '#include "tensor.h"' 'int rasterize(const at::Tensor &, int);' \\
            'int main() { return rasterize(at::Tensor(), 0); }' > bindings.cpp
        printf 'sources = bindings.cpp\\nall:\\n\\tg++ $(sources) -o x\\n' > Makefile""",
        command="make",
        advice="list each .cpp and .cu in `sources` .glob them",
        action="sed -i 's/= bindings.cpp/= $(wildcard *.cpp)/' Makefile",
    ),
    Trial(
        cause="stale-device-objects",
        before="""
        echo 'int main() { return 0; }' > k.cpp
        printf 'program: k.o\\n\\tg++ k.o -o program\\nclean:\\n\\trm -f k.o program\\n' > Makefile
        make && truncate -s 20 k.o && touch k.o""",
        command="make",
        typed="make clean && make",
        again="{}",
    ),
    Trial(
        cause="relocation-overflow",
        before=cmake(
            """foreach(arch IN LISTS CMAKE_CUDA_ARCHITECTURES)
  file(WRITE ${CMAKE_BINARY_DIR}/${arch}.cpp
    "char code${arch}[900000000]; int last${arch}; int f${arch}() { return last${arch}; }")
  list(APPEND files ${CMAKE_BINARY_DIR}/${arch}.cpp)
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/x.cpp "int main() { return 0; }")
add_executable(x ${CMAKE_BINARY_DIR}/x.cpp ${files})"""
        ),
        command='cmake "${ARCHS--DCMAKE_CUDA_ARCHITECTURES=70;75;80;90}" -S . -B build'
        " && cmake --build build",
        typed="-DCMAKE_CUDA_ARCHITECTURES=",
        action="ARCHS={}",
        needs=("cmake",),
    ),
    Trial(
        cause="oom-killed-compile",
        before="""
        python3 -c 'print("constexpr int t[] = {" + "1," * 2000000 + "};")' > big.cpp""",
        command="(ulimit -v ${MEMORY:-300000}; g++ -fsyntax-only big.cpp)",
        advice="or memory to the container",
        action="MEMORY=unlimited",
    ),
)
