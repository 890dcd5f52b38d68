"""The driver's memory functions: do copies, fills, pools, mappings and questions about addresses do what CUDA
documents?"""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_api import AXPY, Api, CallError, address_of, axpy_parameters, keep

from gpusim.driver.ipc import IpcHandle

HOST, DEVICE, ARRAY = (
    cu.CUmemorytype.CU_MEMORYTYPE_HOST,
    cu.CUmemorytype.CU_MEMORYTYPE_DEVICE,
    cu.CUmemorytype.CU_MEMORYTYPE_ARRAY,
)
MIB = 1 << 20


@pytest.fixture
def api() -> Api:
    return Api()


def location(kind: int, number: int = 0) -> int:
    """A CUmemLocation as it is passed by value."""
    return number << 32 | kind


def box_2d(host: np.ndarray, device: int, pitch: int, width: int, height: int, x: int, y: int, *, up: bool) -> int:
    box = cu.CUDA_MEMCPY2D()
    ends = ("src", "dst") if up else ("dst", "src")
    setattr(box, f"{ends[0]}MemoryType", HOST)
    setattr(box, f"{ends[0]}Host", host.ctypes.data)
    setattr(box, f"{ends[0]}Pitch", host.strides[0])
    setattr(box, f"{ends[1]}MemoryType", DEVICE)
    setattr(box, f"{ends[1]}Device", cu.CUdeviceptr(device))
    setattr(box, f"{ends[1]}Pitch", pitch)
    setattr(box, f"{ends[1]}XInBytes", x)
    setattr(box, f"{ends[1]}Y", y)
    box.WidthInBytes, box.Height = width, height
    return address_of(box)


def test_boxes_of_rows_go_where_they_are_told(api) -> None:
    pitch, address = ctypes.c_size_t(), ctypes.c_uint64()
    api.cuMemAllocPitch(ctypes.byref(address), ctypes.byref(pitch), 100, 7, 4)
    assert pitch.value == 512
    rows = np.arange(60, dtype=np.uint8).reshape(3, 20)
    api.cuMemsetD2D8(address.value, pitch.value, 0xAA, 100, 7)
    api.cuMemcpy2D(box_2d(rows, address.value, pitch.value, 20, 3, 8, 2, up=True))
    whole = api.download(address.value, np.uint8, 7, 512)
    expected = np.full((7, 100), 0xAA, np.uint8)
    expected[2:5, 8:28] = rows
    assert (whole[:, :100] == expected).all() and (whole[:, 100:] == 0).all()
    back = np.zeros((3, 20), np.uint8)
    api.cuMemcpy2DAsync(box_2d(back, address.value, pitch.value, 20, 3, 8, 2, up=False), 0)
    assert (back == rows).all()
    assert (
        api.code("cuMemcpy2D", box_2d(rows, address.value, 24, 20, 3, 8, 2, up=True)) == "INVALID_VALUE"
    )  # a pitch too small
    assert api.code("cuMemcpy2DUnaligned", box_2d(rows, address.value, 512, 20, 3, 8, 6, up=True)) == "INVALID_VALUE"
    assert api.code("cuMemAllocPitch", ctypes.byref(address), ctypes.byref(pitch), 100, 7, 3) == "INVALID_VALUE"


def test_boxes_of_slices_and_the_peer_form(api) -> None:
    host = np.arange(4 * 5 * 6, dtype=np.uint8).reshape(4, 5, 6)
    device = api.upload(np.zeros(1000, np.uint8))
    box = cu.CUDA_MEMCPY3D()
    box.srcMemoryType, box.srcHost, box.srcPitch, box.srcHeight = HOST, host.ctypes.data, 6, 5
    box.srcXInBytes, box.srcY, box.srcZ = 1, 2, 1
    box.dstMemoryType, box.dstDevice, box.dstPitch, box.dstHeight = DEVICE, cu.CUdeviceptr(device), 16, 4
    box.WidthInBytes, box.Height, box.Depth = 4, 3, 2
    api.cuMemcpy3D(address_of(box))
    got = api.download(device, np.uint8, 2, 4, 16)
    assert (got[:, :3, :4] == host[1:3, 2:5, 1:5]).all() and got.sum() == host[1:3, 2:5, 1:5].astype(int).sum()
    box.srcLOD = 1
    assert api.code("cuMemcpy3D", address_of(box)) == "INVALID_VALUE"
    peer = cu.CUDA_MEMCPY3D_PEER()
    for name in ("srcMemoryType", "dstMemoryType"):
        setattr(peer, name, DEVICE)
    peer.srcDevice, peer.dstDevice = cu.CUdeviceptr(device), cu.CUdeviceptr(device + 500)
    peer.srcContext = peer.dstContext = cu.CUcontext(0xC0_0000)
    peer.WidthInBytes, peer.Height, peer.Depth = 16, 4, 2
    api.cuMemcpy3DPeer(address_of(peer))
    assert (api.download(device + 500, np.uint8, 2, 4, 16) == got).all()
    peer.srcContext = cu.CUcontext(0x1234)
    assert api.code("cuMemcpy3DPeer", address_of(peer)) == "INVALID_CONTEXT"


@pytest.mark.parametrize("bits, value", [(8, 0x5A), (16, 0xBEEF), (32, 0xDEADBEEF)])
def test_fills_set_rows_of_elements(api, bits, value) -> None:
    size = bits // 8
    device = api.upload(np.zeros(256, np.uint8))
    getattr(api, f"cuMemsetD2D{bits}")(device, 64, value, 5, 3)
    got = api.download(device, np.uint8, 4, 64)
    assert (got[:3, : 5 * size].copy().view(f"u{size}") == value).all() and got[:3, 5 * size :].sum() == got[
        3
    ].sum() == 0
    if bits > 8:
        assert api.code(f"cuMemsetD{bits}", device + 1, value, 1) == "INVALID_VALUE"
        assert api.code(f"cuMemsetD2D{bits}", device, 63, value, 5, 3) == "INVALID_VALUE"


def test_one_address_space(api) -> None:
    host, device = np.arange(16, dtype=np.int32), api.word("cuMemAlloc", 64)
    api.cuMemcpy(device, host.ctypes.data, 64)
    again = np.zeros(16, np.int32)
    api.cuMemcpyAsync(again.ctypes.data, device, 64, 0)
    assert (again == host).all()
    assert api.code("cuMemcpyDtoH", again.ctypes.data, device + 60, 8) == "INVALID_VALUE"
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    api.cuMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    assert total.value - free.value == 64


def test_what_lies_at_an_address(api) -> None:
    device = api.word("cuMemAlloc", 256)

    def ask(attribute: int, address: int, kind: type = ctypes.c_uint64) -> int:
        out = kind()
        api.cuPointerGetAttribute(ctypes.addressof(out), attribute, address)
        return out.value

    assert (ask(11, device + 100), ask(12, device + 100), ask(2, device, ctypes.c_int)) == (device, 256, 2)
    assert ask(7, device) != ask(7, api.word("cuMemAlloc", 8))
    out = ctypes.c_uint64()
    assert api.code("cuPointerGetAttribute", ctypes.addressof(out), 4, device) == "INVALID_VALUE"  # no host pointer
    assert api.code("cuPointerGetAttribute", ctypes.addressof(out), 99, device) == "INVALID_VALUE"
    one = ctypes.c_uint(1)
    api.cuPointerSetAttribute(ctypes.addressof(one), 6, device)
    assert ask(6, device, ctypes.c_int) == 1
    plain = np.zeros(4)
    outs = [ctypes.c_int64(7), ctypes.c_int64(7)]
    places = (ctypes.c_uint64 * 2)(*map(ctypes.addressof, outs))
    api.cuPointerGetAttributes(2, (ctypes.c_int * 2)(1, 9), places, plain.ctypes.data)
    assert outs[0].value == 0 and ctypes.c_int(outs[1].value & 0xFFFFFFFF).value == -2


def test_registered_memory_has_a_device_address(api) -> None:
    host = np.zeros(64, np.uint8)
    api.cuMemHostRegister(host.ctypes.data, 64, 2)
    assert api.code("cuMemHostRegister", host.ctypes.data, 64, 0) == "HOST_MEMORY_ALREADY_REGISTERED"
    device = api.word("cuMemHostGetDevicePointer", host.ctypes.data, 0)
    api.cuMemsetD8(device, 3, 64)
    assert (host == 3).all() and api.word("cuMemHostGetFlags", host.ctypes.data, kind=ctypes.c_uint) == 2
    api.cuMemHostUnregister(host.ctypes.data)
    assert api.code("cuMemHostUnregister", host.ctypes.data) == "HOST_MEMORY_NOT_REGISTERED"
    assert api.code("cuMemHostRegister", host.ctypes.data, 64, 0x100) == "INVALID_VALUE"


def test_managed_memory_remembers_advice(api) -> None:
    address = api.word("cuMemAllocManaged", 64 << 10, 1)

    def ask(attribute: int, at: int = 0, size: int = 64 << 10) -> int:
        out = ctypes.c_int()
        api.cuMemRangeGetAttribute(ctypes.addressof(out), 4, attribute, address + at, size)
        return out.value

    api.cuMemAdvise(address, 8192, 1, location(1))
    assert ask(1, 0, 8192) == 1 and ask(1) == 0
    api.cuMemAdvise(address, 64 << 10, 3, location(2))
    assert ask(2) == -1 and ask(5) == 2
    assert ask(4) == -2
    api.cuMemPrefetchAsync(address, 64 << 10, location(1), 0, 0)
    assert ask(4) == 0 and ask(7) == 1
    assert api.code("cuMemPrefetchAsync", address, 4096, 3, 0, version=8000) == "INVALID_DEVICE"
    assert api.code("cuMemAdvise", api.word("cuMemAlloc", 8), 8, 1, location(1)) == "INVALID_VALUE"


def test_pools_keep_account(api) -> None:
    properties = cu.CUmemPoolProps()
    properties.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type, properties.location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    properties.maxSize = 3000
    pool = api.word("cuMemPoolCreate", address_of(properties))

    def ask(attribute: int) -> int:
        out = ctypes.c_uint64()
        api.cuMemPoolGetAttribute(pool, attribute, ctypes.addressof(out))
        return out.value

    one, two = (api.word("cuMemAllocFromPoolAsync", size, pool, 0) for size in (1000, 2000))
    assert (ask(7), ask(8), ask(5)) == (3000, 3000, 3000)
    out = ctypes.c_uint64()
    assert api.code("cuMemAllocFromPoolAsync", ctypes.byref(out), 1, pool, 0) == "OUT_OF_MEMORY"
    api.cuPointerGetAttribute(ctypes.addressof(out), 17, one)
    assert out.value == pool
    threshold = ctypes.c_uint64(500)
    api.cuMemPoolSetAttribute(pool, 4, ctypes.addressof(threshold))
    api.cuMemFreeAsync(one, 0)
    api.cuMemFree(two)
    assert (ask(7), ask(5), ask(8)) == (0, 3000, 3000)
    api.cuStreamSynchronize(0)
    assert ask(5) == 500  # what the threshold lets it hold
    api.cuMemPoolTrimTo(pool, 0)
    assert ask(5) == 0
    zero = ctypes.c_uint64(0)
    api.cuMemPoolSetAttribute(pool, 8, ctypes.addressof(zero))
    assert ask(8) == 0
    assert api.code("cuMemPoolSetAttribute", pool, 7, ctypes.addressof(zero)) == "INVALID_VALUE"
    default = api.word("cuDeviceGetDefaultMemPool", 0)
    api.cuDeviceSetMemPool(0, pool)
    assert api.word("cuDeviceGetMemPool", 0) == pool
    api.cuMemPoolDestroy(pool)
    assert api.word("cuDeviceGetMemPool", 0) == default
    assert api.code("cuMemPoolDestroy", default) == "INVALID_VALUE"
    assert api.code("cuMemFreeAsync", one, 0) == "INVALID_VALUE"


def mapping_properties(handle_types: int = 0) -> int:
    properties = cu.CUmemAllocationProp()
    properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type, properties.location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    properties.requestedHandleTypes = cu.CUmemAllocationHandleType(handle_types)
    return address_of(properties)


def grant(api: Api, address: int, size: int, flags: int = 3) -> None:
    wanted = cu.CUmemAccessDesc()
    wanted.location.type, wanted.location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    wanted.flags = cu.CUmemAccess_flags(flags)
    api.cuMemSetAccess(address, size, address_of(wanted), 1)


def test_memory_is_mapped_where_it_is_wanted(api) -> None:
    unit = api.word("cuMemGetAllocationGranularity", mapping_properties(), 0)
    assert unit == 2 * MIB
    space = api.word("cuMemAddressReserve", 4 * unit, 0, 0, 0)
    memory = [api.word("cuMemCreate", unit, mapping_properties(1), 0) for _ in range(2)]
    api.cuMemMap(space, unit, 0, memory[0], 0)
    assert api.code("cuMemcpyHtoD", space, np.zeros(4).ctypes.data, 32) == "INVALID_VALUE"  # no access yet
    grant(api, space, unit)
    assert api.code("cuMemMap", space, unit, 0, memory[1], 0) == "INVALID_VALUE"  # something is there
    api.cuMemMap(space + unit, unit, 0, memory[1], 0)
    grant(api, space + unit, unit)
    values = np.arange(64, dtype=np.float32)
    api.cuMemcpyHtoD(space + unit - 128, values.ctypes.data, 256)  # over both
    api.cuMemMap(space + 3 * unit, unit, 0, memory[1], 0)  # a second place of the same memory
    grant(api, space + 3 * unit, unit)
    assert (api.download(space + 3 * unit, np.float32, 32) == values[32:]).all()
    assert api.word("cuMemGetAccess", address_of(_device()), space) == 3
    again = api.word("cuMemRetainAllocationHandle", space)
    assert again == memory[0]
    api.cuMemRelease(again)
    descriptor = ctypes.c_int()
    api.cuMemExportToShareableHandle(ctypes.addressof(descriptor), memory[1], 1, 0)
    imported = api.word("cuMemImportFromShareableHandle", descriptor.value, 1)
    os.close(descriptor.value)
    api.cuMemUnmap(space, unit)
    assert api.code("cuMemcpyDtoH", values.ctypes.data, space, 4) == "INVALID_VALUE"
    api.cuMemMap(space, unit, 0, imported, 0)
    grant(api, space, unit)
    assert (api.download(space, np.float32, 32) == np.arange(32, 64)).all()
    assert api.code("cuMemAddressFree", space, 4 * unit) == "INVALID_VALUE"  # still mapped
    for place in (0, 1, 3):
        api.cuMemUnmap(space + place * unit, unit)
    for handle in (*memory, imported):
        api.cuMemRelease(handle)
    api.cuMemAddressFree(space, 4 * unit)
    assert api.driver.memory.used_bytes == 0
    assert api.code("cuMemRelease", memory[0]) == "INVALID_VALUE"


def _device() -> cu.CUmemLocation:
    place = cu.CUmemLocation()
    place.type, place.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    return place


def test_kernels_reach_mapped_memory(api) -> None:
    unit = 2 * MIB
    space = api.word("cuMemAddressReserve", unit, 0, 0, 0)
    handle = api.word("cuMemCreate", unit, mapping_properties(), 0)
    api.cuMemMap(space, unit, 0, handle, 0)
    grant(api, space, unit)
    api.cuMemcpyHtoD(space, np.ones(64, np.float32).ctypes.data, 256)
    kernel = api.kernel(AXPY, "axpy")
    api.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, 0, axpy_parameters(space, space, 2.0, 64), 0)
    assert (api.download(space, np.float32, 64) == 3).all()
    grant(api, space, unit, 0)
    with pytest.raises(CallError, match="ILLEGAL_ADDRESS"):
        api.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, 0, axpy_parameters(space, space, 2.0, 64), 0)


def test_elements_go_to_arrays_and_back(api) -> None:
    wanted = cu.CUDA_ARRAY3D_DESCRIPTOR()
    wanted.Width, wanted.Height, wanted.Depth, wanted.NumChannels = 8, 4, 3, 2
    wanted.Format = cu.CUarray_format.CU_AD_FORMAT_FLOAT
    array = api.word("cuArray3DCreate", address_of(wanted))
    values = np.arange(3 * 4 * 16, dtype=np.float32).reshape(3, 4, 16)
    box = cu.CUDA_MEMCPY3D()
    box.srcMemoryType, box.srcHost, box.srcPitch, box.srcHeight = HOST, values.ctypes.data, 64, 4
    box.dstMemoryType, box.dstArray = ARRAY, cu.CUarray(array)
    box.WidthInBytes, box.Height, box.Depth = 64, 4, 3
    api.cuMemcpy3D(address_of(box))
    device = api.word("cuMemAlloc", 16)
    back = cu.CUDA_MEMCPY3D()
    back.srcMemoryType, back.srcArray, back.srcXInBytes, back.srcY, back.srcZ = ARRAY, cu.CUarray(array), 16, 2, 1
    back.dstMemoryType, back.dstDevice = DEVICE, cu.CUdeviceptr(device)
    back.WidthInBytes, back.Height, back.Depth = 16, 1, 1
    api.cuMemcpy3D(address_of(back))
    assert (api.download(device, np.float32, 4) == values[1, 2, 4:8]).all()
    back.srcXInBytes = 56
    assert api.code("cuMemcpy3D", address_of(back)) == "INVALID_VALUE"
    wanted.NumChannels = 3
    out = ctypes.c_uint64()
    assert api.code("cuArray3DCreate", ctypes.byref(out), address_of(wanted)) == "INVALID_VALUE"
    wanted.NumChannels, wanted.Width = 2, 20000
    assert api.code("cuArray3DCreate", ctypes.byref(out), address_of(wanted)) == "INVALID_VALUE"
    assert api.code("cuMipmappedArrayCreate", ctypes.byref(out), keep(address_of(wanted)), 2) == "INVALID_VALUE"
    api.cuArrayDestroy(array)
    assert api.code("cuArrayDestroy", array) == "INVALID_HANDLE"


def test_memory_and_events_of_another_process_are_opened(api, monkeypatch) -> None:
    address = api.upload(np.arange(1000, dtype=np.uint32))
    event = api.word("cuEventCreate", 2 | 4)
    handles = [IpcHandle(), IpcHandle()]
    api.cuIpcGetMemHandle(ctypes.addressof(handles[0]), address + 400)  # anywhere in it
    api.cuIpcGetEventHandle(ctypes.addressof(handles[1]), event)
    assert (api.download(address, np.uint32, 1000) == np.arange(1000)).all()  # still there
    assert (
        api.code("cuIpcOpenMemHandle", ctypes.byref(ctypes.c_uint64()), handles[0], 0) == "INVALID_CONTEXT"
    )  # its own
    here = os.getpid()
    monkeypatch.setattr("os.getpid", lambda: here + 1)
    other = Api()
    opened = other.word("cuIpcOpenMemHandle", handles[0], 1)
    kernel = other.kernel(AXPY, "axpy")
    other.cuMemcpyHtoD(opened, np.ones(64, np.float32).ctypes.data, 256)
    other.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, 0, axpy_parameters(opened, opened, 2.0, 64), 0)
    assert (api.download(address, np.float32, 64) == 3).all()
    other.cuStreamWaitEvent(0, other.word("cuIpcOpenEventHandle", handles[1]), 0)
    assert other.code("cuMemFree", opened) == "INVALID_VALUE"
    other.cuIpcCloseMemHandle(opened)
    api.cuMemFree(address)
    assert other.code("cuIpcOpenMemHandle", ctypes.byref(ctypes.c_uint64()), handles[0], 0) == "INVALID_HANDLE"


def test_pools_of_another_process_are_opened(api, monkeypatch) -> None:
    wanted = cu.CUmemPoolProps()
    wanted.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.handleTypes = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    wanted.location = _device()
    pools = [api.word("cuMemPoolCreate", address_of(wanted)) for _ in range(2)]
    address, data = api.word("cuMemAllocFromPoolAsync", 400, pools[0], 0), IpcHandle()
    files = [api.word("cuMemPoolExportToShareableHandle", pool, 1, 0, kind=ctypes.c_int) for pool in pools]
    api.cuMemPoolExportPointer(ctypes.addressof(data), address)
    here = os.getpid()
    monkeypatch.setattr("os.getpid", lambda: here + 1)
    other = Api()
    opened = [other.word("cuMemPoolImportFromShareableHandle", file, 1, 0) for file in files]
    out = ctypes.c_uint64()
    assert other.code("cuMemPoolImportPointer", ctypes.byref(out), opened[1], ctypes.byref(data)) == "INVALID_VALUE"
    pointer = other.word("cuMemPoolImportPointer", opened[0], ctypes.byref(data))
    other.cuMemcpyHtoD(pointer, np.arange(100, dtype=np.uint32).ctypes.data, 400)
    assert (api.download(address, np.uint32, 100) == np.arange(100)).all()
    assert other.code("cuMemAllocFromPoolAsync", ctypes.byref(out), 64, opened[0], 0) == "INVALID_VALUE"
    other.cuMemFreeAsync(pointer, 0)
    api.cuMemFreeAsync(address, 0)
    assert other.code("cuMemPoolImportPointer", ctypes.byref(out), opened[0], ctypes.byref(data)) == "INVALID_HANDLE"
    with open("/proc/self/exe", "rb") as foreign:
        assert (
            other.code("cuMemPoolImportFromShareableHandle", ctypes.byref(out), foreign.fileno(), 1, 0)
            == "INVALID_VALUE"
        )
    for file in files:
        os.close(file)


def test_handles_of_other_processes_are_not_believed(api, monkeypatch) -> None:
    address, handle, out = api.word("cuMemAlloc", 1000), IpcHandle(), ctypes.c_uint64()
    api.cuIpcGetMemHandle(ctypes.addressof(handle), address)
    here = os.getpid()
    monkeypatch.setattr("os.getpid", lambda: here + 1)
    good = bytes(handle.data)
    with open("/proc/self/exe", "rb") as foreign:
        for start, length, number in ((0, 8, 0), (12, 8, foreign.fileno()), (20, 8, 1 << 40), (20, 8, 0)):
            damaged = good[:start] + number.to_bytes(length, "little") + good[start + length :]
            assert api.code("cuIpcOpenMemHandle", ctypes.byref(out), IpcHandle.from_buffer_copy(damaged), 0).startswith(
                "INVALID"
            )
    for address in (0, api.word("cuMemAllocHost", 64), api.word("cuMemAllocManaged", 64, 1)):
        assert api.code("cuIpcGetMemHandle", ctypes.addressof(handle), address) == "INVALID_VALUE"
    assert api.code("cuIpcGetEventHandle", ctypes.addressof(handle), api.word("cuEventCreate", 0)) == "INVALID_HANDLE"
