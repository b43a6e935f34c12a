"""Failures at import and at run time, and of the repair of wheels."""

from __future__ import annotations

from tests.support.check.trials import Trial

_LOADED = "python3 -c 'import ctypes; ctypes.CDLL(\"./module.so\")'"
_ONE = "export LD_LIBRARY_PATH=<its folder>:$LD_LIBRARY_PATH"
_WHEEL = """
    echo 'int used(void) { return 0; }' > library.c
    gcc -shared -fPIC -Wl,-soname,libtiny.so.3 library.c -o libtiny.so.3
    echo 'int used(void); int use(void) { return used(); }' > module.c
    gcc -shared -fPIC module.c libtiny.so.3 -o module.so
    wheel tiny 1.0 ''"""
_THREAD_LOCAL = """
    cat > module.c <<'END'
__thread char data[8000] __attribute__((tls_model("initial-exec")));
char *use(void) { return data; }
END
    gcc -shared -fPIC module.c -o module.so"""


def loads(soname: str, cause: str, typed: str = _ONE, placeholder: str = "<its folder>") -> Trial:
    """Return the trial of a module that needs a library in a folder the loader doesn't search."""
    return Trial(
        cause=cause,
        before=f"""
        mkdir lib && echo 'int used(void) {{ return 0; }}' > library.c
        gcc -shared -fPIC -Wl,-soname,{soname} library.c -o lib/{soname}
        echo 'int used(void); int use(void) {{ return used(); }}' > module.c
        gcc -shared -fPIC module.c lib/{soname} -o module.so""",
        command=_LOADED,
        typed=typed,
        values={placeholder: "$PWD/lib"},
    )


def older(cause: str, name: str, soname: str, symbol: str, version: str = "") -> Trial:
    """Return the trial of a library whose older release comes first on LD_LIBRARY_PATH.

    Args:
        name: of the library that needs it.
        symbol: what the older one lacks.
        version: of the symbol.
    """
    script = f"{version} {{ global: *; }};" if version else ""
    flags = "-Wl,--version-script=versions" if version else ""
    return Trial(
        cause=cause,
        before=f"""
        mkdir old own && echo '{script}' > versions
        echo 'int other_name(void) {{ return 0; }}' > old.c
        echo 'int {symbol}(void) {{ return 0; }}' > own.c
        for name in old own; do
            gcc -shared -fPIC {flags} -Wl,-soname,{soname} $name.c -o $name/{soname}
        done
        echo 'int {symbol}(void); int use(void) {{ return {symbol}(); }}' > module.c
        gcc -shared -fPIC module.c own/{soname} -Wl,-rpath,"$PWD/own" -o {name}
        ln -s {name} module.so""",
        settings="export LD_LIBRARY_PATH=$PWD/old",
        command=f"LD_BIND_NOW=1 {_LOADED.replace('module.so', name)}",
        typed="unset LD_LIBRARY_PATH",
    )


TRIALS = (
    loads("libcudart.so.12", "libcudart-not-found"),
    loads("libcudart.so.11.0", "libcudart-not-found"),
    loads("libcublas.so.13", "cuda-math-lib-not-found"),
    loads("libcufft.so.12", "cuda-math-lib-not-found"),
    loads("libcusolver.so.12", "cuda-math-lib-not-found"),
    loads("libnccl.so.2", "cuda-math-lib-not-found"),
    loads(
        "libnvrtc.so.13",
        "libnvrtc-missing",
        "export LD_LIBRARY_PATH=<folder>:$LD_LIBRARY_PATH",
        "<folder>",
    ),
    Trial(
        cause="libcudnn-not-found",
        before="""
        mkdir -p nvidia/cudnn/lib && touch nvidia/cudnn/__init__.py
        echo 'int used;' > library.c
        gcc -shared -fPIC -Wl,-soname,libcudnn.so.9 library.c -o nvidia/cudnn/lib/libcudnn.so.9
        gcc -shared -Wl,--no-as-needed nvidia/cudnn/lib/libcudnn.so.9 -o module.so""",
        command=_LOADED,
        typed="export LD_LIBRARY_PATH=$(python -c",
    ),
    Trial(
        cause="libcuda-driver-missing",
        before="""
        mkdir -p cuda/lib64/stubs && echo 'int cuInit(int x) { return x; }' > library.c
        gcc -shared -fPIC -Wl,-soname,libcuda.so.1 library.c -o cuda/lib64/stubs/libcuda.so
        ln -s libcuda.so cuda/lib64/stubs/libcuda.so.1
        echo 'int cuInit(int); int use(void) { return cuInit(0); }' > module.c
        gcc -shared -fPIC module.c cuda/lib64/stubs/libcuda.so -o module.so""",
        settings="CUDA_HOME=$PWD/cuda",
        command=_LOADED,
        typed="LD_LIBRARY_PATH=$CUDA_HOME",
        action="export {}",
        needs=("driverless",),
    ),
    older(
        "nvjitlink-mismatch",
        "libcusparse.so.12",
        "libnvJitLink.so.12",
        "__nvJitLinkCreate_12_8",
        "libnvJitLink.so.12",
    ),
    older(
        "nccl-version-mismatch",
        "libtorch_cuda.so",
        "libnccl.so.2",
        "ncclCommSplit",
    ),
    older(
        "torch-build-symbol-missing",
        "libtorch_cpu.so",
        "libmkl_fake.so.1",
        "iJIT_NotifyEvent",
    ),
    Trial(
        cause="glibcxx-too-old",
        before="""
        mkdir old && echo 'int other;' > old.c
        gcc -shared -fPIC -Wl,-soname,libstdc++.so.6 old.c -o old/libstdc++.so.6
        printf '%s\\n' '#include <sstream>' \\
            'std::string f() { std::ostringstream s; return s.str(); }' > module.cpp
        g++ -shared -fPIC module.cpp -o module.so""",
        settings="export LD_LIBRARY_PATH=$PWD/old",
        command=_LOADED,
        typed="export LD_PRELOAD=",
    ),
    Trial(
        cause="static-tls-exhausted",
        before=_THREAD_LOCAL,
        command=_LOADED,
        typed="export GLIBC_TUNABLES=",
    ),
    Trial(
        cause="static-tls-exhausted",
        before=_THREAD_LOCAL,
        command=_LOADED,
        typed="export LD_PRELOAD=LIBRARY",
        values={"LIBRARY": "$PWD/module.so"},
    ),
    Trial(
        cause="cxx11-abi-mismatch",
        before="""
        printf '%s\\n' '#include <string>' 'namespace c10 { void check(const std::string &) {} }' \\
            > c10.cpp
        g++ -D_GLIBCXX_USE_CXX11_ABI=0 -shared -fPIC c10.cpp -o libc10.so
        printf '%s\\n' '#include <string>' 'namespace c10 { void check(const std::string &); }' \\
            'void use() { c10::check("x"); }' > module.cpp
        printf '%s\\n' 'cmake_minimum_required(VERSION 3.20)' 'project(x LANGUAGES CXX)' \\
            'add_library(module SHARED module.cpp)' \\
            'target_link_libraries(module ${CMAKE_SOURCE_DIR}/libc10.so)' > CMakeLists.txt""",
        command=f"""
        cmake -S . -B build > log && cmake --build build > log
        cp build/libmodule.so module.so && LD_BIND_NOW=1 {_LOADED}""",
        typed="add_compile_definitions(",
        action="sed -i '2a {}' CMakeLists.txt",
        needs=("cmake",),
    ),
    Trial(
        cause="native-module-shadowed",
        before="""
        mkdir -p site-packages/tiny_ops tiny_ops
        echo 'from tiny_ops import _C' > tiny_ops/__init__.py
        cp tiny_ops/__init__.py site-packages/tiny_ops/
        touch site-packages/tiny_ops/_C.py""",
        settings="export PYTHONPATH=$PWD/site-packages",
        command="python3 -c 'import tiny_ops'",
        typed="cd /",
    ),
    Trial(
        cause="native-crash",
        before="""
        echo '__attribute__((constructor)) void f(void) { *(volatile int *)0 = 1; }' > old.c
        gcc -shared -fPIC old.c -o old.so""",
        settings="export LD_PRELOAD=$PWD/old.so",
        command="""LD_PRELOAD= bash -c 'LD_PRELOAD='$LD_PRELOAD' python3 -c "print(1)"; exit $?'""",
        advice="leave LD_LIBRARY_PATH and (?P<variable>LD_PRELOAD) empty",
        action='export "$variable="',
    ),
    Trial(
        cause="other-cpu-architecture",
        before="""
        mkdir x86_64 aarch64 && echo 'int main(void) { return 0; }' > tool.c
        gcc tool.c -o x86_64/tool && cp x86_64/tool aarch64/tool
        printf '\\xb7' | dd of=aarch64/tool bs=1 seek=18 conv=notrunc status=none""",
        command="bash -c ./${MACHINE:-aarch64}/tool",
        advice="the toolkit for this machine .names end in (?P<end>x86_64)",
        action="MACHINE=$end",
    ),
    Trial(
        cause="auditwheel-lib-not-located",
        before=_WHEEL,
        command="auditwheel repair dist/*.whl",
        typed="auditwheel repair --exclude",
        values={"...": "dist/*.whl"},
        again="{}",
    ),
    Trial(
        cause="auditwheel-lib-not-located",
        before=_WHEEL,
        command="auditwheel repair dist/*.whl",
        typed="LD_LIBRARY_PATH=/folder",
        values={"/folder/of/it": "$PWD", "...": "dist/*.whl"},
        again="{}",
    ),
    Trial(
        cause="auditwheel-symbols-too-recent",
        before="""
        echo 'int pthread_cond_clockwait(); int f() { return pthread_cond_clockwait(); }' > module.c
        gcc -shared -fPIC module.c -o module.so
        wheel tiny 1.0 ''""",
        command="auditwheel repair --plat manylinux_2_28_x86_64 dist/*.whl",
        typed="auditwheel repair --plat",
        values={
            "NN_x86_64": "$(auditwheel show dist/*.whl | grep -o 'GLIBC_2[.][0-9]*' | sort -V"
            " | tail -n 1 | cut -d. -f2)_x86_64 dist/*.whl"
        },
        again="{}",
    ),
)
