"""Modules, links and tensor maps of the emulated driver: what is loaded, what is said of it, and what is refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_api import AXPY, Api, address_of, axpy_parameters, keep
from fat_binaries import container

from gpusim.errors import UsageError
from gpusim.launch.tensor_map import IM2COL, IM2COL_WIDE, TILED, TensorMap, check, decode, encode

CALLER = """
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 out) twice(.param .b32 in);
.visible .entry calls(.param .u64 out)
{
    .reg .b32 %r<3>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [out]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, 21;
    { .param .b32 in; st.param.b32 [in], %r1; .param .b32 back; call.uni (back), twice, (in); ld.param.b32 %r2, [back]; }
    st.global.u32 [%d2], %r2; ret;
}
"""
CALLEE = """
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 out) twice(.param .b32 in)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [in]; add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret;
}
"""


@pytest.fixture(scope="module")
def api() -> Api:
    return Api()


def buffer(data: bytes) -> int:
    return ctypes.addressof(keep(ctypes.create_string_buffer(data, len(data) + 1)))


def runs(api: Api, module: int) -> bool:
    kernel = api.word("cuModuleGetFunction", module, ctypes.c_char_p(b"axpy"))
    x, y = api.upload(np.ones(8, np.float32)), api.upload(np.zeros(8, np.float32))
    api.cuLaunchKernel(kernel, 1, 1, 1, 8, 1, 1, 0, 0, axpy_parameters(x, y, 2.0, 8), 0)
    return bool((api.download(y, np.float32, 8) == 2).all())


def test_parts_are_linked_and_the_log_stands_where_it_was_asked_for(api) -> None:
    log, size = ctypes.create_string_buffer(1024), 1024
    options, values = (ctypes.c_int * 2)(5, 6), (ctypes.c_uint64 * 2)(ctypes.addressof(log), size)
    told = (2, ctypes.addressof(options), ctypes.addressof(values))
    state = ctypes.c_uint64()
    api.cuLinkCreate(*told, ctypes.byref(state))
    caller = buffer(CALLER.encode())
    api.cuLinkAddData(state.value, 1, caller, len(CALLER), b"caller", 0, 0, 0)
    cubin, cubin_bytes = ctypes.c_uint64(), ctypes.c_size_t()
    result = ctypes.byref(cubin), ctypes.byref(cubin_bytes)
    assert api.code("cuLinkComplete", state.value, *result) == "INVALID_PTX"
    assert b"twice" in log.value and 0 < values[1] < size
    api.cuLinkDestroy(state.value)
    api.cuLinkCreate(0, 0, 0, ctypes.byref(state))
    api.cuLinkAddData(state.value, 1, caller, len(CALLER), b"caller", 0, 0, 0)
    api.cuLinkAddData(state.value, 1, buffer(CALLEE.encode()), len(CALLEE), b"callee", 0, 0, 0)
    api.cuLinkComplete(state.value, *result)
    module = api.word("cuModuleLoadData", cubin.value)
    api.cuLinkDestroy(state.value)
    kernel, out = api.word("cuModuleGetFunction", module, ctypes.c_char_p(b"calls")), api.word("cuMemAlloc", 4)
    api.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, _one(out), 0)
    assert api.download(out, np.uint32, 1)[0] == 42
    assert api.code("cuLinkAddFile", state.value, 1, b"nowhere.ptx", 0, 0, 0) == "INVALID_HANDLE"


def _one(value: int) -> int:
    word = keep(ctypes.c_uint64(value))
    return ctypes.addressof(keep((ctypes.c_uint64 * 1)(ctypes.addressof(word))))


def test_a_fat_binary_gives_the_image_that_suits_the_gpu(api) -> None:
    ptx = AXPY.encode()
    fat = container((1, 80, 0, ptx))
    module = api.word("cuModuleLoadFatBinary", buffer(fat))
    assert runs(api, module)
    wrapper = (ctypes.c_uint64 * 3)(0x466243B1 | 1 << 32, buffer(fat), 0)
    assert runs(api, api.word("cuModuleLoadData", ctypes.addressof(wrapper)))
    newer = container((1, 100, 0, ptx.replace(b"sm_80", b"sm_100")))
    assert api.code("cuModuleLoadFatBinary", ctypes.byref(ctypes.c_uint64()), buffer(newer)) == "NO_BINARY_FOR_GPU"
    assert api.code("cuModuleLoadData", ctypes.byref(ctypes.c_uint64()), buffer(b".version nonsense")) == "INVALID_PTX"


def test_old_ptx_is_raised(api) -> None:
    old = AXPY.replace(".version 8.0", ".version 3.2").replace("sm_80", "sm_20")
    assert runs(api, api.word("cuModuleLoadData", buffer(old.encode())))


def test_code_tells_for_which_architectures_it_was_made(api) -> None:
    """CUB launches, of what it has compiled, that for the architecture of the PTX: a program of compute_80 has nothing
    for 90."""
    function = api.word("cuModuleGetFunction", api.word("cuModuleLoadData", buffer(AXPY.encode())), b"axpy")
    told = {}
    for name, attribute in (("PTX", 5), ("machine code", 6)):
        get = ctypes.c_int()
        api.cuFuncGetAttribute(ctypes.byref(get), attribute, function)
        told[name] = get.value
    assert told == {"PTX": 80, "machine code": 90}


def test_libraries_kernels_and_variables(api, tmp_path) -> None:
    path = tmp_path / "axpy.ptx"
    path.write_text(AXPY)
    library = api.word("cuLibraryLoadFromFile", str(path).encode(), 0, 0, 0, 0, 0, 0)
    kernel = api.word("cuLibraryGetKernel", library, b"axpy")
    assert api.word("cuLibraryGetKernelCount", library, kind=ctypes.c_uint) == 1
    function = api.word("cuKernelGetFunction", kernel)
    address, size = ctypes.c_uint64(), ctypes.c_uint64()
    api.cuLibraryGetGlobal(ctypes.byref(address), ctypes.byref(size), library, b"counter")
    assert size.value == 4 and api.download(address.value, np.uint32, 1)[0] == 7
    get = ctypes.c_int()
    api.cuFuncSetAttribute(function, 8, 100 << 10)
    api.cuKernelGetAttribute(ctypes.byref(get), 8, kernel, 0)
    assert get.value == 100 << 10
    assert api.code("cuFuncSetAttribute", function, 8, 1 << 20) == "INVALID_VALUE"
    assert (
        api.code("cuFuncSetAttribute", function, 17, 1) == "NOT_SUPPORTED"
    )  # so that Triton asks for plain dynamic memory
    assert api.code("cuFuncSetAttribute", function, 4, 1) == "INVALID_VALUE"
    assert api.code("cuFuncGetAttribute", ctypes.byref(get), 99, function) == "INVALID_VALUE"
    assert api.code("cuFuncSetCacheConfig", function, 7) == "INVALID_VALUE"
    assert api.code("cuLibraryGetKernel", ctypes.byref(address), library, b"nothing") == "NOT_FOUND"
    assert api.code("cuModuleLoad", ctypes.byref(address), b"/no/such/file") == "FILE_NOT_FOUND"


# ---- tensor maps -----------------------------------------------------------------------------


TILE = TensorMap(
    TILED, 7, 0x7F0000001000, (1024, 64, 8), (4096, 262144), (1, 1, 2), swizzle=3, promotion=2, box=(32, 16, 4)
)
COLUMNS = TensorMap(
    IM2COL,
    6,
    0x1000,
    (64, 28, 30, 5),
    (128, 3584, 107520),
    (1, 2, 2, 1),
    lower=(-1, -2),
    upper=(-3, 1),
    channels=64,
    pixels=256,
)


def test_a_tensor_map_comes_back_as_it_was_encoded() -> None:
    for each in (TILE, COLUMNS):
        assert len(encode(each)) == 128 and decode(encode(check(each))) == each
    with pytest.raises(UsageError, match="no tensor map"):
        decode(bytes([255]) * 128)


#: The beginnings of maps of half floats that host code of the CuTe DSL wrote; behind their 64 bytes it leaves what lay
#: there.
WRITTEN = {
    "00000000 007f0000 12630400 18000000 00000000 00000000 00000000 00000000 bf000000 ff000000 00000000 00000000"
    "00000000 0000003f 7f000000 00000000": TensorMap(
        TILED, 6, 0x7F0000000000, (192, 256), (384,), (1, 1), swizzle=3, promotion=2, box=(64, 128)
    ),
    "00000000 007f0000 23230400 08000000 a0000000 00000000 00000000 00000000 3f000000 13000000 03000000 00000000"
    "00000000 0800000f d4fe2b01 3f000000": TensorMap(
        IM2COL, 6, 0x7F0000000000, (64, 20, 4), (128, 2560), (1, 2, 1), swizzle=1, promotion=2, lower=(-300,), upper=(299,),
        channels=16, pixels=64,
    ),
    "00000000 007f0000 43632400 08000000 a0000000 400b0000 00b40000 00000000 3f000000 13000000 11000000 0f000000"
    "03000000 0000003f df77410c 7f000000": TensorMap(
        IM2COL, 6, 0x7F0000000000, (64, 20, 18, 16, 4), (128, 2560, 46080, 737280), (1, 1, 1, 1, 1), swizzle=3, promotion=2,
        lower=(-1, -2, -3), upper=(1, 2, 3), channels=64, pixels=128,
    ),
}  # fmt: skip


@pytest.mark.parametrize("written", WRITTEN)
def test_maps_lie_in_memory_as_the_cute_dsl_writes_them(written: str) -> None:
    data = bytes.fromhex(written)
    assert decode(data + bytes(range(64))) == WRITTEN[written]
    # bit 21 of the flags, which the DSL sets for some maps, changes nothing
    plain = data[:10] + bytes([data[10] & 0xDF]) + data[11:]
    assert encode(WRITTEN[written])[:64] == plain


def encode_tiled(api: Api, out: int, **changed: object) -> str:
    given = {
        "kind": 7, "rank": 3, "address": 0x7F0000001000, "dims": (1024, 64, 8), "strides": (4096, 262144), "box": (32, 16, 4),
        "steps": (1, 1, 2), "interleave": 0, "swizzle": 3, "promotion": 2, "fill": 0, **changed,
    }  # fmt: skip
    word, half = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
    arrays = word(*given["dims"]), word(*given["strides"]), half(*given["box"]), half(*given["steps"])
    layout = given["interleave"], given["swizzle"], given["promotion"], given["fill"]
    return api.code("cuTensorMapEncodeTiled", out, given["kind"], given["rank"], given["address"], *arrays, *layout)


@pytest.mark.parametrize(
    "changed",
    [
        {"rank": 0}, {"rank": 6}, {"address": 0x7F0000001008}, {"dims": (0, 64, 8)}, {"dims": (1024, 64, (1 << 32) + 1)},
        {"strides": (4104, 262144)}, {"strides": (4096, 1 << 40)}, {"box": (32, 257, 4)}, {"box": (32, 0, 4)},
        {"box": (30, 16, 4)}, {"box": (64, 16, 4)}, {"steps": (1, 9, 1)}, {"steps": (1, 0, 1)}, {"swizzle": 7}, {"kind": 16},
        {"interleave": 2}, {"fill": 1, "kind": 2}, {"promotion": 4}, {"kind": 14}, {"rank": 2, "interleave": 1},
    ],
)  # fmt: skip
def test_every_documented_limit_of_a_tiled_map_is_kept(api, changed) -> None:
    raw = ctypes.create_string_buffer(256)
    place = -(-ctypes.addressof(raw) // 64) * 64
    assert encode_tiled(api, place, **changed) == "INVALID_VALUE"
    assert not any(raw.raw)


def test_tensor_maps_through_the_driver(api) -> None:
    raw = ctypes.create_string_buffer(256)
    place = -(-ctypes.addressof(raw) // 64) * 64
    assert encode_tiled(api, place) == "SUCCESS" and decode(ctypes.string_at(place, 128)) == TILE
    assert encode_tiled(api, place + 8) == "INVALID_VALUE"
    api.cuTensorMapReplaceAddress(place, 0x7F0000002000)
    assert decode(ctypes.string_at(place, 128)).address == 0x7F0000002000
    assert api.code("cuTensorMapReplaceAddress", place, 0x7F0000002004) == "INVALID_VALUE"
    word, half, number = ctypes.c_uint64 * 4, ctypes.c_uint32 * 4, ctypes.c_int * 2
    sizes = word(*COLUMNS.dimensions), word(*COLUMNS.strides_bytes)
    box = number(*COLUMNS.lower), number(*COLUMNS.upper)
    api.cuTensorMapEncodeIm2col(place, 6, 4, 0x1000, *sizes, *box, 64, 256, half(1, 2, 2, 1), 0, 0, 0, 0)
    assert decode(ctypes.string_at(place, 128)) == COLUMNS
    far = number(-129, 0)
    arguments = place, 6, 4, 0x1000, *sizes, far, box[1], 64, 256, half(1, 2, 2, 1), 0, 0, 0, 0
    assert api.code("cuTensorMapEncodeIm2col", *arguments) == "INVALID_VALUE"
    assert encode_tiled(Api("a100_80gb"), place) == "NOT_SUPPORTED"


def test_wide_im2col_maps_through_the_driver(api) -> None:
    raw = ctypes.create_string_buffer(256)
    place = -(-ctypes.addressof(raw) // 64) * 64
    word, half = ctypes.c_uint64 * 4, ctypes.c_uint32 * 4

    def wide(on: Api, lower: int = -300, swizzle: int = 3, interleave: int = 0, pixels: int = 256) -> str:
        sizes = word(*COLUMNS.dimensions), word(*COLUMNS.strides_bytes)
        rest = lower, 2, 64, pixels, half(1, 2, 1, 1), interleave, 1, swizzle, 0, 0
        return on.code("cuTensorMapEncodeIm2colWide", place, 6, 4, 0x1000, *sizes, *rest)

    new = Api("b200")
    assert wide(new) == "SUCCESS"
    found = decode(ctypes.string_at(place, 128))
    assert (found.kind, found.mode, found.lower, found.upper, found.pixels) == (IM2COL_WIDE, 1, (-300,), (2,), 256)
    for wrong in ({"lower": -40000}, {"swizzle": 0}, {"swizzle": 5}, {"interleave": 1}):
        assert wide(new, **wrong) == "INVALID_VALUE", wrong
    assert wide(api) == "NOT_SUPPORTED"


def test_a_graph_node_of_cuda_bindings_is_read(api) -> None:
    """The structures of cuda.bindings are those of cuda.h: one with a union in it, to hold the layouts against them."""
    parameters = cu.CUgraphNodeParams()
    parameters.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
    word = api.word("cuMemAlloc", 4)
    parameters.memset.dst, parameters.memset.value, parameters.memset.elementSize = cu.CUdeviceptr(word), 5, 4
    parameters.memset.width, parameters.memset.height = 1, 1
    graph, node = api.word("cuGraphCreate", 0), ctypes.c_uint64()
    api.cuGraphAddNode(ctypes.byref(node), graph, 0, 0, 0, address_of(parameters))
    executable = api.word("cuGraphInstantiateWithFlags", graph, 0)
    api.cuGraphLaunch(executable, 0)
    assert api.download(word, np.uint32, 1)[0] == 5


def test_a_runtime_library_finds_its_tables_but_no_proof_of_the_vendor(api) -> None:
    def table(number: str) -> int:
        raw = keep(ctypes.create_string_buffer(bytes.fromhex(number), 16))
        return api.word("cuGetExportTable", ctypes.addressof(raw))

    words = (ctypes.c_uint64 * 13).from_address(table("6bd5fb6c5bf4e74a8987d93912fd9df9"))
    assert words[0] == ctypes.sizeof(words)
    context = ctypes.c_uint64()
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(words[2])(ctypes.addressof(context), 0) == 0
    assert context.value == api.word("cuCtxGetCurrent")
    keeps, drops, gives, _ = (ctypes.c_uint64 * 4).from_address(table("c693336e1121df11a8c368f355d89593"))
    three = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * 3)
    value = ctypes.c_uint64()
    put = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * 4)(keeps)
    assert put(0, 7, 0x1234, 0) == 0 and three(gives)(ctypes.addressof(value), 0, 7) == 0 and value.value == 0x1234
    assert ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * 2)(drops)(0, 7) == 0
    assert three(gives)(ctypes.addressof(value), 0, 7) == 1
    proof = keep(ctypes.create_string_buffer(bytes.fromhex("d4082055bde6704b8d34ba123c66e1f2"), 16))
    out = ctypes.c_uint64(5)
    assert (
        api.code("cuGetExportTable", ctypes.byref(out), ctypes.addressof(proof)) == "NOT_SUPPORTED" and out.value == 0
    )
    assert "-cudart shared" in api.driver.details[-1]
