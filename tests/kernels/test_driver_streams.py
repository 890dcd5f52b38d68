"""Streams, events, contexts and the device's facts: do they answer as CUDA documents?"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_api import AXPY, Api, CallError, address_of, axpy_parameters, keep, parameters

from gpusim.driver.device import make_device

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture
def api() -> Api:
    return Api()


def test_every_documented_attribute_is_answered(api) -> None:
    numbers = [int(each) for each in cu.CUdevice_attribute if each.name != "CU_DEVICE_ATTRIBUTE_MAX"]
    values = {number: api.word("cuDeviceGetAttribute", number, 0, kind=ctypes.c_int) for number in numbers}
    spec = make_device("h200").spec
    assert (values[16], values[75], values[38]) == (spec.sm_count, 9, spec.l2.total_bytes)
    assert values[37] == 6144 and abs(2 * values[36] * values[37] / 8 / 1e6 - spec.dram.peak_bytes_per_ns) < 1
    older = Api("sm_75").word("cuDeviceGetAttribute", 107, 0, kind=ctypes.c_int)  # compressible memory
    assert (values[107], older) == (1, 0)
    assert values[120] == 1 and Api("a100_80gb").word("cuDeviceGetAttribute", 120, 0, kind=ctypes.c_int) == 0
    out = ctypes.c_int()
    assert api.code("cuDeviceGetAttribute", ctypes.byref(out), 999, 0) == "INVALID_VALUE"
    assert api.code("cuDeviceGetAttribute", ctypes.byref(out), 1, 1) == "INVALID_DEVICE"
    properties = (ctypes.c_int * 14)()
    api.cuDeviceGetProperties(ctypes.addressof(properties), 0)
    assert (properties[0], properties[7], properties[9]) == (1024, 48 << 10, 32)


def test_every_function_of_the_bindings_is_found_and_has_its_versions(api) -> None:
    names = {name for name in dir(cu) if name.startswith("cu") and name[2:3].isupper() and callable(getattr(cu, name))}
    assert names <= set(api._versions)
    for name, forms in (
        ("cuGraphAddKernelNode", 2),
        ("cuStreamGetCaptureInfo", 3),
        ("cuCtxGetDevice", 2),
        ("cuMemAdvise", 2),
    ):
        assert len(api._versions[name]) == forms


def test_errors_have_names_and_words(api) -> None:
    text = ctypes.c_char_p()
    api.cuGetErrorName(700, ctypes.byref(text))
    assert text.value == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    api.cuGetErrorString(700, ctypes.byref(text))
    assert text.value == b"an illegal memory access was encountered"
    assert api.code("cuGetErrorString", 12345, ctypes.byref(text)) == "INVALID_VALUE"


def test_contexts_have_flags_and_limits_of_their_own(api) -> None:
    primary = api.word("cuCtxGetCurrent")
    mine = api.word("cuCtxCreate", 0, 4, 0)
    assert api.word("cuCtxGetFlags", kind=ctypes.c_uint) == 4
    api.cuCtxSetLimit(1, 1 << 16)
    assert api.word("cuCtxGetLimit", 1) == 1 << 16
    assert api.word("cuCtxPopCurrent") == mine
    assert api.word("cuCtxGetCurrent") == primary and api.word("cuCtxGetLimit", 1) == 1 << 20
    api.cuDevicePrimaryCtxSetFlags(0, 8)
    flags, active = ctypes.c_uint(), ctypes.c_int()
    api.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
    assert (flags.value, active.value) == (8, 1)
    api.cuCtxDestroy(mine)
    out = ctypes.c_uint64()
    assert api.code("cuCtxPushCurrent", mine) == "INVALID_CONTEXT"
    assert api.code("cuCtxDestroy", primary) == "INVALID_CONTEXT"
    assert api.code("cuCtxGetLimit", ctypes.byref(out), 3) == "UNSUPPORTED_LIMIT"
    assert api.code("cuCtxGetLimit", ctypes.byref(out), 77) == "INVALID_VALUE"
    assert api.code("cuCtxCreate", ctypes.byref(out), 0, 3, 0) == "INVALID_VALUE"  # two ways to wait at once
    api.cuDevicePrimaryCtxRelease(0)
    api.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
    assert active.value == 0


def test_streams_have_priorities_flags_and_attributes(api) -> None:
    stream = api.word("cuStreamCreateWithPriority", 1, -99)
    out = ctypes.c_int()
    api.cuStreamGetPriority(stream, ctypes.byref(out))
    assert out.value == -5
    policy = ctypes.c_int(3)
    api.cuStreamSetAttribute(stream, 3, ctypes.addressof(policy))
    other = api.word("cuStreamCreate", 0)
    api.cuStreamCopyAttributes(other, stream)
    got = (ctypes.c_int * 16)()
    api.cuStreamGetAttribute(other, 3, ctypes.addressof(got))
    assert got[0] == 3
    policy.value = 9
    assert api.code("cuStreamSetAttribute", stream, 3, ctypes.addressof(policy)) == "INVALID_VALUE"
    assert api.code("cuStreamCreate", ctypes.byref(ctypes.c_uint64()), 6) == "INVALID_VALUE"
    api.cuStreamDestroy(other)
    assert api.code("cuStreamSynchronize", other) == "INVALID_HANDLE"
    assert api.code("cuStreamDestroy", 0) == "INVALID_HANDLE"


def test_events_tell_the_time_of_the_clock_that_is_given(api) -> None:
    now = [1e6]
    api.driver.streams.now_ns = lambda device: now[0]
    one, two = api.word("cuEventCreate", 0), api.word("cuEventCreate", 0)
    out = ctypes.c_float()
    assert api.code("cuEventElapsedTime", ctypes.byref(out), one, two) == "INVALID_HANDLE"  # never recorded
    api.cuEventRecord(one, 0)
    now[0] = 3.5e6
    api.cuEventRecordWithFlags(two, 0, 0)
    api.cuEventElapsedTime(ctypes.byref(out), one, two)
    assert out.value == 2.5
    untimed = api.word("cuEventCreate", 2)
    api.cuEventRecord(untimed, 0)
    assert api.code("cuEventElapsedTime", ctypes.byref(out), one, untimed) == "INVALID_HANDLE"
    assert (
        api.code("cuEventCreate", ctypes.byref(ctypes.c_uint64()), 4) == "INVALID_VALUE"
    )  # interprocess needs no timing
    assert api.code("cuEventQuery", 0x1234) == "INVALID_HANDLE"


def test_host_functions_run_in_their_stream(api) -> None:
    said = []
    function = keep(HOST_FUNCTION(lambda data: said.append(data)))
    api.cuLaunchHostFunc(0, ctypes.cast(function, ctypes.c_void_p).value, 42)
    assert said == [42]
    assert api.code("cuLaunchHostFunc", 0, 0, 42) == "INVALID_VALUE"


def test_streams_write_words_and_wait_for_those_that_are_there(api) -> None:
    word = api.upload(np.zeros(2, np.uint64))
    api.cuStreamWriteValue32(0, word, 5, 0)
    api.cuStreamWriteValue64(0, word + 8, 1 << 40, 0)
    assert api.download(word, np.uint64, 2).tolist() == [5, 1 << 40]
    for value, flags, fits in (
        (4, 0, True),
        (6, 0, False),
        (5, 1, True),
        (2, 2, False),
        (4, 2, True),
        (-1 & 0xFFFFFFFF, 3, False),
    ):
        assert (api.code("cuStreamWaitValue32", 0, word, value, flags) == "SUCCESS") == fits, (value, flags)
    batch = (ctypes.c_uint64 * 12)()
    batch[0:4] = [2, word, 9, 0]
    batch[6:10] = [1, word, 9, 1]
    api.cuStreamBatchMemOp(0, 2, ctypes.addressof(batch), 0)
    assert api.download(word, np.uint64, 1)[0] == 9
    assert api.code("cuStreamWriteValue32", 0, word + 2, 5, 0) == "INVALID_VALUE"


def test_launch_attributes(api) -> None:
    x, y = api.upload(np.ones(64, np.float32)), api.upload(np.zeros(64, np.float32))
    kernel = api.kernel(AXPY, "axpy")
    event = api.word("cuEventCreate", 2)
    attributes = (ctypes.c_uint64 * 27)()
    for i, (kind, value) in enumerate(((4, 2 | 1 << 32), (6, 1), (7, event))):
        attributes[9 * i], attributes[9 * i + 1] = kind, value
    attributes[2] = 1
    config = cu.CUlaunchConfig()
    (config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY, config.blockDimZ) = (
        2,
        1,
        1,
        32,
        1,
        1,
    )
    raw = (ctypes.c_uint64 * 7)()
    ctypes.memmove(raw, address_of(config), 56)
    raw[5], raw[6] = ctypes.addressof(attributes), 3
    arguments = axpy_parameters(x, y, 3.0, 64)
    api.cuLaunchKernelEx(ctypes.addressof(raw), kernel, arguments, 0)  # the kernel uses nothing of its cluster
    assert (api.download(y, np.float32, 64) == 3).all() and api.launches == [("axpy", 1)]
    attributes[1] = 3 | 1 << 32
    assert (
        api.code("cuLaunchKernelEx", ctypes.addressof(raw), kernel, arguments, 0) == "INVALID_VALUE"
    )  # 2 blocks, clusters of 3
    attributes[1] = 16 | 1 << 32
    assert api.code("cuLaunchKernelEx", ctypes.addressof(raw), kernel, arguments, 0) == "INVALID_CLUSTER_SIZE"
    attributes[0] = 55
    assert api.code("cuLaunchKernelEx", ctypes.addressof(raw), kernel, arguments, 0) == "INVALID_VALUE"


RANKED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry ranked(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [out]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %cluster_ctarank; st.global.u32 [%d2], %r1; ret;
}
"""


def test_a_launch_in_clusters(api) -> None:
    kernel, out = api.kernel(RANKED, "ranked"), api.word("cuMemAlloc", 4)
    attributes = (ctypes.c_uint64 * 9)(4, 2 | 1 << 32, 1)
    raw = (ctypes.c_uint64 * 7)(2 | 1 << 32, 1 | 32 << 32, 1 | 1 << 32, 0, 0, ctypes.addressof(attributes), 1)
    api.cuLaunchKernelEx(ctypes.addressof(raw), kernel, parameters(ctypes.c_uint64(out)), 0)
    assert api.download(out, np.uint32, 1)[0] == 1  # of the block that wrote last
    api.cuFuncSetAttribute(kernel, 11, 1)  # required cluster width, height, depth
    api.cuFuncSetAttribute(kernel, 12, 1)
    api.cuFuncSetAttribute(kernel, 13, 1)
    with pytest.raises(CallError, match="INVALID_CLUSTER_SIZE"):
        api.cuLaunchKernelEx(ctypes.addressof(raw), kernel, parameters(ctypes.c_uint64(out)), 0)
    api.cuFuncSetAttribute(kernel, 11, 0)
    raw[5] = raw[6] = 0
    assert api.word("cuOccupancyMaxPotentialClusterSize", kernel, ctypes.addressof(raw), kind=ctypes.c_int) == 8
    attributes[1] = 4 | 1 << 32
    raw[5], raw[6] = ctypes.addressof(attributes), 1
    clusters = api.word("cuOccupancyMaxActiveClusters", kernel, ctypes.addressof(raw), kind=ctypes.c_int)
    blocks = api.word("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, 32, 0, kind=ctypes.c_int)
    assert clusters == 132 * blocks // 4


def test_a_launch_that_fails_is_told_by_the_next_call(api) -> None:
    api.driver.launches.deferred = True  # as for programs of C
    kernel, out = api.kernel(AXPY, "axpy"), np.zeros(4, np.float32)
    address = api.word("cuMemAlloc", 16)
    api.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, axpy_parameters(0, 0, 1.0, 32), 0)
    assert api.code("cuMemcpyDtoH", out.ctypes.data, address, 16) == "ILLEGAL_ADDRESS"
    assert api.code("cuCtxSynchronize", 0) == "ILLEGAL_ADDRESS"
