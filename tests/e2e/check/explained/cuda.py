"""Failures of builds with nvcc, and of builds that look for it."""

from __future__ import annotations

from tests.support.check.trials import Trial

_KERNEL = "echo '__global__ void k() {}' > k.cu"
_NVCC = "export PATH=$TOOLKIT/bin:$PATH"
_HOME = {"/usr/local/cuda": "$TOOLKIT"}
# An nvcc of another release, as far as a build that asks for its version can see.
_OTHER_NVCC = """
    mkdir -p old/bin
    printf '#!/bin/sh\\necho Cuda compilation tools, release {}\\n' > old/bin/nvcc
    chmod +x old/bin/nvcc"""
# CMake finds a toolkit of the machine.
_HIDDEN = "unshare --user --map-root-user --mount bash -c 'mount -t tmpfs none /usr/local"
_RELEASE = "$(nvcc --version | sed -n 's/.*release \\([0-9.]*\\).*/\\1/p')"


def make(command: str, source: str = "__global__ void k() {}") -> str:
    """Return a command that writes a source and the Makefile that compiles it."""
    return f"""
    cat > k.cu <<'END'
{source}
END
    printf 'all:\\n\\t%s\\n' '{command}' > Makefile"""


def checks(cause: str, error: str, typed: str, release: str, values: dict[str, str]) -> Trial:
    """Return the trial of a build that compares the release of nvcc itself."""
    return Trial(
        cause=cause,
        before=f"{_OTHER_NVCC.format(release)}\n{_KERNEL}",
        settings="export PATH=$PWD/old/bin:$PATH",
        command=f"""
        [ {_RELEASE} != {release} ] || {{ echo "{error}"; exit 1; }}
        nvcc -ptx k.cu""",
        typed=typed,
        values=values,
        needs=("cuda",),
    )


def nvcc(  # noqa: PLR0913 - each is a part of the trial
    cause: str,
    command: str,
    advice: str,
    action: str,
    *,
    typed: str = "",
    source: str = "__global__ void k() {}",
    settings: str = "true",
    is_slow: bool = False,
) -> Trial:
    """Return the trial of a Makefile that runs nvcc."""
    return Trial(
        cause=cause,
        before=make(command, source),
        settings=f"{_NVCC}; {settings}",
        command="make",
        advice=advice,
        typed=typed or (),
        action=action,
        needs=("cuda",),
        is_slow=is_slow,
    )


def configures(  # noqa: PLR0913 - each is a part of the trial
    cause: str,
    lines: str,
    typed: str,
    action: str = "{}",
    *,
    options: str = "",
    again: str = "",
    before: str = "true",
    values: dict[str, str] | None = None,
) -> Trial:
    """Return the trial of a CMake project that uses CUDA."""
    return Trial(
        cause=cause,
        before=f"""{before}; {_KERNEL}
        printf '%s\\n' 'cmake_minimum_required(VERSION 3.20)' '{lines}' > CMakeLists.txt""",
        settings="export PATH=$PWD/old/bin:$PATH",
        command=f"{_HIDDEN} && cmake -S . -B build ${{OPTION-{options}}}'",
        typed=typed,
        action=action,
        again=again,
        values=_HOME if values is None else values,
        needs=("cuda", "cmake", "namespaces"),
        is_slow=True,
    )


TRIALS = (
    Trial(
        cause="nvcc-not-found",
        before=make("nvcc -ptx k.cu"),
        command="make",
        typed="export CUDA_HOME=/usr/local/cuda",
        values=_HOME,
        needs=("cuda",),
    ),
    Trial(
        cause="cuda-home-not-set",
        before=f"""{_KERNEL}
        cat > build.py <<'END'
import os, subprocess
subprocess.check_call([os.environ["CUDA_HOME"] + "/bin/nvcc", "-ptx", "k.cu"])
END""",
        command="python3 build.py",
        typed="export CUDA_HOME=/usr/local/cuda",
        values=_HOME,
        needs=("cuda",),
    ),
    Trial(
        cause="malformed-cuda-home",
        before=make("$(CUDA_HOME)/bin/nvcc -ptx k.cu"),
        settings="export CUDA_HOME=$CUDA_HOME:$TOOLKIT",
        command="make",
        typed="export CUDA_HOME=/usr/local/cuda",
        values=_HOME,
        needs=("cuda",),
    ),
    checks(
        "wrong-nvcc-picked",
        "error: nvcc in PATH is 11.5, it differs from CUDA_HOME",
        "export CUDA_HOME=/usr/local/cuda",
        "11.5",
        _HOME,
    ),
    checks(
        "nvcc-older-than-package-minimum",
        "RuntimeError: this kernel requires CUDA >= 12.4, got 11.8",
        "export CUDA_HOME=/usr/local/cuda-12.4",
        "11.8",
        {"/usr/local/cuda-12.4": "$TOOLKIT"},
    ),
    checks(
        "package-refuses-newer-cuda",
        "error: this release does not yet support CUDA 13.9",
        "export CUDA_HOME=/usr/local/cuda",
        "13.9",
        {"/usr/local/cuda-<older>": "$TOOLKIT"},
    ),
    Trial(
        cause="conflicting-cuda-installs",
        before=f"""ln -s $TOOLKIT cuda
        printf '%s\\n' 'ifneq ($(CUDA_HOME),$(CUDA_PATH))' \\
            '$(error Inconsistent CUDA toolkit path: $(CUDA_HOME) vs $(CUDA_PATH))' endif \\
            'all:' '\t$(CUDA_HOME)/bin/nvcc -ptx k.cu' > Makefile
        {_KERNEL}""",
        settings="export CUDA_HOME=$PWD/cuda CUDA_PATH=$TOOLKIT",
        command="make",
        typed=("T=", "export CUDA_HOME=$T"),
        values={"/usr/local/cuda": "$PWD/cuda"},
        needs=("cuda",),
    ),
    configures(
        "cmake-cuda-compiler-not-found",
        "project(x LANGUAGES CUDA)",
        "export CUDACXX=/usr/local/cuda/bin/nvcc",
        "{}; rm -rf build",
    ),
    configures(
        "cmake-cuda-root-not-found",
        "project(x LANGUAGES CXX)\nfind_package(CUDAToolkit REQUIRED)",
        "-DCUDAToolkit_ROOT=",
        "export OPTION={}; rm build/CMakeCache.txt",
        before=_OTHER_NVCC.format("11.8"),
    ),
    configures(
        "cmake-cuda-arch-undetected",
        "project(x LANGUAGES CUDA)",
        "cmake -S . -B build",
        "export CUDA_HOME=$TOOLKIT; rm -rf build",
        options="-DCMAKE_CUDA_ARCHITECTURES= -DCMAKE_CUDA_COMPILER=$TOOLKIT/bin/nvcc",
        again="{}",
        values={},
    ),
    nvcc(
        "arch-newer-than-nvcc",
        "nvcc -gencode arch=compute_130,code=sm_130 -c k.cu",
        "-gencode to what `(?P<list>nvcc --list-gpu-arch)` prints",
        'sed -i "s/130/$($list | tail -n 1 | cut -d_ -f2)/g" Makefile',
    ),
    nvcc(
        "arch-dropped-by-nvcc",
        "nvcc --version && nvcc -gencode arch=compute_60,code=sm_60 "
        "-gencode arch=compute_75,code=sm_75 -c k.cu",
        "Remove 60 from the list of architectures",
        'sed -i "s/{}//" Makefile',
        typed="-gencode arch=",
    ),
    nvcc(
        "arch-list-malformed",
        "nvcc -gencode arch=compute_1200,code=sm_1200 -c k.cu",
        "nvcc's flag as",
        'sed -i "s/-gencode [^ ]*/{}/" Makefile',
        typed="-gencode arch=",
    ),
    nvcc(
        "arch-list-mismatch",
        "nvcc -gencode arch=compute_90,code=sm_80 -c k.cu",
        "numbers of arch=compute_XX and code=sm_XX belong together",
        "sed -i s/sm_80/sm_90/ Makefile",
    ),
    nvcc(
        "nvcc-unknown-option",
        "nvcc --gpu-infos -c k.cu",
        "remove the option from the package's flags",
        "sed -i s/--gpu-infos// Makefile",
    ),
    nvcc(
        "host-flag-passed-to-nvcc",
        "nvcc -Wall -c k.cu",
        "",
        'sed -i "s/-Wall/{}/" Makefile',
        typed="-Xcompiler=",
    ),
    nvcc(
        "host-flag-passed-to-nvcc",
        "nvcc -Wall -c k.cu",
        "",
        "{}",
        typed="export NVCC_APPEND_FLAGS=",
    ),
    nvcc(
        "nvcc-too-old-for-std",
        "nvcc -std=c++26 -c k.cu",
        "lower the standard .*-std in setup.py",
        "sed -i s/c++26/c++20/ Makefile",
    ),
    nvcc(
        "nvcc-bad-command-line",
        "nvcc -c k.cu",
        "",
        "{}",
        typed="unset CFLAGS",
        settings="export NVCC_APPEND_FLAGS=-ccbin",
    ),
    nvcc(
        "host-function-in-device-code",
        "nvcc -ptx k.cu",
        "",
        "{}",
        typed="export NVCC_APPEND_FLAGS=",
        source="""constexpr int twice(int x) { return 2 * x; }
__global__ void k(int *out) { *out = twice(*out); }""",
    ),
    nvcc(
        "nvcc-new-language-rule",
        "nvcc -c k.cu",
        "`extern (?P<line>const char cubin_start.1.);` is not",
        'sed -i "s/const char cubin_start../$line/" k.cu',
        source="namespace { extern const char cubin_start[]; }",
    ),
    nvcc(
        "cuda13-cccl-api-removed",
        "nvcc -c k.cu",
        "prop.clockRate → cudaDeviceGetAttribute",
        "sed -i 's/return p.clockRate/int r; cudaDeviceGetAttribute(\\&r, "
        "cudaDevAttrClockRate, 0); return r/' k.cu",
        source="int f() { cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); return p.clockRate; }",
    ),
    nvcc(
        "cuda12-texture-ref-removed",
        "nvcc -ptx k.cu",
        "tex1Dfetch.t, i. → (?P<port>tex1Dfetch<float>.t, i.)",
        'echo "__global__ void k(cudaTextureObject_t t, float *o, int i) { *o = $port; }" > k.cu',
        source="texture<float, 1> t;\n"
        "__global__ void k(float *o, int i) { *o = tex1Dfetch(t, i); }",
    ),
    Trial(
        cause="host-compiler-too-new",
        before=f"""{_KERNEL}
        mkdir new && ln -s "$(command -v g++)" new/g++-15
        printf '#!/bin/sh\\nexec /usr/bin/g++ -U__GNUC__ -D__GNUC__=19 "$@"\\n' > new/gcc
        chmod +x new/gcc""",
        settings=f"{_NVCC}; export PATH=$PWD/new:$PATH",
        command="nvcc -ptx k.cu",
        typed="export NVCC_PREPEND_FLAGS=",
        needs=("cuda",),
    ),
    Trial(
        cause="nvcc-unsupported-host-compiler-kind",
        before=f"""{_KERNEL}
        mkdir icc && printf '#!/bin/sh\\nexec g++ -D__ICC=2021 "$@"\\n' > icc/icpc
        chmod +x icc/icpc""",
        settings=f"{_NVCC}; export PATH=$PWD/icc:$PATH",
        command="nvcc -ccbin ${CC:-icpc} -ptx k.cu",
        typed="export CC=gcc",
        needs=("cuda",),
    ),
    Trial(
        cause="nvcc-headers-version-mix",
        before="""
        mkdir old && sed 's/\\(define CUDART_VERSION\\).*/\\1 12080/' \\
            $TOOLKIT/include/cuda_runtime_api.h > old/cuda_runtime_api.h
        printf '#include <cuda_runtime_api.h>\\nCUDART_VERSION\\n' > version.cpp""",
        settings="export CPATH=$PWD/old",
        command="""
        release=$(g++ -E -P -idirafter $TOOLKIT/include version.cpp | tail -n 1)
        if [ "$release" != 13000 ]; then
            echo "error: nvcc says 13.0, but the CUDA headers say the version is 12.8" && exit 1
        fi""",
        typed="unset CPATH",
        needs=("cuda",),
    ),
    Trial(
        cause="rdc-device-link-missing",
        before=make(
            "nvcc -rdc=true -c k.cu && g++ k.o -L$$TOOLKIT/lib64 -lcudart -o program",
            "__global__ void k() {}\nint main() { k<<<1, 1>>>(); }",
        ),
        settings=_NVCC,
        command="make",
        advice="Link with nvcc instead of g..",
        action="sed -i 's/g++ k.o/nvcc k.o/' Makefile",
        needs=("cuda",),
        is_slow=True,
    ),
    Trial(
        cause="cudart-older-than-nvcc",
        before="""
        echo '__global__ void k() {} int main() { k<<<1, 1>>>(); }' > k.cu
        $TOOLKIT/bin/nvcc -c k.cu
        mkdir old && nm -u k.o | sed -n 's/.* U \\(\\w*[cC]uda\\w*\\)$/\\1/p' |
            grep -v 'LaunchKernel\\|GetKernel' | sed 's/.*/int &(void) { return 0; }/' > old.c
        gcc -shared -fPIC old.c -o old/libcudart.so""",
        settings="export LIBRARY_PATH=$PWD/old",
        command="g++ k.o -lcudart -o program",
        typed="export LIBRARY_PATH=",
        values={"$CUDA_HOME": "$TOOLKIT"},
        needs=("cuda",),
    ),
    Trial(
        cause="missing-cuda-libs-link",
        before="""
        echo '__global__ void k() {} int main() { k<<<1, 1>>>(); }' > k.cu
        $TOOLKIT/bin/nvcc -c k.cu""",
        settings="export LIBRARY_PATH=$TOOLKIT/lib64",
        command="g++ k.o $LIBRARIES -o program",
        typed="-lcudart",
        advice="after the objects that need it",
        action="LIBRARIES={}",
        needs=("cuda",),
    ),
    Trial(
        cause="lto-drops-fatbin",
        before="""
        echo '__global__ void k() {} int g(); int main() { k<<<1, 1>>>(); return g(); }' > k.cu
        echo '__global__ void l() {} int g() { l<<<1, 1>>>(); return 0; }' > l.cu""",
        settings=f"{_NVCC}; export CXXFLAGS=-flto",
        command="""nvcc -Xcompiler "$CXXFLAGS $LAST" -c k.cu l.cu
        g++ $CXXFLAGS $LAST k.o l.o -L$TOOLKIT/lib64 -lcudart -o program""",
        typed="-fno-lto",
        action="LAST={}",
        needs=("cuda",),
        is_slow=True,
    ),
)
