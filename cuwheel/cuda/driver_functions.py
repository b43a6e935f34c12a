"""Functions of NVIDIA's driver by the CUDA release that brought them.

A library that needs a function of `libcuda.so.1` can't be loaded where the driver is older than
that. The names are those that `cuda.h` of a release declares and the one before doesn't; read from
nvidia-cuda-runtime-cu12 12.0.146 to 12.9.79 and nvidia-cuda-runtime 13.0.96 to 13.5.37. Variants
for per-thread streams (`_ptsz`, `_ptds`) came with their plain form.
"""

from __future__ import annotations

# Of CUDA 12.0 and before: `cuda.h`, `cudaGL.h`, `cudaEGL.h`, `cudaVDPAU.h` of the first of these
# wheels, under the names that the headers' macros give them, and the three of `cudaProfiler.h`.
_OLD = """
    cuArray3DCreate cuArray3DCreate_v2 cuArray3DGetDescriptor cuArray3DGetDescriptor_v2
    cuArrayCreate cuArrayCreate_v2 cuArrayDestroy cuArrayGetDescriptor cuArrayGetDescriptor_v2
    cuArrayGetMemoryRequirements cuArrayGetPlane cuArrayGetSparseProperties cuCtxAttach
    cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxDestroy cuCtxDestroy_v2 cuCtxDetach
    cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxGetApiVersion cuCtxGetCacheConfig
    cuCtxGetCurrent cuCtxGetDevice cuCtxGetExecAffinity cuCtxGetFlags cuCtxGetId cuCtxGetLimit
    cuCtxGetSharedMemConfig cuCtxGetStreamPriorityRange cuCtxPopCurrent cuCtxPopCurrent_v2
    cuCtxPushCurrent cuCtxPushCurrent_v2 cuCtxResetPersistingL2Cache cuCtxSetCacheConfig
    cuCtxSetCurrent cuCtxSetLimit cuCtxSetSharedMemConfig cuCtxSynchronize
    cuDestroyExternalMemory cuDestroyExternalSemaphore cuDeviceCanAccessPeer
    cuDeviceComputeCapability cuDeviceGet cuDeviceGetAttribute cuDeviceGetByPCIBusId
    cuDeviceGetCount cuDeviceGetDefaultMemPool cuDeviceGetExecAffinitySupport
    cuDeviceGetGraphMemAttribute cuDeviceGetLuid cuDeviceGetMemPool cuDeviceGetName
    cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAttribute cuDeviceGetPCIBusId
    cuDeviceGetProperties cuDeviceGetTexture1DLinearMaxWidth cuDeviceGetUuid cuDeviceGetUuid_v2
    cuDeviceGraphMemTrim cuDevicePrimaryCtxGetState cuDevicePrimaryCtxRelease
    cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
    cuDeviceSetGraphMemAttribute cuDeviceSetMemPool cuDeviceTotalMem cuDeviceTotalMem_v2
    cuDriverGetVersion cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerConnect
    cuEGLStreamConsumerConnectWithFlags cuEGLStreamConsumerDisconnect
    cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect cuEGLStreamProducerDisconnect
    cuEGLStreamProducerPresentFrame cuEGLStreamProducerReturnFrame cuEventCreate
    cuEventCreateFromEGLSync cuEventDestroy cuEventDestroy_v2 cuEventElapsedTime cuEventQuery
    cuEventRecord cuEventRecordWithFlags cuEventSynchronize cuExternalMemoryGetMappedBuffer
    cuExternalMemoryGetMappedMipmappedArray cuFlushGPUDirectRDMAWrites cuFuncGetAttribute
    cuFuncGetModule cuFuncSetAttribute cuFuncSetBlockShape cuFuncSetCacheConfig
    cuFuncSetSharedMemConfig cuFuncSetSharedSize cuGLCtxCreate cuGLCtxCreate_v2 cuGLGetDevices
    cuGLGetDevices_v2 cuGLInit cuGLMapBufferObject cuGLMapBufferObjectAsync
    cuGLMapBufferObjectAsync_v2 cuGLMapBufferObject_v2 cuGLRegisterBufferObject
    cuGLSetBufferObjectMapFlags cuGLUnmapBufferObject cuGLUnmapBufferObjectAsync
    cuGLUnregisterBufferObject cuGetErrorName cuGetErrorString cuGetExportTable cuGetProcAddress
    cuGetProcAddress_v2 cuGraphAddBatchMemOpNode cuGraphAddChildGraphNode cuGraphAddDependencies
    cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode
    cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
    cuGraphAddHostNode cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemAllocNode
    cuGraphAddMemFreeNode cuGraphAddMemcpyNode cuGraphAddMemsetNode
    cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph
    cuGraphClone cuGraphCreate cuGraphDebugDotPrint cuGraphDestroy cuGraphDestroyNode
    cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent
    cuGraphEventWaitNodeSetEvent cuGraphExecBatchMemOpNodeSetParams
    cuGraphExecChildGraphNodeSetParams cuGraphExecDestroy cuGraphExecEventRecordNodeSetEvent
    cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
    cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetFlags
    cuGraphExecHostNodeSetParams cuGraphExecKernelNodeSetParams
    cuGraphExecKernelNodeSetParams_v2 cuGraphExecMemcpyNodeSetParams
    cuGraphExecMemsetNodeSetParams cuGraphExecUpdate cuGraphExecUpdate_v2
    cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
    cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams
    cuGraphGetEdges cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams
    cuGraphHostNodeSetParams cuGraphInstantiate cuGraphInstantiateWithFlags
    cuGraphInstantiateWithParams cuGraphInstantiate_v2 cuGraphKernelNodeCopyAttributes
    cuGraphKernelNodeGetAttribute cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2
    cuGraphKernelNodeSetAttribute cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2
    cuGraphLaunch cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams
    cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams
    cuGraphMemsetNodeSetParams cuGraphNodeFindInClone cuGraphNodeGetDependencies
    cuGraphNodeGetDependentNodes cuGraphNodeGetEnabled cuGraphNodeGetType cuGraphNodeSetEnabled
    cuGraphReleaseUserObject cuGraphRemoveDependencies cuGraphRetainUserObject cuGraphUpload
    cuGraphicsEGLRegisterImage cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage
    cuGraphicsMapResources cuGraphicsResourceGetMappedEglFrame
    cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer
    cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags
    cuGraphicsResourceSetMapFlags_v2 cuGraphicsSubResourceGetMappedArray
    cuGraphicsUnmapResources cuGraphicsUnregisterResource cuGraphicsVDPAURegisterOutputSurface
    cuGraphicsVDPAURegisterVideoSurface cuImportExternalMemory cuImportExternalSemaphore cuInit
    cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle
    cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 cuKernelGetAttribute cuKernelGetFunction
    cuKernelSetAttribute cuKernelSetCacheConfig cuLaunch cuLaunchCooperativeKernel
    cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync cuLaunchHostFunc
    cuLaunchKernel cuLaunchKernelEx cuLibraryGetGlobal cuLibraryGetKernel cuLibraryGetManaged
    cuLibraryGetModule cuLibraryGetUnifiedFunction cuLibraryLoadData cuLibraryLoadFromFile
    cuLibraryUnload cuLinkAddData cuLinkAddData_v2 cuLinkAddFile cuLinkAddFile_v2 cuLinkComplete
    cuLinkCreate cuLinkCreate_v2 cuLinkDestroy cuMemAddressFree cuMemAddressReserve cuMemAdvise
    cuMemAlloc cuMemAllocAsync cuMemAllocFromPoolAsync cuMemAllocHost cuMemAllocHost_v2
    cuMemAllocManaged cuMemAllocPitch cuMemAllocPitch_v2 cuMemAlloc_v2 cuMemCreate
    cuMemExportToShareableHandle cuMemFree cuMemFreeAsync cuMemFreeHost cuMemFree_v2
    cuMemGetAccess cuMemGetAddressRange cuMemGetAddressRange_v2 cuMemGetAllocationGranularity
    cuMemGetAllocationPropertiesFromHandle cuMemGetHandleForAddressRange cuMemGetInfo
    cuMemGetInfo_v2 cuMemHostAlloc cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
    cuMemHostGetFlags cuMemHostRegister cuMemHostRegister_v2 cuMemHostUnregister
    cuMemImportFromShareableHandle cuMemMap cuMemMapArrayAsync cuMemPoolCreate cuMemPoolDestroy
    cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolGetAccess
    cuMemPoolGetAttribute cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
    cuMemPoolSetAccess cuMemPoolSetAttribute cuMemPoolTrimTo cuMemPrefetchAsync
    cuMemRangeGetAttribute cuMemRangeGetAttributes cuMemRelease cuMemRetainAllocationHandle
    cuMemSetAccess cuMemUnmap cuMemcpy cuMemcpy2D cuMemcpy2DAsync cuMemcpy2DAsync_v2
    cuMemcpy2DUnaligned cuMemcpy2DUnaligned_v2 cuMemcpy2D_v2 cuMemcpy3D cuMemcpy3DAsync
    cuMemcpy3DAsync_v2 cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3D_v2 cuMemcpyAsync
    cuMemcpyAtoA cuMemcpyAtoA_v2 cuMemcpyAtoD cuMemcpyAtoD_v2 cuMemcpyAtoH cuMemcpyAtoHAsync
    cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2 cuMemcpyDtoA cuMemcpyDtoA_v2 cuMemcpyDtoD
    cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoH cuMemcpyDtoHAsync
    cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2
    cuMemcpyHtoA_v2 cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2
    cuMemcpyPeer cuMemcpyPeerAsync cuMemsetD16 cuMemsetD16Async cuMemsetD16_v2 cuMemsetD2D16
    cuMemsetD2D16Async cuMemsetD2D16_v2 cuMemsetD2D32 cuMemsetD2D32Async cuMemsetD2D32_v2
    cuMemsetD2D8 cuMemsetD2D8Async cuMemsetD2D8_v2 cuMemsetD32 cuMemsetD32Async cuMemsetD32_v2
    cuMemsetD8 cuMemsetD8Async cuMemsetD8_v2 cuMipmappedArrayCreate cuMipmappedArrayDestroy
    cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements
    cuMipmappedArrayGetSparseProperties cuModuleGetFunction cuModuleGetGlobal
    cuModuleGetGlobal_v2 cuModuleGetLoadingMode cuModuleGetSurfRef cuModuleGetTexRef
    cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleUnload
    cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveBlocksPerMultiprocessor
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
    cuOccupancyMaxPotentialClusterSize cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti
    cuParamSetv cuPointerGetAttribute cuPointerGetAttributes cuPointerSetAttribute
    cuProfilerInitialize cuProfilerStart cuProfilerStop cuSignalExternalSemaphoresAsync
    cuStreamAddCallback cuStreamAttachMemAsync cuStreamBatchMemOp cuStreamBatchMemOp_v2
    cuStreamBeginCapture cuStreamBeginCapture_v2 cuStreamCopyAttributes cuStreamCreate
    cuStreamCreateWithPriority cuStreamDestroy cuStreamDestroy_v2 cuStreamEndCapture
    cuStreamGetAttribute cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2 cuStreamGetCtx
    cuStreamGetFlags cuStreamGetId cuStreamGetPriority cuStreamIsCapturing cuStreamQuery
    cuStreamSetAttribute cuStreamSynchronize cuStreamUpdateCaptureDependencies cuStreamWaitEvent
    cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWaitValue64 cuStreamWaitValue64_v2
    cuStreamWriteValue32 cuStreamWriteValue32_v2 cuStreamWriteValue64 cuStreamWriteValue64_v2
    cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuSurfRefGetArray
    cuSurfRefSetArray cuTensorMapEncodeIm2col cuTensorMapEncodeTiled cuTensorMapReplaceAddress
    cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc
    cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefCreate cuTexRefDestroy
    cuTexRefGetAddress cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray
    cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat
    cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias
    cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray cuTexRefSetAddress
    cuTexRefSetAddress2D cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode
    cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode
    cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode
    cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray
    cuThreadExchangeStreamCaptureMode cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain
    cuVDPAUCtxCreate cuVDPAUCtxCreate_v2 cuVDPAUGetDevice
    cuWaitExternalSemaphoresAsync
"""
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
_PLAIN = frozenset(" ".join((_OLD, *_NEW.values())).split())
_RELEASES = {name: release for release, names in _NEW.items() for name in names.split()}
_VARIANTS = ("_ptsz", "_ptds")


def release_of_function(name: str) -> str | None:
    """The CUDA release whose driver first had a function; None for 12.0 and earlier, or unknown.

    Args:
        name: as a library names it, `cuMemcpyBatchAsync_ptsz`.
    """
    return _RELEASES.get(_plain(name))


def is_driver_function(name: str) -> bool:
    """Whether the driver of some CUDA release has a function of this name."""
    return _plain(name) in _PLAIN


def functions_of(release: str) -> tuple[str, ...]:
    """Every name that the driver of a CUDA release exports, with the variants of each.

    Args:
        release: `13.0`.
    """
    newer = (names for first, names in _NEW.items() if _key(first) <= _key(release))
    plain = " ".join((_OLD, *newer)).split()
    return tuple(name + variant for name in plain for variant in ("", *_VARIANTS))


def _plain(name: str) -> str:
    for variant in _VARIANTS:
        name = name.removesuffix(variant)
    return name


def _key(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
