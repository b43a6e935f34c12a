"""Functions of NVIDIA's libraries that were added while the library kept its name, by release.

A library that needs one can't be loaded with an older release, which a requirement may allow. Those
of the runtime: names that `libcudart.so.12` of a wheel exports and the one before doesn't, from
nvidia-cuda-runtime-cu12 12.0.146 to 12.9.79, and from nvidia-cuda-runtime 13.0.96 to 13.5.37. Those
of NCCL: likewise, from nvidia-nccl-cu12 2.16.5 to 2.32.3, the newest of each minor release.

runtime_functions.txt has all names of the runtime, each under the CUDA majors of which a release
exports it: nvidia-cuda-runtime-cu11 11.8.89, -cu12 12.0.107 to 12.9.79, nvidia-cuda-runtime 13.0.48
to 13.5.37.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_VARIANTS = ("_ptsz", "_ptds")  # of the same release
_ADDED = {
    "12.1": "cudaGetKernel",
    "12.2": "cudaGraphAddNode cudaGraphExecNodeSetParams cudaGraphNodeSetParams cudaMemAdvise_v2 "
    "cudaMemPrefetchAsync_v2",
    "12.3": "cudaFuncGetName cudaGraphAddDependencies_v2 cudaGraphAddNode_v2 "
    "cudaGraphConditionalHandleCreate cudaGraphGetEdges_v2 cudaGraphNodeGetDependencies_v2 "
    "cudaGraphNodeGetDependentNodes_v2 cudaGraphRemoveDependencies_v2 "
    "cudaStreamBeginCaptureToGraph cudaStreamGetCaptureInfo_v3 "
    "cudaStreamUpdateCaptureDependencies_v2",
    "12.4": "cudaDeviceRegisterAsyncNotification cudaDeviceUnregisterAsyncNotification "
    "cudaFuncGetParamInfo",
    "12.5": "cudaGetDriverEntryPointByVersion",
    "12.8": "cudaEventElapsedTime_v2 cudaKernelSetAttributeForDevice cudaLibraryEnumerateKernels "
    "cudaLibraryGetGlobal cudaLibraryGetKernel cudaLibraryGetKernelCount cudaLibraryGetManaged "
    "cudaLibraryGetUnifiedFunction cudaLibraryLoadData cudaLibraryLoadFromFile cudaLibraryUnload "
    "cudaMemcpy3DBatchAsync cudaMemcpyBatchAsync cudaStreamGetDevice",
    "13.1": "cudaDevResourceGenerateDesc cudaDevSmResourceSplit cudaDevSmResourceSplitByCount "
    "cudaDeviceGetDevResource cudaDeviceGetExecutionCtx cudaExecutionCtxDestroy "
    "cudaExecutionCtxGetDevResource cudaExecutionCtxGetDevice cudaExecutionCtxGetId "
    "cudaExecutionCtxRecordEvent cudaExecutionCtxStreamCreate cudaExecutionCtxSynchronize "
    "cudaExecutionCtxWaitEvent cudaGraphConditionalHandleCreate_v2 cudaGraphExecGetId "
    "cudaGraphGetId cudaGraphNodeGetContainingGraph cudaGraphNodeGetLocalId "
    "cudaGraphNodeGetToolsId cudaGreenCtxCreate cudaStreamGetDevResource",
    "13.2": "cudaFuncGetParamCount cudaGraphNodeGetParams cudaLaunchHostFunc_v2 "
    "cudaMemcpy3DWithAttributesAsync cudaMemcpyWithAttributesAsync",
    "13.3": "cudaStreamBeginRecaptureToGraph cudaSubgridCreate cudaSubgridWorkerGridCreate "
    "cudaSubgridWorksetCreate",
    "13.4": "cudaMemGetLocationInfo",
    "2.18": "ncclCommSplit",
    "2.19": "ncclCommDeregister ncclCommRegister ncclMemAlloc ncclMemFree",
    "2.22": "ncclGroupSimulateEnd",
    "2.23": "ncclCommInitRankScalable",
    "2.27": "ncclCommShrink ncclCommWindowDeregister ncclCommWindowRegister",
}
_RELEASES = {name: release for release, names in _ADDED.items() for name in names.split()}


def release_with(function: str) -> str:
    """Return the release of CUDA 12 or 13, or of NCCL, that added a function; empty: not known."""
    return _RELEASES.get(_plain(function), "")


def runtime_majors(function: str) -> frozenset[int]:
    """Return the CUDA majors from 11 on of which the runtime has a function."""
    return _runtime_functions().get(_plain(function), frozenset())


@cache
def _runtime_functions() -> dict[str, frozenset[int]]:
    """Return the table: name → majors."""
    functions, majors = {}, frozenset[int]()
    table = Path(__file__).with_name("runtime_functions.txt").read_text(encoding="utf-8")
    for word in table.split():
        if word[0].isdigit():
            majors = frozenset(map(int, word.split(",")))
        else:
            functions[word] = majors
    return functions


def _plain(function: str) -> str:
    for variant in _VARIANTS:
        function = function.removesuffix(variant)
    return function
