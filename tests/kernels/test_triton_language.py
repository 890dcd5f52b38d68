"""What Triton's language has beside loads, products and sums: atomics of every kind, scans, gathers, inline PTX,
printing, assertions, functions that stay calls, loops whose warps are shared out."""

from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.errors import ExecutionError

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'gpusim[triton]'")
tl = pytest.importorskip("triton.language")
ml_dtypes = pytest.importorskip("ml_dtypes")

#: A GPU of each way in which Triton makes products: warps, warp groups, tensor memory, warps behind bulk copies.
GPUS = ("a100_80gb", "h100", "b200", "rtx5090")


def launch(kernel: Any, grid: int, *args: Any, gpu: str = "h100", **given: Any) -> gpusim.Trace:
    return gpusim.capture(gpusim.triton(kernel, **given), (grid,), None, args, gpu=gpu)


def drawn() -> np.random.Generator:
    return np.random.default_rng(7)


@triton.jit
def atomics(floats, ints, longs, halves, bits, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    slot = i % 8
    tl.atomic_add(floats + slot, 1.5, sem="relaxed")
    tl.atomic_max(floats + 8 + slot, i.to(tl.float32) - 40.0)
    tl.atomic_min(floats + 16 + slot, i.to(tl.float32) - 40.0)
    tl.atomic_max(ints + slot, i)
    tl.atomic_min(ints + 8 + slot, -i)
    tl.atomic_add(longs + slot, i.to(tl.int64))
    tl.atomic_add(halves + slot, tl.full((N,), 1, tl.bfloat16))
    tl.atomic_xor(bits + slot, i)
    tl.atomic_or(bits + 8 + slot, i)
    tl.atomic_and(bits + 16 + slot, i | 0xF00)
    tl.atomic_xchg(bits + 24, 7)
    tl.atomic_cas(bits + 25, 0, tl.program_id(0) + 1)


def test_atomics_of_every_kind_leave_what_numpy_leaves() -> None:
    floats, ints, longs = np.zeros(24, np.float32), np.zeros(16, np.int32), np.zeros(8, np.int64)
    halves, bits = np.zeros(8, ml_dtypes.bfloat16), np.zeros(26, np.int32)
    bits[16:24] = -1
    launch(atomics, 3, floats, ints, longs, halves, bits, N=64)
    of = [np.arange(192)[slot::8] for slot in range(8)]
    high, low = np.array([each.max() for each in of]), np.array([each.min() for each in of])
    np.testing.assert_array_equal(floats, np.concatenate([[36.0] * 8, np.maximum(high - 40.0, 0), low - 40.0]))
    np.testing.assert_array_equal(ints, np.concatenate([high, -high]))
    np.testing.assert_array_equal(longs, [each.sum() for each in of])
    np.testing.assert_array_equal(halves.astype(np.float32), [24.0] * 8)
    np.testing.assert_array_equal(bits[:8], [np.bitwise_xor.reduce(each) for each in of])
    np.testing.assert_array_equal(bits[8:16], [np.bitwise_or.reduce(each) for each in of])
    np.testing.assert_array_equal(bits[16:24], [np.bitwise_and.reduce(each | 0xF00) for each in of])
    assert bits[24] == 7 and bits[25] in (1, 2, 3)


@triton.jit
def compose(decay, value, next_decay, next_value):
    return decay * next_decay, value * next_decay + next_value


@triton.jit
def recurrence(decay_ptr, x_ptr, out_ptr, STEPS: tl.constexpr, CHANNELS: tl.constexpr, BACK: tl.constexpr):
    i = tl.arange(0, STEPS)[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    _, y = tl.associative_scan((tl.load(decay_ptr + i), tl.load(x_ptr + i)), 0, compose, reverse=BACK)
    tl.store(out_ptr + i, y)


@pytest.mark.parametrize("back", [False, True])
def test_a_scan_of_pairs_goes_either_way(back: bool) -> None:
    decay, x = drawn().random((2, 64, 8)).astype(np.float32)
    out = np.zeros_like(x)
    launch(recurrence, 1, decay, x, out, STEPS=64, CHANNELS=8, BACK=back)
    state, wanted = np.zeros(8), np.zeros((64, 8))
    for step in range(63, -1, -1) if back else range(64):
        state = wanted[step] = state * decay[step] + x[step]
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


@triton.jit
def rearranged(x_ptr, place_ptr, out_ptr, counts_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, place = tl.load(x_ptr + i), tl.load(place_ptr + i)
    tl.store(out_ptr + i, tl.gather(x, place, 0))
    tl.store(out_ptr + N + i, tl.sort(x, descending=True))
    tl.store(out_ptr + 2 * N + i, tl.flip(x))
    tl.store(counts_ptr + i, tl.histogram(place, N, mask=i < N - 3))
    most, where = tl.max(x, 0, return_indices=True)
    tl.store(out_ptr + 3 * N, most)
    tl.store(out_ptr + 3 * N + 1, where.to(tl.float32))


def test_gathered_sorted_and_counted() -> None:
    count = 256
    x, place = drawn().integers(0, 50, count).astype(np.float32), drawn().integers(0, count, count).astype(np.int32)
    out, counts = np.zeros(3 * count + 2, np.float32), np.zeros(count, np.int32)
    launch(rearranged, 1, x, place, out, counts, N=count)
    rows = out[: 3 * count].reshape(3, count)
    np.testing.assert_array_equal(rows, [x[place], np.sort(x)[::-1], x[::-1]])
    np.testing.assert_array_equal(counts, np.bincount(place[:-3], minlength=count))
    np.testing.assert_array_equal(out[3 * count :], [x.max(), x.argmax()])


@triton.jit
def in_ptx(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    turned, mixed = tl.inline_asm_elementwise(
        "shf.l.wrap.b32 $0, $2, $2, 7; lop3.b32 $1, $0, $2, $2, 0x3c;",
        "=&r,=r,r",
        [x],
        dtype=(tl.int32, tl.int32),
        is_pure=True,
        pack=1,
    )
    tl.store(out_ptr + i, turned)
    tl.store(out_ptr + N + i, mixed)


def test_inline_ptx_with_two_results() -> None:
    x = drawn().integers(-(2**31), 2**31, 128).astype(np.int32)
    out = np.zeros(256, np.int32)
    launch(in_ptx, 1, x, out, N=128)
    bits = x.view(np.uint32)
    turned = (bits << 7) | (bits >> 25)
    np.testing.assert_array_equal(out.view(np.uint32), np.concatenate([turned, turned ^ bits]))


@triton.jit(noinline=True)
def scaled(x, factor):
    return x * factor + 1, x - factor


@triton.jit
def called(x_ptr, out_ptr, N: tl.constexpr):
    more, less = scaled(tl.load(x_ptr + tl.program_id(0)), 3)
    tl.device_assert(more < 100, "too large")
    tl.device_print("more", more)
    tl.store(out_ptr + tl.program_id(0) * N + tl.arange(0, N), more + less)


def test_a_function_that_stays_a_call_prints_and_asserts(capfd: pytest.CaptureFixture[str]) -> None:
    x, out = np.array([2.0, 5.0], np.float32), np.zeros((2, 32), np.float32)
    launch(called, 2, x, out, N=32, num_warps=1, debug=True)
    np.testing.assert_array_equal(out, np.repeat([[6.0], [18.0]], 32, axis=1))
    assert "more: 16.0" in capfd.readouterr().out
    x[1] = 40
    with pytest.raises(ExecutionError, match=r"block \(1, 0, 0\).*too large.*test_triton_language"):
        launch(called, 2, x, out, N=32, num_warps=1, debug=True)


@triton.jit
def shared_out(a, b, c, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    across = tl.cdiv(N, COLUMNS)
    tiles = tl.cdiv(M, ROWS) * across
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True, warp_specialize=True):
        m, n = (tile // across) * ROWS, (tile % across) * COLUMNS
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for k in range(0, K, STEP):
            total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
        c.store([m, n], total.to(tl.float16))


class Held:
    """An array as Triton's TensorDescriptor asks for one: an address, strides in elements."""

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def stride(self, axis: int) -> int:
        return self.array.strides[axis] // self.array.itemsize


@pytest.mark.parametrize("gpu", GPUS[1:])
def test_a_loop_whose_warps_are_shared_out_multiplies(gpu: str) -> None:
    descriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    a, b = (
        drawn().standard_normal((256, 128)).astype(np.float16),
        drawn().standard_normal((128, 128)).astype(np.float16),
    )
    c = np.zeros((256, 128), np.float16)
    maps = [
        descriptor(Held(each), list(each.shape), [each.shape[1], 1], block)
        for each, block in ((a, [128, 64]), (b, [64, 64]), (c, [128, 64]))
    ]
    launch(shared_out, 3, *maps, 256, 128, 128, gpu=gpu, ROWS=128, COLUMNS=64, STEP=64, num_warps=4, num_stages=2)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=2e-2, atol=5e-2)


@triton.jit
def precise(a, b, c, N: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + i, tl.dot(tl.load(a + i), tl.load(b + i), input_precision=PRECISION))


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("precision", "off"), [("tf32", 3e-2), ("tf32x3", 1e-5), ("ieee", 1e-5)])
def test_products_of_floats_are_as_precise_as_asked_for(gpu: str, precision: str, off: float) -> None:
    a, b = drawn().standard_normal((2, 32, 32)).astype(np.float32)
    c = np.zeros_like(a)
    launch(precise, 1, a, b, c, gpu=gpu, N=32, PRECISION=precision)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - exact).max() < off
    if precision == "tf32":
        assert np.abs(c - exact).max() > 1e-4, "a product of shortened operands is not this precise"
