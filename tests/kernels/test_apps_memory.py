"""What an argument and a piece of memory can be: records, tuples, views, constants, local and
dynamic shared memory, device functions, grids of every dimension."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, float64, int16, int32, uint8
from shared_launches import for_each, share

ALIGNED = np.dtype(
    [("position", np.float64), ("velocity", np.float32), ("kind", np.int16), ("alive", np.uint8)], align=True
)
WEIGHTS = np.array([0.0625, 0.25, 0.375, 0.25, 0.0625], np.float32)
TABLE = np.arange(24, dtype=np.int64).reshape(4, 6) ** 2


@cuda.jit
def step_particles(particles, dt):
    i = cuda.grid(1)
    if i < particles.size:
        if particles[i]["alive"] != 0:
            particles[i]["position"] += particles[i]["velocity"] * dt
            particles[i]["kind"] += 1
        else:
            particles[i]["velocity"] = 0


def test_records_in_an_array(launch):
    rng = np.random.default_rng(1)
    particles = np.zeros(70, ALIGNED)
    particles["position"], particles["velocity"] = rng.random(70), rng.random(70)
    particles["kind"], particles["alive"] = rng.integers(-5, 5, 70), rng.integers(0, 2, 70)
    before = particles.copy()
    launch(step_particles, 3, 32, particles, 0.25)
    alive = before["alive"] != 0
    moved = before["position"] + before["velocity"].astype(np.float64) * 0.25
    np.testing.assert_allclose(particles["position"], np.where(alive, moved, before["position"]), rtol=1e-15)
    np.testing.assert_array_equal(particles["kind"], before["kind"] + alive)
    np.testing.assert_array_equal(particles["velocity"], np.where(alive, before["velocity"], 0))


@cuda.jit
def scale_by_record(record, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = record["position"] * i + record["kind"]


def test_one_record_as_an_argument(launch):
    record = np.zeros(1, ALIGNED)
    record[0] = (1.5, 2.0, -3, 1)
    out = np.zeros(20)
    launch(scale_by_record, 1, 32, record[0], out)
    np.testing.assert_array_equal(out, 1.5 * np.arange(20) - 3)


@cuda.jit
def tuple_arguments(pair, nested, arrays, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = arrays[0][i] * pair[0] + arrays[1][i] * pair[1] + nested[1][0] - nested[0]


def test_tuples_of_scalars_and_of_arrays(launch):
    a, b = np.arange(40.0), np.arange(40.0)[::-1].copy()
    out = np.zeros(40)
    launch(tuple_arguments, 2, 32, (2, 0.5), (1, (7.0, 3)), (a, b), out)
    np.testing.assert_array_equal(out, a * 2 + b * 0.5 + 7 - 1)


@cuda.jit
def scalars(flag, i8, u8, i16, u64, f32, f64, c128, out):
    out[0] = 1.0 if flag else 2.0
    out[1], out[2], out[3] = i8, u8, i16
    out[4], out[5], out[6] = u64, f32, f64
    out[7], out[8] = c128.real, c128.imag


@pytest.mark.parametrize("flag", [True, False, np.bool_(True)])
def test_scalars_of_every_type(launch, flag):
    out = np.zeros(9)
    values = (np.int8(-7), np.uint8(250), np.int16(-3000), np.uint64(2**53), np.float32(0.1), 0.2, 1.5 - 2.5j)
    launch(scalars, 1, 1, flag, *values, out)
    expected = [1.0 if flag else 2.0, -7, 250, -3000, 2.0**53, np.float32(0.1), 0.2, 1.5, -2.5]
    np.testing.assert_array_equal(out, expected)


def double_matrix(a, out):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[i, j] = 2 * a[i, j]


BASE = np.arange(20 * 30, dtype=np.float32).reshape(20, 30)
VIEWS = {
    "C": lambda a: a,
    "F": lambda a: np.asfortranarray(a),
    "transposed": lambda a: a.T,
    "every_other": lambda a: a[::2, ::3],
    "reversed": lambda a: a[::-1, ::-1],
    "inner": lambda a: a[3:17, 5:20],
    "broadcast": lambda a: np.broadcast_to(a[0], (7, 30)),
}
WRITABLE = [view for view in VIEWS if view != "broadcast"]


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_read_through_their_strides(request, launch, view):
    def arguments(view):
        a = VIEWS[view](BASE.copy())
        return a, np.zeros(a.shape, np.float32)

    a, out = share(request, launch, for_each(double_matrix), ((5, 4), (8, 8)), VIEWS, arguments, view)
    np.testing.assert_array_equal(out, 2 * a)


@pytest.mark.parametrize("view", WRITABLE)
def test_views_are_written_through_their_strides(request, launch, view):
    def arguments(view):
        return np.ascontiguousarray(VIEWS[view](BASE)), VIEWS[view](np.zeros_like(BASE))

    a, out = share(request, launch, for_each(double_matrix), ((5, 4), (8, 8)), WRITABLE, arguments, view)
    np.testing.assert_array_equal(out, 2 * a)
    store = out if out.base is None else out.base
    assert view in ("C", "F", "transposed", "reversed") or (store == 0).sum() > 1


@cuda.jit
def fill_coordinates(out):
    x, y, z = cuda.grid(3)
    if x < out.shape[0] and y < out.shape[1] and z < out.shape[2]:
        out[x, y, z] = x * 10000 + y * 100 + z


def test_three_dimensional_grid(launch):
    out = np.zeros((5, 7, 9), np.int32)
    launch(fill_coordinates, (2, 2, 3), (4, 4, 3), out)
    x, y, z = np.indices(out.shape)
    np.testing.assert_array_equal(out, x * 10000 + y * 100 + z)


@cuda.jit
def geometry(out):
    i = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    b = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    out[b, i, 0] = cuda.threadIdx.x + 100 * cuda.threadIdx.y + 10000 * cuda.threadIdx.z
    out[b, i, 1] = cuda.blockIdx.x + 100 * cuda.blockIdx.y + 10000 * cuda.blockIdx.z
    out[b, i, 2] = cuda.blockDim.x + 100 * cuda.blockDim.y + 10000 * cuda.blockDim.z
    out[b, i, 3] = cuda.gridDim.x + 100 * cuda.gridDim.y + 10000 * cuda.gridDim.z
    out[b, i, 4] = cuda.gridsize(1) + cuda.warpsize


def test_every_thread_knows_where_it_is(launch):
    grid, block = (3, 2, 2), (5, 3, 2)
    out = np.zeros((12, 30, 5), np.int32)
    launch(geometry, grid, block, out)
    for b in range(12):
        for i in range(30):
            assert out[b, i].tolist() == [
                i % 5 + 100 * (i // 5 % 3) + 10000 * (i // 15),
                b % 3 + 100 * (b // 3 % 2) + 10000 * (b // 6),
                5 + 300 + 20000, 3 + 200 + 20000, 15 + 32,
            ]  # fmt: skip


@cuda.jit
def constants(values, looked_up, out):
    weights = cuda.const.array_like(WEIGHTS)
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    if i < values.size:
        acc = float32(0)
        for k in range(5):
            j = min(max(i + k - 2, 0), values.size - 1)
            acc += weights[k] * values[j]
        out[i] = acc
        looked_up[i] = table[i % 4, (i * 5) % 6]


def test_constant_arrays_indexed_evenly_and_unevenly(launch):
    values = np.random.default_rng(2).random(100, np.float32)
    looked_up, out = np.zeros(100, np.int64), np.zeros(100, np.float32)
    launch(constants, 4, 32, values, looked_up, out)
    padded = np.pad(values.astype(np.float64), 2, mode="edge")
    np.testing.assert_allclose(out, np.convolve(padded, WEIGHTS, "valid"), rtol=1e-6)
    i = np.arange(100)
    np.testing.assert_array_equal(looked_up, TABLE[i % 4, i * 5 % 6])


@cuda.jit
def global_tuple_and_array(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = TABLE[i % 4, i % 6] + WEIGHTS[i % 5]


def test_global_arrays_are_frozen_into_the_kernel(launch):
    out = np.zeros(50)
    launch(global_tuple_and_array, 2, 32, out)
    i = np.arange(50)
    np.testing.assert_array_equal(out, TABLE[i % 4, i % 6] + WEIGHTS[i % 5])


@cuda.jit
def local_sort(values, out):
    """Insertion sort in a local array: indices are known only at run time."""
    row = cuda.grid(1)
    if row < values.shape[0]:
        local = cuda.local.array(16, float64)
        for j in range(values.shape[1]):
            v = values[row, j]
            k = j
            while k > 0 and local[k - 1] > v:
                local[k] = local[k - 1]
                k -= 1
            local[k] = v
        for j in range(values.shape[1]):
            out[row, j] = local[j]


def test_local_arrays_with_computed_indices(launch):
    values = np.random.default_rng(3).random((45, 13))
    out = np.zeros_like(values)
    launch(local_sort, 2, 32, values, out)
    np.testing.assert_array_equal(out, np.sort(values, axis=1))


@cuda.jit
def local_small_types(out):
    i = cuda.grid(1)
    bytes_ = cuda.local.array((4, 8), uint8)
    shorts = cuda.local.array(8, int16)
    for r in range(4):
        for c in range(8):
            bytes_[r, c] = i + r * 8 + c
    for c in range(8):
        shorts[c] = -1000 * c - i
    acc = 0
    for c in range(8):
        acc += bytes_[(i + c) % 4, c] * 100000 + shorts[(c * 3) % 8]
    out[i] = acc


def test_local_arrays_of_bytes_and_shorts(launch):
    out = np.zeros(64, np.int64)
    launch(local_small_types, 2, 32, out)
    for i in range(64):
        expected = sum(((i + (i + c) % 4 * 8 + c) % 256) * 100000 - 1000 * (c * 3 % 8) - i for c in range(8))
        assert out[i] == expected


@cuda.jit
def dynamic_shared(values, out):
    """One dynamic buffer seen as two arrays of different type, one after the other."""
    floats = cuda.shared.array(0, float32)[: cuda.blockDim.x]
    integers = cuda.shared.array(0, int32)[cuda.blockDim.x :]
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    floats[t] = values[i]
    integers[t] = t * t
    cuda.syncthreads()
    mirror = cuda.blockDim.x - 1 - t
    out[i] = floats[mirror] + integers[mirror]


def test_dynamic_shared_memory_in_two_pieces(launch):
    values = np.random.default_rng(4).random(128, np.float32)
    out = np.zeros(128, np.float32)
    launch(dynamic_shared, 2, 64, values, out, shared_bytes=64 * 8)
    t = np.arange(64)
    expected = values.reshape(2, 64)[:, ::-1] + (t * t)[::-1].astype(np.float32)
    np.testing.assert_allclose(out, expected.ravel(), rtol=1e-7)


@cuda.jit
def shared_matrix_of_doubles(values, out):
    tile = cuda.shared.array((8, 9), float64)
    flags = cuda.shared.array(64, uint8)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = values[y, x]
    flags[y * 8 + x] = values[y, x] > 0.5
    cuda.syncthreads()
    out[x, y] = tile[y, x] + 10 * flags[x * 8 + y]


def test_shared_arrays_of_two_sizes_of_element(launch):
    values = np.random.default_rng(5).random((8, 8))
    out = np.zeros((8, 8))
    launch(shared_matrix_of_doubles, 1, (8, 8), values, out)
    np.testing.assert_array_equal(out, values.T + 10.0 * (values > 0.5))


@cuda.jit(device=True)
def horner(coefficients, x):
    acc = coefficients[0]
    for k in range(1, coefficients.size):
        acc = acc * x + coefficients[k]
    return acc


@cuda.jit(device=True)
def minimum_and_maximum(a, b, c):
    return min(a, min(b, c)), max(a, max(b, c))


@cuda.jit(device=True, inline=False)
def clamp(x, low, high):
    return low if x < low else high if x > high else x


@cuda.jit
def uses_functions(coefficients, x, out):
    i = cuda.grid(1)
    if i < x.size:
        p = horner(coefficients, x[i])
        low, high = minimum_and_maximum(p, x[i], 0.25)
        out[0, i], out[1, i], out[2, i] = p, low + high, clamp(p, -1.0, 1.0)


def test_device_functions_with_arrays_and_several_results(launch):
    x, coefficients = np.linspace(-2, 2, 60), np.array([1.0, -0.5, 2.0, 0.125])
    out = np.zeros((3, 60))
    launch(uses_functions, 2, 32, coefficients, x, out)
    p = np.polyval(coefficients, x)
    three = np.stack([p, x, np.full(60, 0.25)])
    np.testing.assert_allclose(out, [p, three.min(0) + three.max(0), np.clip(p, -1, 1)], rtol=1e-14, atol=1e-15)


@cuda.jit
def masks(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] and b[i]
        out[1, i] = a[i] or not b[i]
        out[2, i] = a[i] != b[i]
        out[3, i] = a[i] ^ b[i]


def test_bool_arrays(launch):
    rng = np.random.default_rng(6)
    a, b = rng.random(50) > 0.5, rng.random(50) > 0.3
    out = np.zeros((4, 50), np.bool_)
    launch(masks, 2, 32, a, b, out)
    np.testing.assert_array_equal(out, [a & b, a | ~b, a != b, a ^ b])


@cuda.jit
def by_slices(a, out):
    row = cuda.grid(1)
    if row < a.shape[0]:
        line = a[row, 1:-1]
        total = 0.0
        for v in line:
            total += v
        out[row] = total + a[row, -1] + a[row, line.size // 2]


def test_slices_negative_indices_and_iteration(launch):
    a = np.random.default_rng(7).random((33, 11))
    out = np.zeros(33)
    launch(by_slices, 2, 32, a, out)
    np.testing.assert_allclose(out, a[:, 1:-1].sum(1) + a[:, -1] + a[:, 4], rtol=1e-14)


def copy_bytes(source, target):
    for i in range(cuda.grid(1), source.size, cuda.gridsize(1)):
        target[i] = source[i]


ELEMENTS = (np.int8, np.uint16, np.float16, np.float32, np.float64, np.complex64, np.complex128)


@pytest.mark.parametrize("dtype", ELEMENTS, ids=lambda t: t.__name__)
def test_copies_of_every_element_size(request, launch, dtype):
    def arguments(dtype):
        return np.random.default_rng(8).integers(0, 100, 333).astype(dtype), np.zeros(333, dtype)

    source, target = share(request, launch, for_each(copy_bytes), (2, 64), ELEMENTS, arguments, dtype)
    np.testing.assert_array_equal(target, source)


@cuda.jit
def touches_nothing(empty, out):
    if cuda.grid(1) == 0:
        out[0] = empty.size


def test_an_empty_array_is_a_fine_argument(launch):
    out = np.full(1, 9, np.int64)
    launch(touches_nothing, 1, 32, np.zeros(0, np.float32), out)
    assert out[0] == 0


@cuda.jit
def four_dimensions(a, out):
    i = cuda.grid(1)
    _n, c, h, w = a.shape
    if i < a.size:
        x = i % w
        y = i // w % h
        k = i // (w * h) % c
        b = i // (w * h * c)
        out[b, y, x, k] = a[b, k, y, x]


def test_channels_first_to_channels_last(launch):
    a = np.random.default_rng(9).random((2, 3, 5, 7), np.float32)
    out = np.zeros((2, 5, 7, 3), np.float32)
    launch(four_dimensions, 7, 32, a, out)
    np.testing.assert_array_equal(out, a.transpose(0, 2, 3, 1))
