"""Whether what a build finds on this machine goes together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.diagnose.verdict import broken, not_asked, warns, works

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.facts.installed_toolkits import Installations, Nvcc
    from cuwheel.diagnose.verdict import Verdict


_C_COMPILERS = ("gcc", "clang")


def judge_installations(
    found: Installations, torch: FrameworkFacts | None, *, has_triton: bool
) -> Iterator[Verdict]:
    """Judge toolkits and compilers: what goes wrong here goes wrong in builds, not at run time.

    Args:
        found: what is there.
        torch: PyTorch, for which extensions may be compiled.
        has_triton: Triton is installed, which compiles C when a kernel is first used.
    """
    if has_triton and not any(tool.path for tool in found.tools if tool.name in _C_COMPILERS):
        yield warns(
            "triton-no-c-compiler",
            "Triton finds no C compiler",
            "it compiles a small C file when a kernel is first used (torch.compile too)",
            "apt-get install gcc, or set CC",
        )
    for one in found.misnamed:
        yield broken(
            "malformed-cuda-home",
            f"{one.variable} is not the folder of a CUDA toolkit",
            f'it is "{one.value}": {one.why}',
            one.fix,
        )
    for nvcc in found.nvccs:
        if nvcc.fault:
            yield not_asked(str(nvcc.path), nvcc.fault)
    for tool in found.tools:
        if tool.fault:
            yield not_asked(str(tool.path), tool.fault)
    usable = [nvcc for nvcc in found.nvccs if nvcc.release]
    if not usable:
        return
    faults = [
        *_disagreement(found),
        *_host_fault(found, usable[0]),
        *_torch_fault(usable[0], torch),
    ]
    yield from faults
    if not faults:
        yield works(f"builds use nvcc {usable[0].version}, {usable[0].path}")


def _disagreement(found: Installations) -> Iterator[Verdict]:
    """PyTorch and CMake ask CUDA_HOME and PATH in another order."""
    on_path = found.nvcc_found_by("PATH")
    named = next((nvcc for nvcc in found.nvccs if _variable_of(nvcc)), None)
    if named and on_path and named.release and on_path.release not in ("", named.release):
        yield warns(
            "wrong-nvcc-picked",
            f"{_variable_of(named)} and PATH point to two releases of CUDA",
            f"{named.path} is {named.release}, {on_path.path} is {on_path.release}; some builds "
            "use one, some the other",
            f"put {named.path.parent} first on PATH, or change {_variable_of(named)}",
        )
    elif on_path and on_path.release and "the distribution" in on_path.found and not named:
        newer = [nvcc for nvcc in found.nvccs if _key(nvcc) > _key(on_path)]
        if newer:
            yield warns(
                "wrong-nvcc-picked",
                f"the distribution's nvcc {on_path.release} hides a newer one",
                f"{on_path.path} is first on PATH, {newer[0].path} is {newer[0].release}",
                f"put {newer[0].path.parent} first on PATH and set CUDA_HOME to its parent folder",
            )


def _variable_of(nvcc: Nvcc) -> str:
    named = (name for name in nvcc.found if name in {"CUDACXX", "CUDA_HOME", "CUDA_PATH"})
    return next(named, "")


def _key(nvcc: Nvcc) -> tuple[int, ...]:
    return tuple(map(int, nvcc.release.split("."))) if nvcc.release else ()


def _host_fault(found: Installations, nvcc: Nvcc) -> Iterator[Verdict]:
    host = found.host
    if host is None or not host.version or nvcc.max_gcc is None or "clang" in host.name:
        return
    if int(host.version.split(".")[0]) > nvcc.max_gcc:
        yield warns(
            "host-compiler-too-new",
            f"nvcc {nvcc.release} doesn't support {host.name} {host.version}",
            f"{nvcc.path} supports GCC up to {nvcc.max_gcc}; {host.path} is the compiler "
            "that it would call",
            f"apt-get install g++-{nvcc.max_gcc} and set NVCC_CCBIN=g++-{nvcc.max_gcc}, or use "
            "a newer toolkit",
        )


def _torch_fault(nvcc: Nvcc, torch: FrameworkFacts | None) -> Iterator[Verdict]:
    """`torch.utils.cpp_extension` refuses another major release."""
    if torch and torch.cuda and torch.major != nvcc.release.split(".")[0]:
        yield warns(
            "torch-cuda-mismatch",
            f"extensions for this torch can't be compiled with nvcc {nvcc.release}",
            f"torch {torch.version} was built with CUDA {torch.cuda}, and builds here use "
            f"{nvcc.path}",
            f"set CUDA_HOME to a toolkit of CUDA {torch.cuda} for such a build",
        )
