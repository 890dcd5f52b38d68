"""Several devices behind the driver API: is each a device of its own, and do kernels reach a peer's memory when they
may, and only then?"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from driver_api import AXPY, Api, CallError, axpy_parameters

from gpusim.driver.device import make_device
from gpusim.driver.visible_devices import uuid_text
from gpusim.errors import UsageError

N = 300
_ORDINAL, _ILLEGAL = 9, "ILLEGAL_ADDRESS"


@pytest.fixture
def api() -> Api:
    return Api(devices=2)


def launch(api: Api, x: int, y: int, stream: int = 0, kernel: int | None = None) -> str:
    """y += 2 x in the current context, by a kernel that is loaded there unless one is given; the name of the
    CUresult."""
    kernel = kernel or api.kernel(AXPY, "axpy")
    return api.code("cuLaunchKernel", kernel, 2, 1, 1, 256, 1, 1, 0, stream, axpy_parameters(x, y, 2.0, N), 0)


def ones() -> np.ndarray:
    return np.ones(N, np.float32)


def test_devices_are_alike_and_told_apart(api: Api) -> None:
    assert api.word("cuDeviceGetCount", kind=ctypes.c_int) == 2
    texts = []
    for number in (0, 1):
        bus, uuid = ctypes.create_string_buffer(32), ctypes.create_string_buffer(16)
        api.cuDeviceGetPCIBusId(ctypes.addressof(bus), 32, number)
        api.cuDeviceGetUuid(ctypes.addressof(uuid), number)
        assert api.word("cuDeviceGetByPCIBusId", ctypes.c_char_p(bus.value), kind=ctypes.c_int) == number
        assert bus.value == b"0000:%02x:00.0" % api.word("cuDeviceGetAttribute", 33, number, kind=ctypes.c_int)
        texts.append((bus.value, uuid.raw))
    assert texts[0][0] != texts[1][0] and texts[0][1] != texts[1][1]
    assert api.code("cuDeviceGet", ctypes.byref(ctypes.c_int()), 2) == "INVALID_DEVICE"
    assert "2 devices, numbered from 0; 2 was asked for" in api.driver.details[-1]


def test_each_device_has_memory_of_its_own(api: Api) -> None:
    free = [ctypes.c_uint64(), ctypes.c_uint64()]
    here = api.upload(ones())
    there_context = api.on(1)
    api.cuMemGetInfo(ctypes.byref(free[0]), ctypes.byref(free[1]))
    assert free[0].value == free[1].value
    there = api.upload(2 * ones())
    value = ctypes.c_int()
    for address, device in ((here, 0), (there, 1)):
        api.cuPointerGetAttribute(ctypes.addressof(value), _ORDINAL, address + 4)
        assert value.value == device
    assert api.word("cuCtxGetDevice", 0, kind=ctypes.c_int) == 1
    api.cuMemcpyPeer(here, api.on(0), there, there_context, N * 4)
    assert (api.download(here, np.float32, N) == 2).all()


def test_a_reset_frees_what_is_the_devices_and_nothing_else(api: Api) -> None:
    here, stream = api.upload(ones()), api.word("cuStreamCreate", 0)
    event = api.word("cuEventCreate", 0)
    api.on(1)
    there, its_stream = api.upload(ones()), api.word("cuStreamCreate", 0)
    api.cuDevicePrimaryCtxReset(1)
    assert api.driver.memory.used_of(1) == 0
    assert api.code("cuMemFree", there) == "INVALID_VALUE"
    assert api.code("cuStreamSynchronize", its_stream) == "INVALID_HANDLE"
    api.on(0)
    api.cuEventRecord(event, stream)
    assert (api.download(here, np.float32, N) == 1).all() and api.driver.memory.used_of(0) == 4 * N


def test_kernels_reach_a_peer_once_access_is_enabled(api: Api) -> None:
    there_context = api.on(1)
    there = api.upload(ones())
    api.on(0)
    here = api.upload(3 * ones())
    assert api.word("cuDeviceCanAccessPeer", 0, 1, kind=ctypes.c_int) == 1
    api.cuCtxEnablePeerAccess(there_context, 0)
    assert launch(api, here, there) == "SUCCESS"
    assert launch(api, there, here) == "SUCCESS"
    assert (api.download(there, np.float32, N) == 7).all()
    assert (api.download(here, np.float32, N) == 17).all()


def test_without_access_a_peers_memory_is_an_illegal_address_that_breaks_one_device(api: Api) -> None:
    api.on(1)
    there = api.upload(ones())
    api.on(0)
    assert launch(api, api.upload(ones()), there) == _ILLEGAL
    assert "of device 1, which device 0 has no access to (cuCtxEnablePeerAccess" in api.driver.details[-1]
    assert api.code("cuCtxSynchronize", version=12000) == _ILLEGAL
    api.on(1)
    api.cuStreamSynchronize(0)
    assert launch(api, api.upload(ones()), there) == "SUCCESS"
    assert (api.download(there, np.float32, N) == 3).all()


def test_access_has_one_direction_and_ends(api: Api) -> None:
    here_context, here = api.on(0), api.upload(ones())
    there_context, there = api.on(1), api.upload(ones())
    api.cuCtxEnablePeerAccess(here_context, 0)
    assert launch(api, there, here) == "SUCCESS"
    api.cuCtxDisablePeerAccess(here_context)
    api.on(0)
    assert api.code("cuCtxDisablePeerAccess", there_context) == "PEER_ACCESS_NOT_ENABLED"
    api.on(1)
    assert launch(api, there, here) == _ILLEGAL


@pytest.mark.parametrize(
    "call, code",
    [
        (lambda api, own, peer: api.code("cuCtxEnablePeerAccess", peer, 0), "PEER_ACCESS_ALREADY_ENABLED"),
        (lambda api, own, peer: api.code("cuCtxEnablePeerAccess", peer, 1), "INVALID_VALUE"),
        (lambda api, own, peer: api.code("cuCtxEnablePeerAccess", own, 0), "INVALID_CONTEXT"),
        (lambda api, own, peer: api.code("cuCtxEnablePeerAccess", 0x1234, 0), "INVALID_CONTEXT"),
        (lambda api, own, peer: api.code("cuCtxDisablePeerAccess", own), "INVALID_CONTEXT"),
    ],
)
def test_what_cannot_be_enabled_says_why(api: Api, call: Callable[[Api, int, int], str], code: str) -> None:
    peer, own = api.on(1), api.on(0)
    api.cuCtxEnablePeerAccess(peer, 0)
    assert call(api, own, peer) == code


def test_cards_without_peer_access_say_so() -> None:
    api = Api("rtx4090", devices=2)
    assert api.word("cuDeviceCanAccessPeer", 0, 1, kind=ctypes.c_int) == 0
    peer = api.on(1)
    api.on(0)
    assert api.code("cuCtxEnablePeerAccess", peer, 0) == "PEER_ACCESS_UNSUPPORTED"


@pytest.mark.parametrize("gpu, atomics", [("h200", 1), ("l4", 0)])
def test_what_lies_between_two_devices(gpu: str, atomics: int) -> None:
    api = Api(gpu, devices=2)
    told = [api.word("cuDeviceGetP2PAttribute", kind, 0, 1, kind=ctypes.c_int) for kind in (1, 2, 3, 4)]
    assert told == [0, 1, atomics, 1]
    assert api.code("cuDeviceGetP2PAttribute", ctypes.byref(ctypes.c_int()), 2, 1, 1) == "INVALID_DEVICE"


def test_streams_events_and_modules_are_of_their_device(api: Api) -> None:
    kernel, stream, event = api.kernel(AXPY, "axpy"), api.word("cuStreamCreate", 0), api.word("cuEventCreate", 0)
    api.cuEventRecord(event, stream)
    api.on(1)
    x, y, other = api.upload(ones()), api.upload(ones()), api.word("cuEventCreate", 0)
    number = ctypes.c_int(7)
    api.cuStreamGetDevice(stream, ctypes.byref(number))
    assert number.value == 0
    assert launch(api, x, y, kernel=kernel) == "INVALID_HANDLE"
    assert launch(api, x, y, stream) == "INVALID_HANDLE"
    assert api.code("cuEventRecord", event, 0) == "INVALID_HANDLE"
    api.cuEventRecord(other, 0)
    assert api.code("cuEventElapsedTime", ctypes.byref(ctypes.c_float()), event, other) == "INVALID_HANDLE"
    # Waiting, and copies, go across devices.
    api.cuEventSynchronize(event)
    api.cuStreamWaitEvent(0, event, 0)
    api.cuMemcpyDtoDAsync(x, y, 4 * N, stream)


def test_a_graph_works_on_several_devices(api: Api) -> None:
    here, stream, fork = api.upload(ones()), api.word("cuStreamCreate", 0), api.word("cuEventCreate", 2)
    here_kernel = api.kernel(AXPY, "axpy")
    there_context = api.on(1)
    there, its_stream, join = api.upload(ones()), api.word("cuStreamCreate", 0), api.word("cuEventCreate", 2)
    there_kernel = api.kernel(AXPY, "axpy")
    api.on(0)
    api.cuCtxEnablePeerAccess(there_context, 0)
    api.cuStreamBeginCapture(stream, 0)
    api.cuEventRecord(fork, stream)
    api.cuStreamWaitEvent(its_stream, fork, 0)
    api.on(1)
    assert launch(api, there, there, its_stream, there_kernel) == "SUCCESS"
    api.cuEventRecord(join, its_stream)
    api.on(0)
    api.cuStreamWaitEvent(stream, join, 0)
    assert launch(api, there, here, stream, here_kernel) == "SUCCESS"
    graph = api.word_of_second("cuStreamEndCapture", stream)
    executable = api.word("cuGraphInstantiate", graph, 0)
    for _ in range(2):
        api.cuGraphLaunch(executable, stream)
    assert (api.download(there, np.float32, N) == 9).all() and (api.download(here, np.float32, N) == 25).all()
    # It was made in a context of the first device, and stays when the second is reset.
    api.cuDevicePrimaryCtxReset(1)
    assert api.code("cuGraphLaunch", executable, stream) == _ILLEGAL


def test_a_library_has_variables_on_each_device(api: Api) -> None:
    text = ctypes.create_string_buffer(AXPY.encode())
    library = api.word("cuLibraryLoadData", ctypes.addressof(text), 0, 0, 0, 0, 0, 0)
    kernel = api.word("cuLibraryGetKernel", library, ctypes.c_char_p(b"axpy"))
    places = []
    for device in (0, 1):
        api.on(device)
        address, size = ctypes.c_uint64(), ctypes.c_uint64()
        api.cuLibraryGetGlobal(ctypes.byref(address), ctypes.byref(size), library, ctypes.c_char_p(b"counter"))
        assert api.download(address.value, np.int32, 1)[0] == 7
        api.cuMemsetD32(address.value, device, 1)
        places.append(address.value)
        x, y = api.upload(ones()), api.upload(ones())
        assert launch(api, x, y, kernel=kernel) == "SUCCESS"
    assert [api.download(place, np.int32, 1)[0] for place in places] == [0, 1]


def test_managed_memory_is_every_devices(api: Api) -> None:
    shared = api.word("cuMemAllocManaged", 4 * N, 1)
    view = np.ctypeslib.as_array((ctypes.c_float * N).from_address(shared))
    view[:] = 1
    api.on(1)
    assert launch(api, shared, shared) == "SUCCESS"
    assert (view == 3).all()


def test_a_devices_default_pool_has_its_handle_still_when_the_device_was_reset(api: Api) -> None:
    pools = [api.word("cuDeviceGetDefaultMemPool", number) for number in (0, 1)]
    api.on(1)
    kept = api.word("cuMemAllocAsync", 64, 0)
    api.cuDevicePrimaryCtxReset(1)
    api.on(1)
    assert api.code("cuMemFree", kept) == "INVALID_VALUE"  # gone with its device
    assert [api.word("cuDeviceGetDefaultMemPool", number) for number in (0, 1)] == pools
    assert api.word("cuMemAllocFromPoolAsync", 64, pools[1], 0)


def test_a_pool_lets_another_device_in(api: Api) -> None:
    pool = api.word("cuDeviceGetDefaultMemPool", 0)
    from_pool = api.word("cuMemAllocAsync", 4 * N, 0)
    own_context = api.on(0)
    api.on(1)
    x = api.upload(ones())
    api.cuCtxEnablePeerAccess(own_context, 0)  # of pools' memory that says nothing
    rights = (ctypes.c_int * 3)(1, 1, 3)  # device, number 1, to read and write
    api.cuMemPoolSetAccess(pool, ctypes.addressof(rights), 1)
    assert launch(api, x, from_pool) == "SUCCESS"
    rights[2] = 0
    api.cuMemPoolSetAccess(pool, ctypes.addressof(rights), 1)
    assert launch(api, x, from_pool) == _ILLEGAL


@pytest.mark.parametrize(
    "setting, numbers",
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("1,7,0", [1]),
        ("1, 2", [1, 2]),
        ("1,1", []),
        ("", []),
        ("-1", []),
        (uuid_text(make_device("h200", count=3).all()[1])[:12], [1]),
    ],
)
def test_visible_devices_are_chosen_in_order(setting: str | None, numbers: list[int]) -> None:
    if numbers:
        found = Api(devices=3, visible=setting).driver.contexts.devices
        assert [device.number for device in found] == numbers
    else:
        with pytest.raises(CallError, match="cuInit: CUDA_ERROR_NO_DEVICE"):
            Api(devices=3, visible=setting)


@pytest.mark.parametrize("count", [0, 17])
def test_a_node_has_no_more_devices(count: int) -> None:
    with pytest.raises(UsageError, match=f"{count} devices: a node has 1 to 16"):
        make_device("h200", count=count)
