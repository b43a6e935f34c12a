"""Functions of NVIDIA's driver by the CUDA release that brought them.

A library that needs a function of `libcuda.so.1` can't be loaded where the driver is older than
that. The names are those that `cuda.h` of a release declares and the one before doesn't; read from
nvidia-cuda-runtime-cu12 12.0.146 to 12.9.79 and nvidia-cuda-runtime 13.0.96 to 13.5.37. Variants
for per-thread streams (`_ptsz`, `_ptds`) came with their plain form.
"""

from __future__ import annotations

_NEW = {
    "12.1": """
        cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal cuCoredumpSetAttribute
        cuCoredumpSetAttributeGlobal cuCtxSetFlags cuMulticastAddDevice
        cuMulticastBindAddr cuMulticastBindMem cuMulticastCreate cuMulticastGetGranularity
        cuMulticastUnbind
    """,
    "12.2": """
        cuGraphAddNode cuGraphExecNodeSetParams cuGraphNodeSetParams cuMemAdvise_v2
        cuMemPrefetchAsync_v2
    """,
    "12.3": """
        cuFuncGetName cuGraphAddDependencies_v2 cuGraphAddNode_v2
        cuGraphConditionalHandleCreate cuGraphGetEdges_v2 cuGraphNodeGetDependencies_v2
        cuGraphNodeGetDependentNodes_v2 cuGraphRemoveDependencies_v2 cuKernelGetName
        cuStreamBeginCaptureToGraph cuStreamGetCaptureInfo_v3
        cuStreamUpdateCaptureDependencies_v2
    """,
    "12.4": """
        cuCtxFromGreenCtx cuCtxGetDevResource cuDevResourceGenerateDesc
        cuDevSmResourceSplitByCount cuDeviceGetDevResource
        cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification
        cuFuncGetParamInfo cuFuncIsLoaded cuFuncLoad cuGreenCtxCreate cuGreenCtxDestroy
        cuGreenCtxGetDevResource cuGreenCtxRecordEvent cuGreenCtxWaitEvent
        cuKernelGetParamInfo cuLibraryEnumerateKernels cuLibraryGetKernelCount
        cuModuleEnumerateFunctions cuModuleGetFunctionCount cuStreamGetGreenCtx
    """,
    "12.5": """
        cuCtxCreate_v4 cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxStreamCreate
        cuKernelGetLibrary cuStreamGetCtx_v2
    """,
    "12.8": """
        cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId
        cuCheckpointProcessGetState cuCheckpointProcessLock cuCheckpointProcessRestore
        cuCheckpointProcessUnlock cuEventElapsedTime_v2 cuMemBatchDecompressAsync
        cuMemcpy3DBatchAsync cuMemcpyBatchAsync cuStreamGetDevice
        cuTensorMapEncodeIm2colWide
    """,
    "12.9": """
        cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuLogsRegisterCallback
        cuLogsUnregisterCallback
    """,
    "13.0": """
        cuCtxGetDevice_v2 cuCtxSynchronize_v2 cuDeviceGetHostAtomicCapabilities
        cuDeviceGetP2PAtomicCapabilities cuGreenCtxGetId cuMemDiscardAndPrefetchBatchAsync
        cuMemDiscardBatchAsync cuMemGetDefaultMemPool cuMemGetMemPool
        cuMemPrefetchBatchAsync cuMemSetMemPool cuMemcpy3DBatchAsync_v2
        cuMemcpyBatchAsync_v2
    """,
    "13.1": """
        cuDevSmResourceSplit cuGraphExecGetId cuGraphGetId cuGraphNodeGetContainingGraph
        cuGraphNodeGetLocalId cuGraphNodeGetToolsId cuMulticastBindAddr_v2
        cuMulticastBindMem_v2 cuStreamGetDevResource
    """,
    "13.2": """
        cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback
        cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback
        cuFuncGetParamCount cuGraphNodeGetParams cuKernelGetParamCount cuLaunchHostFunc_v2
        cuMemcpy3DWithAttributesAsync cuMemcpyWithAttributesAsync
        cuStreamBeginCaptureToCig cuStreamEndCaptureToCig
    """,
    "13.3": """
        cuLogicalEndpointAddDevice cuLogicalEndpointBindAddr cuLogicalEndpointBindMem
        cuLogicalEndpointCreate cuLogicalEndpointDestroy cuLogicalEndpointExport
        cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease cuLogicalEndpointIdReserve
        cuLogicalEndpointImport cuLogicalEndpointQuery cuLogicalEndpointUnbind
        cuStreamBeginRecaptureToGraph
    """,
    "13.4": """
        cuCheckpointOperationComplete cuDeviceGetCliqueCount cuDeviceGetCliqueInfo
        cuDeviceGetFabricClusterUuid cuGraphAddNode_v3 cuGraphNodeSetParams_v2
        cuMemGetLocationInfo
    """,
    "13.5": """
        cuFabricCpyBatchAsync cuTensorMapSetAllocationClass
    """,
}
_RELEASES = {name: release for release, names in _NEW.items() for name in names.split()}
_VARIANTS = ("_ptsz", "_ptds")


def release_of_function(name: str) -> str | None:
    """The CUDA release whose driver first had a function; None for 12.0 and earlier, or unknown.

    Args:
        name: as a library names it, `cuMemcpyBatchAsync_ptsz`.
    """
    for variant in _VARIANTS:
        name = name.removesuffix(variant)
    return _RELEASES.get(name)
