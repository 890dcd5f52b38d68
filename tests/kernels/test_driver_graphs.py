"""Graphs and stream capture: does a graph do what its nodes and edges say, and are CUDA's rules about captures kept?"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_api import AXPY, Api, CallError, address_of, axpy_parameters, keep, parameters

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NON_BLOCKING = 1


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def stream(api) -> int:
    return api.word("cuStreamCreate", NON_BLOCKING)


def host_function(action) -> int:
    return ctypes.cast(keep(HOST_FUNCTION(lambda data: action(data))), ctypes.c_void_p).value


def kernel_node(api, graph, before, function, grid, block, arguments) -> int:
    raw = (ctypes.c_uint64 * 9)()
    raw[0] = function
    ctypes.memmove(ctypes.addressof(raw) + 8, (ctypes.c_uint * 7)(grid, 1, 1, block, 1, 1, 0), 28)
    raw[5] = arguments
    return add(api, "cuGraphAddKernelNode", graph, before, ctypes.addressof(keep(raw)))


def add(api, name, graph, before, *rest) -> int:
    array = (ctypes.c_uint64 * max(1, len(before)))(*before)
    return api.word(name, graph, ctypes.addressof(keep(array)), len(before), *rest)


def host_node(api, graph, before, function, data) -> int:
    return add(api, "cuGraphAddHostNode", graph, before, ctypes.addressof(keep((ctypes.c_uint64 * 2)(function, data))))


def fill_node(api, graph, before, address, value, count) -> int:
    raw = (ctypes.c_uint64 * 5)(address, 0, value | 4 << 32, count, 1)
    return add(api, "cuGraphAddMemsetNode", graph, before, ctypes.addressof(keep(raw)), 0)


def copy_node(api, graph, before, target, source, size) -> int:
    box = cu.CUDA_MEMCPY3D()
    for side, address in (("src", source), ("dst", target)):
        setattr(box, f"{side}MemoryType", cu.CUmemorytype.CU_MEMORYTYPE_DEVICE)
        setattr(box, f"{side}Device", cu.CUdeviceptr(address))
    box.WidthInBytes, box.Height, box.Depth = size, 1, 1
    return add(api, "cuGraphAddMemcpyNode", graph, before, address_of(box), 0)


def listed(api, name, *arguments) -> list[int]:
    count = ctypes.c_uint64()
    getattr(api, name)(*arguments, 0, ctypes.byref(count))
    found = (ctypes.c_uint64 * max(1, count.value))()
    getattr(api, name)(*arguments, found, ctypes.byref(count))
    return list(found[: count.value])


def test_nodes_run_behind_what_they_wait_for(api, stream) -> None:
    x, y = (api.word("cuMemAlloc", 256) for _ in range(2))
    function, said = api.kernel(AXPY, "axpy"), []
    graph = api.word("cuGraphCreate", 0)
    last = host_node(api, graph, [], host_function(lambda data: said.append(("last", data))), 9)
    launch = kernel_node(api, graph, [], function, 2, 32, axpy_parameters(x, y, 2.0, 64))
    ones, zeros = fill_node(api, graph, [], x, 0x3F800000, 64), fill_node(api, graph, [], y, 0, 64)
    copied = copy_node(api, graph, [], x, y, 128)
    source = (ctypes.c_uint64 * 4)(ones, zeros, launch, copied)
    target = (ctypes.c_uint64 * 4)(launch, launch, copied, last)
    api.cuGraphAddDependencies(graph, ctypes.addressof(source), ctypes.addressof(target), 0, 4)
    assert listed(api, "cuGraphGetNodes", graph) == [last, launch, ones, zeros, copied]
    assert listed(api, "cuGraphGetRootNodes", graph) == [ones, zeros]
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    for _ in range(2):
        api.cuGraphLaunch(executable, stream)
        assert (api.download(y, np.float32, 64) == 2).all()
        assert (api.download(x, np.float32, 64) == np.repeat([2, 1], 32)).all()
    assert said == [("last", 9)] * 2 and api.launches == [("axpy", 2)]
    api.cuGraphNodeSetEnabled(executable, launch, 0)
    api.cuGraphLaunch(executable, stream)
    assert (api.download(y, np.float32, 64) == 0).all()
    assert api.code("cuGraphNodeSetEnabled", executable, last, 0) == "INVALID_VALUE"
    circle = (ctypes.c_uint64 * 1)(last), (ctypes.c_uint64 * 1)(ones)
    api.cuGraphAddDependencies(graph, *map(ctypes.addressof, circle), 0, 1)
    assert api.code("cuGraphInstantiateWithFlags", ctypes.byref(ctypes.c_uint64()), graph, 0) == "INVALID_VALUE"
    api.cuGraphExecDestroy(executable)
    assert api.code("cuGraphLaunch", executable, stream) == "INVALID_VALUE"


def test_parameters_are_told_and_changed(api, stream) -> None:
    x, y = api.upload(np.ones(32, np.float32)), api.upload(np.zeros(32, np.float32))
    graph, function = api.word("cuGraphCreate", 0), api.kernel(AXPY, "axpy")
    node = kernel_node(api, graph, [], function, 1, 32, axpy_parameters(x, y, 2.0, 32))
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    raw = (ctypes.c_uint64 * 9)()
    api.cuGraphKernelNodeGetParams(node, ctypes.addressof(raw))
    pointers = (ctypes.c_uint64 * 4).from_address(raw[5])
    assert raw[0] == function and raw[1] == 1 | 1 << 32
    assert ctypes.c_float.from_address(pointers[2]).value == 2 and ctypes.c_uint64.from_address(pointers[1]).value == y
    raw[5] = axpy_parameters(x, y, 5.0, 32)
    api.cuGraphExecKernelNodeSetParams(executable, node, ctypes.addressof(raw))
    api.cuGraphLaunch(executable, stream)
    assert (api.download(y, np.float32, 32) == 5).all()
    kind = ctypes.c_int(7)
    api.cuGraphNodeGetType(node, ctypes.byref(kind))
    assert kind.value == 0
    raw[2] = 1 | 4096 << 32  # a block of 4096 threads
    assert api.code("cuGraphKernelNodeSetParams", node, ctypes.addressof(raw)) == "INVALID_VALUE"
    assert api.code("cuGraphMemsetNodeGetParams", node, ctypes.addressof(raw)) == "INVALID_VALUE"
    value = (ctypes.c_int * 16)(-3)
    api.cuGraphKernelNodeSetAttribute(node, 8, ctypes.addressof(value))
    value[0] = 0
    api.cuGraphKernelNodeGetAttribute(node, 8, ctypes.addressof(value))
    assert value[0] == -3


def test_an_instantiated_graph_follows_another_of_its_shape(api, stream) -> None:
    word = api.word("cuMemAlloc", 8)

    def chain(first: int, second: int, extra: bool = False) -> int:
        graph = api.word("cuGraphCreate", 0)
        node = fill_node(api, graph, [], word, first, 1)
        node = fill_node(api, graph, [node], word + 4, second, 1)
        if extra:
            add(api, "cuGraphAddEmptyNode", graph, [node])
        return graph

    executable = api.word("cuGraphInstantiateWithFlags", chain(1, 2), 0)
    result = (ctypes.c_uint64 * 3)()
    api.cuGraphExecUpdate(executable, chain(3, 4), ctypes.addressof(result))
    api.cuGraphLaunch(executable, stream)
    assert api.download(word, np.uint32, 2).tolist() == [3, 4] and result[0] & 0xFFFFFFFF == 0
    assert (
        api.code("cuGraphExecUpdate", executable, chain(3, 4, True), ctypes.addressof(result))
        == "GRAPH_EXEC_UPDATE_FAILURE"
    )
    assert result[0] & 0xFFFFFFFF == 2  # the topology changed
    clone = api.word("cuGraphClone", graph := chain(5, 6))
    node = listed(api, "cuGraphGetNodes", graph)[0]
    assert api.word("cuGraphNodeFindInClone", node, clone) == listed(api, "cuGraphGetNodes", clone)[0] != node


def test_graphs_in_graphs_and_memory_of_graphs(api, stream) -> None:
    graph, child = api.word("cuGraphCreate", 0), api.word("cuGraphCreate", 0)
    out = api.upload(np.zeros(4, np.uint32))
    wanted = cu.CUDA_MEM_ALLOC_NODE_PARAMS()
    wanted.poolProps.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.poolProps.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.bytesize = 16
    allocation = add(api, "cuGraphAddMemAllocNode", graph, [], address_of(wanted))
    address = int(wanted.dptr)
    assert address and api.code("cuMemcpyDtoH", np.zeros(4).ctypes.data, address, 4) == "INVALID_VALUE"  # not there yet
    fill_node(api, child, [], address, 7, 4)
    inner = add(api, "cuGraphAddChildGraphNode", graph, [allocation], child)
    copied = copy_node(api, graph, [inner], out, address, 16)
    freed = add(api, "cuGraphAddMemFreeNode", graph, [copied], address)
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    for _ in range(2):
        api.cuGraphLaunch(executable, stream)
    assert (api.download(out, np.uint32, 4) == 7).all()
    api.cuGraphDestroyNode(freed)
    keeping = api.word("cuGraphInstantiateWithFlags", graph, 0)
    api.cuGraphLaunch(keeping, stream)
    assert (api.download(address, np.uint32, 4) == 7).all()
    assert api.code("cuGraphLaunch", keeping, stream) == "INVALID_VALUE"  # the last launch's memory was not freed
    api.cuMemFreeAsync(address, stream)
    api.cuGraphLaunch(keeping, stream)
    api.cuMemFree(address)
    for name, handle in (
        ("cuGraphExecDestroy", executable),
        ("cuGraphExecDestroy", keeping),
        ("cuGraphDestroy", graph),
    ):
        getattr(api, name)(handle)
    assert api.driver.memory.used_bytes == 16  # ``out`` alone


def test_what_a_stream_would_do_is_written_down(api, stream) -> None:
    x, y, host = api.word("cuMemAlloc", 128), api.word("cuMemAlloc", 128), np.zeros(32, np.float32)
    function, said = api.kernel(AXPY, "axpy"), []
    side, fork, join = (
        api.word("cuStreamCreate", NON_BLOCKING),
        api.word("cuEventCreate", 2),
        api.word("cuEventCreate", 2),
    )
    api.cuStreamBeginCapture(stream, 0)
    api.cuMemsetD32Async(x, 0x3F800000, 32, stream)
    api.cuEventRecord(fork, stream)
    api.cuStreamWaitEvent(side, fork, 0)
    api.cuMemsetD32Async(y, 0x40000000, 32, side)
    api.cuEventRecord(join, side)
    api.cuStreamWaitEvent(stream, join, 0)
    api.cuStreamDestroy(side)  # it has been joined
    scratch = api.word("cuMemAllocAsync", 128, stream)
    api.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, axpy_parameters(x, y, 4.0, 32), 0)
    api.cuMemcpyAsync(scratch, y, 128, stream)
    api.cuMemcpyDtoHAsync(host.ctypes.data, scratch, 128, stream)
    api.cuMemFreeAsync(scratch, stream)
    api.cuLaunchHostFunc(stream, host_function(said.append), 3)
    status, number = ctypes.c_int(), ctypes.c_uint64()
    api.cuStreamGetCaptureInfo(stream, ctypes.byref(status), ctypes.byref(number), 0, 0, 0, 0)
    assert status.value == 1
    graph = api.word_of_second("cuStreamEndCapture", stream)
    assert api.launches == [] and not host.any() and not said
    kinds = []
    for node in listed(api, "cuGraphGetNodes", graph):
        kind = ctypes.c_int()
        api.cuGraphNodeGetType(node, ctypes.byref(kind))
        kinds.append(kind.value)
    assert kinds == [2, 2, 10, 0, 1, 1, 11, 3]
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    api.cuGraphLaunch(executable, stream)
    assert (host == 6).all() and said == [3] and api.launches == [("axpy", 1)]


def capture_code(api, stream, name, *arguments) -> tuple[str, str]:
    """What a call returns within a capture, and what the capture's end returns then."""
    api.cuStreamBeginCapture(stream, 0)
    return api.code(name, *arguments), api.code("cuStreamEndCapture", stream, ctypes.byref(ctypes.c_uint64()))


def test_captures_end_where_they_must(api, stream) -> None:
    out, event = ctypes.c_uint64(), api.word("cuEventCreate", 2)
    blocking = api.word("cuStreamCreate", 0)
    word = api.word("cuMemAlloc", 4)
    assert api.code("cuStreamBeginCapture", 0, 0) == "STREAM_CAPTURE_UNSUPPORTED"
    assert api.code("cuStreamEndCapture", stream, ctypes.byref(out)) == "ILLEGAL_STATE"
    assert capture_code(api, stream, "cuStreamSynchronize", stream) == (
        "STREAM_CAPTURE_UNSUPPORTED",
        "STREAM_CAPTURE_INVALIDATED",
    )
    assert capture_code(api, stream, "cuMemAlloc", ctypes.byref(out), 8) == (
        "STREAM_CAPTURE_UNSUPPORTED",
        "STREAM_CAPTURE_INVALIDATED",
    )
    assert capture_code(api, blocking, "cuMemsetD32", word, 1, 1) == (
        "STREAM_CAPTURE_IMPLICIT",
        "STREAM_CAPTURE_INVALIDATED",
    )
    assert capture_code(api, stream, "cuMemsetD32", word, 1, 1) == ("SUCCESS", "SUCCESS")  # it is a non-blocking stream
    api.cuEventRecord(event, blocking)
    assert capture_code(api, stream, "cuStreamWaitEvent", stream, event, 0) == (
        "STREAM_CAPTURE_ISOLATION",
        "STREAM_CAPTURE_INVALIDATED",
    )
    api.cuStreamBeginCapture(stream, 0)
    api.cuEventRecord(event, stream)
    assert api.code("cuEventQuery", event) == "CAPTURED_EVENT"
    api.cuStreamWaitEvent(blocking, event, 0)
    api.cuMemsetD32Async(word, 1, 1, blocking)
    assert api.code("cuStreamEndCapture", blocking, ctypes.byref(out)) == "STREAM_CAPTURE_UNMATCHED"
    assert api.code("cuStreamEndCapture", stream, ctypes.byref(out)) == "STREAM_CAPTURE_INVALIDATED"
    api.cuStreamBeginCapture(stream, 0)
    api.cuEventRecord(event, stream)
    api.cuStreamWaitEvent(blocking, event, 0)
    api.cuMemsetD32Async(word, 1, 1, blocking)
    assert api.code("cuStreamEndCapture", stream, ctypes.byref(out)) == "STREAM_CAPTURE_UNJOINED"
    mode = ctypes.c_int(2)
    api.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    assert mode.value == 0
    assert capture_code(api, stream, "cuMemAlloc", ctypes.byref(out), 8) == ("SUCCESS", "SUCCESS")  # relaxed


def test_a_kernel_that_fails_ends_the_graph(api, stream) -> None:
    graph, function = api.word("cuGraphCreate", 0), api.kernel(AXPY, "axpy")
    word = api.upload(np.zeros(1, np.uint32))
    bad = kernel_node(api, graph, [], function, 1, 32, axpy_parameters(0x10, 0x10, 1.0, 32))
    fill_node(api, graph, [bad], word, 1, 1)
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    with pytest.raises(CallError, match="ILLEGAL_ADDRESS.*axpy"):
        api.cuGraphLaunch(executable, stream)
    assert api.code("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"


def test_user_objects_live_as_long_as_their_graphs(api) -> None:
    gone = []
    thing = api.word("cuUserObjectCreate", 0x77, host_function(gone.append), 1, 1)
    graph = api.word("cuGraphCreate", 0)
    api.cuGraphRetainUserObject(graph, thing, 1, 1)
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    api.cuGraphDestroy(graph)
    assert not gone
    api.cuGraphExecDestroy(executable)
    assert gone == [0x77]


COUNT_DOWN = """
.version 8.4
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry count_down(.param .u64 p, .param .u64 handle)
{
    .reg .b32 %r<3>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [p]; ld.param.u64 %d2, [handle]; cvta.to.global.u64 %d3, %d1;
    ld.global.u32 %r1, [%d3]; sub.u32 %r2, %r1, 1; st.global.u32 [%d3], %r2;
    { .param .b64 a; st.param.b64 [a], %d2; .param .b32 b; st.param.b32 [b], %r2; call.uni cudaGraphSetConditional, (a, b); }
    ret;
}
"""
IF, WHILE, SWITCH = range(3)
DEFAULT = 1


def conditional_node(api, graph, before, handle, choice, size) -> tuple[int, list[int]]:
    """The node, and the graphs among which it chooses."""
    raw = (ctypes.c_uint64 * 32)(13)
    ctypes.memmove(ctypes.addressof(raw) + 24, (ctypes.c_uint * 2)(choice, size), 8)
    raw[2] = handle
    array = (ctypes.c_uint64 * max(1, len(before)))(*before)
    node = api.word("cuGraphAddNode_v2", graph, ctypes.addressof(array), 0, len(before), ctypes.addressof(raw))
    return node, (ctypes.c_uint64 * size).from_address(raw[4])[:]


@pytest.mark.parametrize(("count", "runs"), [(3, 3), (1, 1)])
def test_a_while_node_runs_until_its_kernel_says_so(api, stream, count, runs) -> None:
    function = api.kernel(COUNT_DOWN, "count_down")
    address, graph = api.word("cuMemAlloc", 4), api.word("cuGraphCreate", 0)
    handle = api.word("cuGraphConditionalHandleCreate", graph, 0, 1, DEFAULT)
    first = fill_node(api, graph, [], address, count, 1)
    _, (body,) = conditional_node(api, graph, [first], handle, WHILE, 1)
    ran = []
    before = host_node(api, body, [], host_function(lambda data: ran.append(data)), 0)
    arguments = parameters(ctypes.c_uint64(address), ctypes.c_uint64(handle))
    kernel_node(api, body, [before], function, 1, 1, arguments)
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    for launch in (1, 2):  # the value is its default again at every launch
        api.cuGraphLaunch(executable, stream)
        assert len(ran) == launch * runs
    api.cuGraphExecDestroy(executable)
    api.cuGraphDestroy(graph)


@pytest.mark.parametrize(
    ("choice", "size", "value", "chosen"),
    [(IF, 1, 5, [0]), (IF, 1, 0, []), (IF, 2, 0, [1]), (SWITCH, 3, 2, [2]), (SWITCH, 3, 3, [])],
)
def test_a_conditional_node_chooses_among_graphs(api, stream, choice, size, value, chosen) -> None:
    graph, ran = api.word("cuGraphCreate", 0), []
    handle = api.word("cuGraphConditionalHandleCreate", graph, 0, value, DEFAULT)
    _, bodies = conditional_node(api, graph, [], handle, choice, size)
    for number, body in enumerate(bodies):
        host_node(api, body, [], host_function(lambda _, number=number: ran.append(number)), 0)
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    api.cuGraphLaunch(executable, stream)
    assert ran == chosen


def test_conditional_nodes_are_checked(api) -> None:
    graph = api.word("cuGraphCreate", 0)
    handle = api.word("cuGraphConditionalHandleCreate", graph, 0, 0, 0)
    for bad, choice, size in (
        (handle + 1, IF, 1),
        (handle, 3, 1),
        (handle, WHILE, 2),
        (handle, IF, 3),
        (handle, SWITCH, 0),
    ):
        with pytest.raises(CallError, match="INVALID_VALUE"):
            conditional_node(api, graph, [], bad, choice, size)
