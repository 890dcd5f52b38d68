"""Under which symbols the driver's functions stand in the file ``libcuda.so.1``.

Mental model: a function has one name, by which cuGetProcAddress knows it, and one or more symbols: cuda.h renames
functions whose arguments have changed (``cuMemAlloc`` calls ``cuMemAlloc_v2``) and those that are compiled for a
default stream of each thread (``_ptsz``, ``_ptds``). Here all streams run in the order of their calls, so that the last
are the same functions. Unversioned symbols of functions that have versions took 32-bit addresses once; no program of
today has them, and they stand for the first 64-bit form. Source: cuda.h of CUDA 13.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

VERSIONED = [
    "cuArray3DCreate_v2",
    "cuArray3DGetDescriptor_v2",
    "cuArrayCreate_v2",
    "cuArrayGetDescriptor_v2",
    "cuCtxCreate_v2",
    "cuCtxCreate_v3",
    "cuCtxCreate_v4",
    "cuCtxDestroy_v2",
    "cuCtxGetDevice_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSynchronize_v2",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxSetFlags_v2",
    "cuDeviceTotalMem_v2",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuGetProcAddress_v2",
    "cuGraphAddDependencies_v2",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddNode_v2",
    "cuGraphAddNode_v3",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphExecUpdate_v2",
    "cuGraphGetEdges_v2",
    "cuGraphInstantiate_v2",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphKernelNodeSetParams_v2",
    "cuGraphNodeGetDependencies_v2",
    "cuGraphNodeGetDependentNodes_v2",
    "cuGraphNodeSetParams_v2",
    "cuGraphRemoveDependencies_v2",
    "cuGraphicsResourceGetMappedPointer_v2",
    "cuGraphicsResourceSetMapFlags_v2",
    "cuIpcOpenMemHandle_v2",
    "cuLaunchHostFunc_v2",
    "cuLinkAddData_v2",
    "cuLinkAddFile_v2",
    "cuLinkCreate_v2",
    "cuMemAdvise_v2",
    "cuMemAllocHost_v2",
    "cuMemAllocPitch_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetAddressRange_v2",
    "cuMemGetInfo_v2",
    "cuMemHostGetDevicePointer_v2",
    "cuMemHostRegister_v2",
    "cuMemPrefetchAsync_v2",
    "cuMemcpy2DAsync_v2",
    "cuMemcpy2DUnaligned_v2",
    "cuMemcpy2D_v2",
    "cuMemcpy3DAsync_v2",
    "cuMemcpy3DBatchAsync_v2",
    "cuMemcpy3D_v2",
    "cuMemcpyAtoA_v2",
    "cuMemcpyAtoD_v2",
    "cuMemcpyAtoHAsync_v2",
    "cuMemcpyAtoH_v2",
    "cuMemcpyBatchAsync_v2",
    "cuMemcpyDtoA_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoD_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoAAsync_v2",
    "cuMemcpyHtoA_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD16_v2",
    "cuMemsetD2D16_v2",
    "cuMemsetD2D32_v2",
    "cuMemsetD2D8_v2",
    "cuMemsetD32_v2",
    "cuMemsetD8_v2",
    "cuModuleGetGlobal_v2",
    "cuMulticastBindAddr_v2",
    "cuMulticastBindMem_v2",
    "cuStreamBatchMemOp_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamDestroy_v2",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamGetCaptureInfo_v3",
    "cuStreamGetCtx_v2",
    "cuStreamUpdateCaptureDependencies_v2",
    "cuStreamWaitValue32_v2",
    "cuStreamWaitValue64_v2",
    "cuStreamWriteValue32_v2",
    "cuStreamWriteValue64_v2",
    "cuTexRefGetAddress_v2",
    "cuTexRefSetAddress2D_v2",
    "cuTexRefSetAddress2D_v3",
    "cuTexRefSetAddress_v2",
]
PER_THREAD_STREAM = [
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuFabricCpyBatchAsync",
    "cuGraphInstantiateWithParams",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuGraphicsMapResources",
    "cuGraphicsUnmapResources",
    "cuLaunchCooperativeKernel",
    "cuLaunchHostFunc",
    "cuLaunchHostFunc_v2",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemBatchDecompressAsync",
    "cuMemDiscardAndPrefetchBatchAsync",
    "cuMemDiscardBatchAsync",
    "cuMemFreeAsync",
    "cuMemMapArrayAsync",
    "cuMemPrefetchAsync_v2",
    "cuMemPrefetchBatchAsync",
    "cuMemcpy2DAsync_v2",
    "cuMemcpy3DAsync_v2",
    "cuMemcpy3DBatchAsync_v2",
    "cuMemcpy3DPeerAsync",
    "cuMemcpy3DWithAttributesAsync",
    "cuMemcpyAsync",
    "cuMemcpyAtoHAsync_v2",
    "cuMemcpyBatchAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoAAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemcpyWithAttributesAsync",
    "cuMemsetD16Async",
    "cuMemsetD2D16Async",
    "cuMemsetD2D32Async",
    "cuMemsetD2D8Async",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuSignalExternalSemaphoresAsync",
    "cuStreamAddCallback",
    "cuStreamAttachMemAsync",
    "cuStreamBatchMemOp_v2",
    "cuStreamBeginCaptureToCig",
    "cuStreamBeginCaptureToGraph",
    "cuStreamBeginCapture_v2",
    "cuStreamBeginRecaptureToGraph",
    "cuStreamCopyAttributes",
    "cuStreamEndCapture",
    "cuStreamEndCaptureToCig",
    "cuStreamGetAttribute",
    "cuStreamGetCaptureInfo_v3",
    "cuStreamGetCtx",
    "cuStreamGetCtx_v2",
    "cuStreamGetDevResource",
    "cuStreamGetDevice",
    "cuStreamGetFlags",
    "cuStreamGetId",
    "cuStreamGetPriority",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuStreamSetAttribute",
    "cuStreamSynchronize",
    "cuStreamUpdateCaptureDependencies_v2",
    "cuStreamWaitEvent",
    "cuStreamWaitValue32_v2",
    "cuStreamWaitValue64_v2",
    "cuStreamWriteValue32_v2",
    "cuStreamWriteValue64_v2",
    "cuWaitExternalSemaphoresAsync",
]
PER_THREAD_DEFAULT = [
    "cuMemcpy",
    "cuMemcpy2DUnaligned_v2",
    "cuMemcpy2D_v2",
    "cuMemcpy3DPeer",
    "cuMemcpy3D_v2",
    "cuMemcpyAtoA_v2",
    "cuMemcpyAtoD_v2",
    "cuMemcpyAtoH_v2",
    "cuMemcpyDtoA_v2",
    "cuMemcpyDtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoA_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyPeer",
    "cuMemsetD16_v2",
    "cuMemsetD2D16_v2",
    "cuMemsetD2D32_v2",
    "cuMemsetD2D8_v2",
    "cuMemsetD32_v2",
    "cuMemsetD8_v2",
]
#: Symbols of functions that have several forms -> the CUDA version from which the form is the one of its name.
FORMS = {
    "cuCtxCreate_v3": 11040, "cuCtxCreate_v4": 12050, "cuStreamGetCtx_v2": 12050, "cuMemPrefetchAsync_v2": 12020,
    "cuMemAdvise_v2": 12020, "cuGetProcAddress_v2": 12000, "cuStreamGetCaptureInfo_v2": 11030,
    "cuStreamGetCaptureInfo_v3": 12030, "cuGraphAddNode_v2": 12030, "cuGraphGetEdges_v2": 12030,
    "cuGraphNodeGetDependencies_v2": 12030, "cuGraphNodeGetDependentNodes_v2": 12030, "cuGraphAddDependencies_v2": 12030,
    "cuGraphRemoveDependencies_v2": 12030, "cuGraphInstantiate_v2": 11000, "cuGraphExecUpdate_v2": 12000,
    "cuEventElapsedTime_v2": 12080, "cuStreamUpdateCaptureDependencies_v2": 12030,
}  # fmt: skip
_SUFFIX = re.compile(r"(_v\d+)?(_pts[zd])?$")


def base_name(symbol: str) -> str:
    """The function's name, of its symbol."""
    return _SUFFIX.sub("", symbol)


def exported(forms: Mapping[str, Iterable[int]]) -> dict[str, tuple[str, int]]:
    """Symbol -> (name, version of its form) of each function of ``forms``, which gives the versions of every name's
    forms."""
    found = {name: (name, _form(name, versions)) for name, versions in forms.items()}
    symbols = [
        *VERSIONED,
        *(f"{name}_ptsz" for name in PER_THREAD_STREAM),
        *(f"{name}_ptds" for name in PER_THREAD_DEFAULT),
    ]
    for symbol in symbols:
        name = base_name(symbol)
        if name in forms:
            found.setdefault(symbol, (name, _form(symbol, forms[name])))
    return found


def _form(symbol: str, versions: Iterable[int]) -> int:
    """The newest of ``versions`` that ``symbol`` may stand for."""
    versions = sorted(versions)
    known = FORMS.get(re.sub(r"_pts[zd]$", "", symbol), 0)
    return max((version for version in versions if version <= known), default=versions[0])
