"""Structures that programs pass to the driver, laid out as in NVIDIA's cuda.h (CUDA Driver API, version 13).

Mental model: each class is the C structure of the same meaning, fields in the header's order; a handle, a device
pointer and a host pointer are 64-bit words. Where the header has a union, the class holds its words and the reader
picks.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort

from gpusim.driver.abi import HOST, WORD


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("dynamic_shared_bytes", c_uint),
        ("stream", WORD),
        ("attributes", HOST),
        ("attribute_count", c_uint),
    ]


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        *((f"source_{name}", kind) for name, kind in (
            ("x", c_size_t), ("y", c_size_t), ("type", c_uint), ("host", HOST), ("device", WORD), ("array", WORD),
            ("pitch", c_size_t),
        )),
        *((f"target_{name}", kind) for name, kind in (
            ("x", c_size_t), ("y", c_size_t), ("type", c_uint), ("host", HOST), ("device", WORD), ("array", WORD),
            ("pitch", c_size_t),
        )),
        ("width", c_size_t),
        ("height", c_size_t),
    ]  # fmt: skip


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, whose contexts lie where the former has reserved words."""

    _fields_ = [
        *((f"{side}_{name}", kind) for side in ("source", "target") for name, kind in (
            ("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("level", c_size_t), ("type", c_uint), ("host", HOST),
            ("device", WORD), ("array", WORD), ("context", WORD), ("pitch", c_size_t), ("height", c_size_t),
        )),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
    ]  # fmt: skip


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = [("type", c_int), ("id", c_int)]


class AccessDescription(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", c_int)]


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", HOST),
        ("compression", c_ubyte),
        ("rdma", c_ubyte),
        ("usage", c_ushort),
        ("reserved", c_ubyte * 4),
    ]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", HOST),
        ("most_bytes", c_size_t),
        ("usage", c_ushort),
        ("rdma", c_ubyte),
        ("reserved", c_ubyte * 53),
    ]


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, version 2; version 1 ends before ``kernel``."""

    _fields_ = [
        ("function", WORD),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("parameters", HOST),
        ("extra", HOST),
        ("kernel", WORD),
        ("context", WORD),
    ]


KERNEL_NODE_V1_BYTES = KernelNode.kernel.offset


class FillNode(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS, version 2; version 1 ends before ``context``."""

    _fields_ = [
        ("target", WORD),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element_bytes", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
        ("context", WORD),
    ]


FILL_NODE_V1_BYTES = FillNode.context.offset


class HostNode(ctypes.Structure):
    """CUDA_HOST_NODE_PARAMS, version 2; version 1 ends before ``mode``."""

    _fields_ = [("function", HOST), ("data", HOST), ("mode", c_uint), ("context", WORD)]


HOST_NODE_V1_BYTES = HostNode.mode.offset


class CopyNode(ctypes.Structure):
    """CUDA_MEMCPY_NODE_PARAMS."""

    _fields_ = [("flags", c_int), ("reserved", c_int), ("context", WORD), ("copy", Copy3D)]


class AllocationNode(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = [
        ("properties", PoolProperties),
        ("access", HOST),
        ("access_count", c_size_t),
        ("size", c_size_t),
        ("address", WORD),
    ]


class MemoryOperationsNode(ctypes.Structure):
    """CUDA_BATCH_MEM_OP_NODE_PARAMS."""

    _fields_ = [("context", WORD), ("count", c_uint), ("operations", HOST), ("flags", c_uint)]


class WordNode(ctypes.Structure):
    """Node parameters of one handle: CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_EVENT_*_NODE_PARAMS,
    CUDA_MEM_FREE_NODE_PARAMS."""

    _fields_ = [("value", WORD)]


class ConditionalNode(ctypes.Structure):
    """CUDA_CONDITIONAL_NODE_PARAMS."""

    _fields_ = [("handle", c_uint64), ("choice", c_int), ("size", c_uint), ("graphs", WORD), ("context", WORD)]


class NodeParameters(ctypes.Structure):
    """CUgraphNodeParams: ``type`` says which of the structures lies at ``body``."""

    _fields_ = [("type", c_int), ("reserved", c_int * 3), ("body", c_ubyte * 232), ("reserved2", c_uint64)]


class InstantiateParameters(ctypes.Structure):
    """CUDA_GRAPH_INSTANTIATE_PARAMS."""

    _fields_ = [("flags", c_uint64), ("upload_stream", WORD), ("error_node", WORD), ("result", c_int)]


class UpdateResult(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = [("result", c_int), ("error_node", WORD), ("error_from_node", WORD)]


class MemoryOperation(ctypes.Structure):
    """CUstreamBatchMemOpParams: a union of 48 bytes, of which all members begin alike."""

    _fields_ = [
        ("operation", c_uint),
        ("address", WORD),
        ("value", c_uint64),
        ("flags", c_uint),
        ("alias", WORD),
        ("padding", c_uint64),
    ]


class ArrayDescription(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_uint), ("channels", c_uint)]


class ArrayDescription3D(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_uint),
        ("channels", c_uint),
        ("flags", c_uint),
    ]


class _Linear(ctypes.Structure):
    _fields_ = [("address", WORD), ("format", c_uint), ("channels", c_uint), ("size", c_size_t)]


class _Pitched(ctypes.Structure):
    _fields_ = [
        ("address", WORD),
        ("format", c_uint),
        ("channels", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
        ("pitch", c_size_t),
    ]


class _Resource(ctypes.Union):
    _fields_ = [("array", WORD), ("linear", _Linear), ("pitched", _Pitched), ("reserved", c_int * 32)]


class ResourceDescription(ctypes.Structure):
    """CUDA_RESOURCE_DESC."""

    _fields_ = [("type", c_int), ("resource", _Resource), ("flags", c_uint)]


class TextureDescription(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = [
        ("address_mode", c_int * 3),
        ("filter_mode", c_int),
        ("flags", c_uint),
        ("max_anisotropy", c_uint),
        ("mipmap_filter_mode", c_int),
        ("mipmap_level_bias", c_float),
        ("min_mipmap_level", c_float),
        ("max_mipmap_level", c_float),
        ("border", c_float * 4),
        ("reserved", c_int * 12),
    ]


class ResourceView(ctypes.Structure):
    """CUDA_RESOURCE_VIEW_DESC."""

    _fields_ = [
        ("format", c_int),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("first_level", c_uint),
        ("last_level", c_uint),
        ("first_layer", c_uint),
        ("last_layer", c_uint),
        ("reserved", c_uint * 16),
    ]


class DeviceProperties(ctypes.Structure):
    """CUdevprop."""

    _fields_ = [
        ("max_threads", c_int),
        ("max_block", c_int * 3),
        ("max_grid", c_int * 3),
        ("shared_bytes", c_int),
        ("constant_bytes", c_int),
        ("warp", c_int),
        ("pitch", c_int),
        ("registers", c_int),
        ("clock_khz", c_int),
        ("texture_alignment", c_int),
    ]
