"""Textures and surfaces in kernels of CUDA C++: each function of the headers against an oracle in NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_api import Api, CallError, address_of, keep, parameters

import gpusim
from gpusim.frontend.native.cpp_unit import CppUnit
from gpusim.frontend.native.nvrtc import compile_cpp

SOURCE = r"""
typedef cudaTextureObject_t T; typedef cudaSurfaceObject_t S;
#define AT int x = threadIdx.x, y = blockIdx.x; float u = coordinates[2 * x], v = coordinates[2 * x + 1]; (void)y; (void)v;
extern "C" __global__ void line(T t, const float *coordinates, float *out) { AT out[x] = tex1D<float>(t, u); }
extern "C" __global__ void plane(T t, const float *coordinates, float *out) { AT out[x] = tex2D<float>(t, u, v); }
extern "C" __global__ void level(T t, const float *coordinates, float *out) { AT out[x] = tex2DLod<float>(t, u, v, 0.f); }
extern "C" __global__ void plane4(T t, const float *coordinates, float4 *out) { AT out[x] = tex2D<float4>(t, u, v); }
extern "C" __global__ void bytes4(T t, const float *coordinates, uchar4 *out) { AT out[x] = tex2D<uchar4>(t, u, v); }
extern "C" __global__ void room(T t, const float *coordinates, float *out) { AT out[x] = tex3D<float>(t, u, v, u + v); }
extern "C" __global__ void layer(T t, const float *coordinates, float *out) { AT out[x] = tex2DLayered<float>(t, u, v, 1); }
extern "C" __global__ void row(T t, const float *coordinates, float *out) { AT out[x] = tex1DLayered<float>(t, u, 2); }
extern "C" __global__ void four(T t, const float *coordinates, float4 *out) { AT out[x] = tex2Dgather<float4>(t, u, v, 0); }
extern "C" __global__ void element(T t, const float *coordinates, int2 *out) { AT out[x] = tex1Dfetch<int2>(t, x - 2); }
extern "C" __global__ void chosen(const T *t, const float *coordinates, float *out) { AT out[x] = tex2D<float>(t[x & 1], u, v); }
extern "C" __global__ void cube(T t, const float *c, float *out) {
  int x = threadIdx.x; out[x] = texCubemap<float>(t, c[3 * x], c[3 * x + 1], c[3 * x + 2]);
}
extern "C" __global__ void cubes(T t, const float *c, float *out) {
  int x = threadIdx.x; out[x] = texCubemapLayered<float>(t, c[3 * x], c[3 * x + 1], c[3 * x + 2], x & 1);
}
extern "C" __global__ void copied(S from, S to) {
  int x = threadIdx.x, y = blockIdx.x;
  surf2Dwrite(surf2Dread<float2>(from, 8 * x, y) , to, 8 * x, y);
}
extern "C" __global__ void copied_by_block(const S *handles) {
  int x = threadIdx.x, y = blockIdx.x;
  surf2Dwrite(surf2Dread<float2>(handles[y >> 3], 8 * x, y), handles[(y >> 3) + 1], 8 * x, y);
}
extern "C" __global__ void zero_outside(S from, float *out) {
  int x = threadIdx.x; out[x] = surf2Dread<float>(from, 4 * (x - 1), 0, cudaBoundaryModeZero);
}
extern "C" __global__ void nearest_outside(S from, float *out) {
  int x = threadIdx.x; out[x] = surf2Dread<float>(from, 4 * (x - 1), 0, cudaBoundaryModeClamp);
}
extern "C" __global__ void trapped(S from, float *out) { out[threadIdx.x] = surf2Dread<float>(from, 4 * threadIdx.x, 9); }
extern "C" __global__ void room_bytes(S from, unsigned char *out) {
  int x = threadIdx.x; out[x] = surf3Dread<unsigned char>(from, x, 1, 2);
}
"""
FORMATS = {
    np.float32: (cu.CUarray_format.CU_AD_FORMAT_FLOAT, 32),
    np.uint8: (cu.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8, 1),
}
FORMATS[np.int32] = cu.CUarray_format.CU_AD_FORMAT_SIGNED_INT32, 10
FORMATS[np.float16] = cu.CUarray_format.CU_AD_FORMAT_HALF, 16
WRAP, CLAMP, MIRROR, BORDER = range(4)
AS_INTEGER, NORMALIZED, SEAMLESS = 1, 2, 0x40
LAYERED, CUBEMAP = 1, 4
COUNT = 64


class Scene:
    """A device with the kernels of SOURCE."""

    def __init__(self, gpu: str, target: str):
        self.api, self.is_ampere = Api(gpu), target == "sm_80"
        cubin = compile_cpp(CppUnit(SOURCE, "textures.cu"), None, target, lines=False).cubin
        self._module = self.api.word(
            "cuModuleLoadData", ctypes.addressof(keep(ctypes.create_string_buffer(cubin, len(cubin))))
        )

    def array(self, data: np.ndarray, flags: int = 0, dims: int = 2) -> int:
        """``data``[.., channels] as an array of ``dims`` dimensions, layers as the last."""
        sizes = [*reversed(data.shape[:-1]), 0, 0][:3]
        if flags & 1 and dims == 1:
            sizes = [data.shape[1], 0, data.shape[0]]
        d = cu.CUDA_ARRAY3D_DESCRIPTOR()
        d.Width, d.Height, d.Depth = sizes
        d.Format, d.NumChannels, d.Flags = FORMATS[data.dtype.type][0], data.shape[-1], flags
        array = self.api.word("cuArray3DCreate", address_of(d))
        box = cu.CUDA_MEMCPY3D()
        box.srcMemoryType, box.srcHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, data.ctypes.data
        box.dstMemoryType, box.dstArray = cu.CUmemorytype.CU_MEMORYTYPE_ARRAY, cu.CUarray(array)
        box.WidthInBytes, box.Height, box.Depth = (
            sizes[0] * data.itemsize * data.shape[-1],
            max(1, sizes[1]),
            max(1, sizes[2]),
        )
        self.api.cuMemcpy3D(address_of(box))
        return array

    def texture(
        self, resource: int, mode: int = CLAMP, filtered: bool = False, flags: int = 0, border: float = 0.0
    ) -> int:
        d = cu.CUDA_TEXTURE_DESC()
        d.addressMode = [cu.CUaddress_mode(mode)] * 3
        d.filterMode = cu.CUfilter_mode(int(filtered))
        d.flags, d.borderColor = flags, [border] * 4
        return self.api.word("cuTexObjectCreate", resource, address_of(d), 0)

    def of_array(self, array: int) -> int:
        r = cu.CUDA_RESOURCE_DESC()
        r.resType, r.res.array.hArray = cu.CUresourcetype.CU_RESOURCE_TYPE_ARRAY, cu.CUarray(array)
        return address_of(r)

    def run(self, name: str, handle, coordinates: np.ndarray, dtype=np.float32, channels: int = 1) -> np.ndarray:
        out = self.api.word("cuMemAlloc", COUNT * np.dtype(dtype).itemsize * channels)
        given = parameters(ctypes.c_uint64(handle), ctypes.c_uint64(self.api.upload(coordinates)), ctypes.c_uint64(out))
        self.launch(name, given)
        return self.api.download(out, dtype, COUNT, channels)

    def launch(self, name: str, given: int, grid: int = 1, block: int = COUNT) -> None:
        kernel = self.api.word("cuModuleGetFunction", self._module, ctypes.c_char_p(name.encode()))
        self.api.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, 0, given, 0)


@pytest.fixture(scope="module", params=[("a100_80gb", "sm_80"), ("h200", "sm_90")], ids=["sm_80", "sm_90"])
def scene(request) -> Scene:
    return Scene(*request.param)


@pytest.fixture(scope="module")
def coordinates() -> np.ndarray:
    """uv[64, 2] in elements of a texture of 8 x 5, also beyond it."""
    return np.random.default_rng(7).uniform(-6, 14, (COUNT, 2)).astype(np.float32)


def placed(i: np.ndarray, n: int, mode: int) -> np.ndarray:
    """Element numbers by address mode, -1 for the border."""
    if mode == WRAP:
        return i % n
    if mode == MIRROR:
        return np.where(i % (2 * n) < n, i % (2 * n), 2 * n - 1 - i % (2 * n))
    return np.clip(i, 0, n - 1) if mode == CLAMP else np.where((i < 0) | (i >= n), -1, i)


def sampled(data: np.ndarray, places: list[np.ndarray], mode: int, filtered: bool, border: float = 0.0) -> np.ndarray:
    """``data`` (slowest dimension first) at ``places`` (x first), in elements."""
    dims = len(places)
    if not filtered:
        taps = [([np.floor(p).astype(int) for p in places], np.ones(len(places[0])))]
    else:
        low = [np.floor(p - 0.5) for p in places]
        part = [np.floor((p - 0.5 - i) * 256 + 0.5) / 256 for p, i in zip(places, low, strict=True)]
        taps = []
        for corner in range(1 << dims):
            bits = [corner >> d & 1 for d in range(dims)]
            weight = np.prod([a if bit else 1 - a for a, bit in zip(part, bits, strict=True)], axis=0)
            taps.append(([i.astype(int) + bit for i, bit in zip(low, bits, strict=True)], weight))
    total = np.zeros(len(places[0]))
    for numbers, weight in taps:
        index = [placed(i, n, mode) for i, n in zip(numbers, reversed(data.shape), strict=True)]
        value = np.where(np.min(index, axis=0) < 0, border, data[tuple(reversed(index))])
        total += weight * value
    return total.astype(np.float32)


IMAGE = np.random.default_rng(3).uniform(-2, 2, (5, 8)).astype(np.float32)


@pytest.mark.parametrize("filtered", [False, True], ids=["point", "linear"])
@pytest.mark.parametrize("mode", [WRAP, CLAMP, MIRROR, BORDER], ids=["wrap", "clamp", "mirror", "border"])
def test_a_plane_is_sampled_in_every_mode(scene, coordinates, mode, filtered) -> None:
    array = scene.array(IMAGE[..., None])
    texture = scene.texture(scene.of_array(array), mode, filtered, NORMALIZED, border=9.0)
    scaled = coordinates / np.array([8, 5], np.float32)
    u, v = (scaled * np.array([8.0, 5.0])).T.astype(np.float64)
    expected = sampled(IMAGE, [u, v], mode, filtered, 9.0)
    for kernel in ("plane", "level"):
        got = scene.run(kernel, texture, scaled)[:, 0]
        assert np.allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_coordinates_in_elements_are_clamped(scene, coordinates) -> None:
    array = scene.array(IMAGE[..., None])
    texture = scene.texture(scene.of_array(array), WRAP, True)  # wrapping needs normalized coordinates
    expected = sampled(IMAGE, list(coordinates.T.astype(np.float64)), CLAMP, True)
    assert np.allclose(scene.run("plane", texture, coordinates)[:, 0], expected, rtol=1e-6, atol=1e-6)
    if not scene.is_ampere:
        return  # the loop that compilers make of a handle in memory since Hopper needs R2UR.OR
    table = scene.api.upload(np.array([texture, scene.texture(scene.of_array(array))], np.uint64))
    mixed = scene.run("chosen", table, coordinates)[:, 0]
    nearest = sampled(IMAGE, list(coordinates.T.astype(np.float64)), CLAMP, False)
    assert np.allclose(mixed, np.where(np.arange(COUNT) % 2, nearest, expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("filtered", [False, True], ids=["point", "linear"])
def test_lines_rooms_and_layers(scene, coordinates, filtered) -> None:
    rng = np.random.default_rng(5)
    line, room = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((9,), (4, 5, 6)))
    u, v = coordinates.T.astype(np.float64)
    w = (coordinates[:, 0] + coordinates[:, 1]).astype(np.float64)

    def texture(data: np.ndarray, flags: int = 0, dims: int = 2) -> int:
        return scene.texture(
            scene.of_array(scene.array(np.ascontiguousarray(data[..., None]), flags, dims)), CLAMP, filtered
        )

    for name, data, places, handle in (
        ("line", line, [u], texture(line)),
        ("room", room, [u, v, w], texture(room)),
        ("layer", room[1], [u, v], texture(room, 1)),
        ("row", room[2, 2], [u], texture(room[:, 2], 1, dims=1)),
    ):
        got = scene.run(name, handle, coordinates)[:, 0]
        assert np.allclose(got, sampled(data, places, CLAMP, filtered), rtol=1e-6, atol=1e-6), name


#: Of each face the axis that it stands on, and what increases across and down it (CUDA Programming Guide, "Cubemap
#: Textures").
FACES = ((0, 1, -2, -1), (0, -1, 2, -1), (1, 1, 0, 2), (1, -1, 0, -2), (2, 1, 0, -1), (2, -1, -0.5, -1))


def centres(n: int) -> np.ndarray:
    """[6, n, n, 3]: where the elements of a cube's faces lie on the cube from -1 to 1."""
    out = np.zeros((6, n, n, 3))
    steps = (2 * np.arange(n) + 1) / n - 1
    for face, (axis, sign, across, down) in enumerate(FACES):
        out[face, :, :, axis] = sign
        for direction, values in ((across, steps[None, :]), (down, steps[:, None])):
            place = 0 if direction == -0.5 else abs(direction)
            out[face, :, :, place] = -values if direction < 0 else values
    return out


@pytest.mark.parametrize("kernel", ["cube", "cubes"])
def test_a_direction_finds_its_face_and_element(scene, kernel) -> None:
    n, rng = 4, np.random.default_rng(6)
    layers = 2 if kernel == "cubes" else 1
    data = rng.uniform(-1, 1, (6 * layers, n, n)).astype(np.float32)
    flags = CUBEMAP | (LAYERED if layers > 1 else 0)
    handle = scene.texture(scene.of_array(scene.array(data[..., None], flags)), flags=NORMALIZED)
    directions = rng.normal(size=(COUNT, 3)).astype(np.float32)
    hit = directions / np.abs(directions).max(axis=1, keepdims=True)
    nearest = ((centres(n)[None] - hit[:, None, None, None]) ** 2).sum(axis=-1).reshape(COUNT, -1).argmin(axis=1)
    expected = data.reshape(layers, -1)[np.arange(COUNT) % layers, nearest]
    assert (scene.run(kernel, handle, directions)[:, 0] == expected).all()


def test_a_seamless_cube_is_filtered_over_its_edges(scene) -> None:
    n = 4
    data = np.random.default_rng(8).uniform(-1, 1, (6, n, n)).astype(np.float32)
    resource = scene.of_array(scene.array(data[..., None], CUBEMAP))
    middle = np.float32(0.25)  # of an element's height
    directions = np.array([[1, middle, 1], [1, 1, -middle], [-middle, -1, 1], [-1, middle, -1], [1, 1, 1]], np.float32)
    given = np.resize(directions, (COUNT, 3))
    seamless = scene.run("cube", scene.texture(resource, CLAMP, True, NORMALIZED | SEAMLESS), given)[:5, 0]
    far = np.linalg.norm(centres(n)[None] - directions[:, None, None, None], axis=-1).reshape(5, -1)
    for result, distances in zip(
        seamless, far, strict=True
    ):  # as near as each other: two at an edge, three at a corner
        among = np.isclose(distances, distances.min())
        assert np.isclose(result, data.ravel()[among].mean(), atol=1e-6)
    within = scene.run("cube", scene.texture(resource, CLAMP, True, NORMALIZED), given)[:5, 0]
    assert within[0] == data[4, 1, 3]  # z goes before x


def test_elements_of_every_format(scene, coordinates) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 8, 4), np.uint8)
    resource = scene.of_array(scene.array(pixels))
    places = list(coordinates.T.astype(np.float64))
    exact = scene.run("bytes4", scene.texture(resource, flags=AS_INTEGER), coordinates, np.uint8, 4)
    scaled = scene.run("plane4", scene.texture(resource), coordinates, np.float32, 4)
    mixed = scene.run("plane4", scene.texture(resource, filtered=True), coordinates, np.float32, 4)
    for channel in range(4):
        one = pixels[..., channel]
        assert (exact[:, channel] == sampled(one, places, CLAMP, False)).all()
        assert np.allclose(scaled[:, channel], sampled(one / 255.0, places, CLAMP, False), rtol=1e-6)
        assert np.allclose(mixed[:, channel], sampled(one / 255.0, places, CLAMP, True), atol=1e-6)
    halves = np.random.default_rng(2).normal(0, 3, (5, 8, 2)).astype(np.float16)
    got = scene.run("plane4", scene.texture(scene.of_array(scene.array(halves))), coordinates, np.float32, 4)
    assert (got[:, 1] == sampled(halves[..., 1].astype(np.float64), places, CLAMP, False)).all()
    assert (got[:, 2] == 0).all() and (got[:, 3] == 1).all()  # channels that the array does not have


def test_four_elements_are_gathered(scene, coordinates) -> None:
    handle = scene.texture(scene.of_array(scene.array(IMAGE[..., None])))
    got = scene.run("four", handle, coordinates, np.float32, 4)
    i, j = np.floor(coordinates.astype(np.float64) - 0.5).astype(int).T
    for channel, (di, dj) in enumerate(((0, 1), (1, 1), (1, 0), (0, 0))):
        assert (got[:, channel] == IMAGE[placed(j + dj, 5, CLAMP), placed(i + di, 8, CLAMP)]).all()


def test_linear_and_pitched_memory(scene, coordinates) -> None:
    pairs = np.arange(80, dtype=np.int32).reshape(40, 2)
    r = cu.CUDA_RESOURCE_DESC()
    r.resType, r.res.linear.devPtr = cu.CUresourcetype.CU_RESOURCE_TYPE_LINEAR, cu.CUdeviceptr(scene.api.upload(pairs))
    r.res.linear.format, r.res.linear.numChannels, r.res.linear.sizeInBytes = FORMATS[np.int32][0], 2, 320
    got = scene.run("element", scene.texture(address_of(r)), coordinates, np.int32, 2)
    i = np.arange(COUNT) - 2
    assert (got == np.where(((i >= 0) & (i < 40))[:, None], pairs[np.clip(i, 0, 39)], 0)).all()
    padded = np.zeros((5, 128), np.float32)
    padded[:, :8] = IMAGE
    p = cu.CUDA_RESOURCE_DESC()
    p.resType, p.res.pitch2D.devPtr = (
        cu.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D,
        cu.CUdeviceptr(scene.api.upload(padded)),
    )
    p.res.pitch2D.format, p.res.pitch2D.numChannels = FORMATS[np.float32][0], 1
    p.res.pitch2D.width, p.res.pitch2D.height, p.res.pitch2D.pitchInBytes = 8, 5, 512
    got = scene.run("plane", scene.texture(address_of(p), filtered=True), coordinates)[:, 0]
    assert np.allclose(got, sampled(IMAGE, list(coordinates.T.astype(np.float64)), CLAMP, True), atol=1e-6)
    p.res.pitch2D.pitchInBytes = 500
    d = cu.CUDA_TEXTURE_DESC()
    out = ctypes.c_uint64()
    assert scene.api.code("cuTexObjectCreate", ctypes.byref(out), address_of(p), address_of(d), 0) == "INVALID_VALUE"


def surface(scene, array: int) -> int:
    return scene.api.word("cuSurfObjectCreate", scene.of_array(array))


def test_surfaces_are_read_and_written(scene) -> None:
    data = np.random.default_rng(4).normal(size=(6, COUNT, 2)).astype(np.float32)
    source, target = scene.array(data, 2), scene.array(np.zeros_like(data), 2)
    scene.launch(
        "copied", parameters(ctypes.c_uint64(surface(scene, source)), ctypes.c_uint64(surface(scene, target))), 6
    )
    back = np.zeros_like(data)
    box = cu.CUDA_MEMCPY3D()
    box.srcMemoryType, box.srcArray = cu.CUmemorytype.CU_MEMORYTYPE_ARRAY, cu.CUarray(target)
    box.dstMemoryType, box.dstHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, back.ctypes.data
    box.WidthInBytes, box.Height, box.Depth = 8 * COUNT, 6, 1
    scene.api.cuMemcpy3D(address_of(box))
    assert (back == data).all()
    bytes_ = np.random.default_rng(4).integers(0, 256, (3, 2, COUNT, 1), np.uint8)
    out = scene.api.word("cuMemAlloc", COUNT)
    scene.launch(
        "room_bytes", parameters(ctypes.c_uint64(surface(scene, scene.array(bytes_, 2))), ctypes.c_uint64(out))
    )
    assert (scene.api.download(out, np.uint8, COUNT) == bytes_[2, 1, :, 0]).all()


@pytest.mark.parametrize("kernel", ["copied", "copied_by_block"])
def test_handles_of_one_register_are_read(kernel: str) -> None:
    """From sm_100 on a handle that is loaded is one uniform register, with nothing behind it."""
    scene = Scene("rtx5090", "sm_120")
    data = np.random.default_rng(4).normal(size=(6, COUNT, 2)).astype(np.float32)
    source, target = scene.array(data, 2), scene.array(np.zeros_like(data), 2)
    handles = [surface(scene, array) for array in (source, target)]
    if kernel == "copied":
        given = parameters(*map(ctypes.c_uint64, handles))
    else:
        given = parameters(ctypes.c_uint64(scene.api.upload(np.array(handles, np.uint64))))
    scene.launch(kernel, given, 6)
    back = np.zeros_like(data)
    box = cu.CUDA_MEMCPY3D()
    box.srcMemoryType, box.srcArray = cu.CUmemorytype.CU_MEMORYTYPE_ARRAY, cu.CUarray(target)
    box.dstMemoryType, box.dstHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, back.ctypes.data
    box.WidthInBytes, box.Height, box.Depth = 8 * COUNT, 6, 1
    scene.api.cuMemcpy3D(address_of(box))
    assert (back == data).all()


def test_what_lies_outside_a_surface(scene) -> None:
    handle, out = surface(scene, scene.array(IMAGE[..., None], 2)), scene.api.word("cuMemAlloc", 4 * COUNT)
    given = parameters(ctypes.c_uint64(handle), ctypes.c_uint64(out))
    row = np.pad(IMAGE[0], 1)
    scene.launch("zero_outside", given, block=10)
    assert (scene.api.download(out, np.float32, 10) == row).all()
    scene.launch("nearest_outside", given, block=10)
    assert (scene.api.download(out, np.float32, 10) == np.pad(IMAGE[0], 1, "edge")).all()
    plain = scene.of_array(scene.array(IMAGE[..., None]))
    assert scene.api.code("cuSurfObjectCreate", ctypes.byref(ctypes.c_uint64()), plain) == "INVALID_VALUE"


ROTATED = r"""
__global__ void rotated(float *out, int n, float angle, cudaTextureObject_t image) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  float u = x / (float)n - 0.5f, v = y / (float)n - 0.5f;
  out[y * n + x] = tex2D<float>(image, u * cosf(angle) - v * sinf(angle) + 0.5f, v * cosf(angle) + u * sinf(angle) + 0.5f);
}
__global__ void doubled(cudaSurfaceObject_t s) {
  int x = threadIdx.x, y = blockIdx.x;
  surf2Dwrite(2 * surf2Dread<int>(s, 4 * x, y), s, 4 * x, y);
}
"""


def test_objects_are_arguments_of_a_kernel_of_its_own() -> None:
    image = np.random.default_rng(0).uniform(size=(32, 32)).astype(np.float32)
    out = np.zeros((32, 32), np.float32)
    texture = gpusim.Texture(image, filter="linear", address="wrap", normalized=True)
    kernel = gpusim.cuda_cpp(ROTATED, "rotated")
    trace = gpusim.capture(kernel, (1, 32), 32, (out, 32, 0.5, texture), gpu="h200")
    x, y = np.meshgrid(np.arange(32) / 32 - 0.5, np.arange(32) / 32 - 0.5)
    places = x * np.cos(0.5) - y * np.sin(0.5) + 0.5, y * np.cos(0.5) + x * np.sin(0.5) + 0.5
    expected = sampled(image, [32 * place.ravel() for place in places], WRAP, True).reshape(32, 32)
    assert np.abs(out - expected).max() < 0.01  # a coordinate of single precision may round to the next of 256 weights
    assert gpusim.simulate(trace, gpu="h200").cycles > 0
    numbers = np.arange(24, dtype=np.int32).reshape(3, 8)
    gpusim.capture(gpusim.cuda_cpp(ROTATED, "doubled"), 3, 8, (gpusim.Surface(numbers),), gpu="h200")
    assert (numbers == 2 * np.arange(24).reshape(3, 8)).all()
    with pytest.raises(gpusim.AddressError, match=r"handle is that of no texture or surface: pass a gpusim.Texture"):
        gpusim.capture(kernel, (1, 32), 32, (out, 32, 0.5, np.uint64(5)), gpu="h200")
    with pytest.raises(gpusim.UsageError, match="filter is 'cubic'"):
        gpusim.Texture(image, filter="cubic")
    with pytest.raises(gpusim.UsageError, match="float64"):
        gpusim.Texture(image.astype(float))


def test_errors_name_the_kernel(coordinates) -> None:
    scene = Scene("h200", "sm_90")
    out = scene.api.word("cuMemAlloc", 4 * COUNT)
    handle = surface(scene, scene.array(IMAGE[..., None], 2))
    with pytest.raises(CallError, match=r"ILLEGAL_ADDRESS.*trapped.*thread \(0, 0, 0\)"):
        scene.launch("trapped", parameters(ctypes.c_uint64(handle), ctypes.c_uint64(out)))
    scene = Scene("h200", "sm_90")
    texture = scene.texture(scene.of_array(scene.array(IMAGE[..., None])))
    scene.api.cuTexObjectDestroy(texture)
    with pytest.raises(CallError, match="ILLEGAL_ADDRESS.*plane"):
        scene.run("plane", texture, coordinates)
