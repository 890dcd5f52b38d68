"""Integer arithmetic as users write it: every width, Python's division rules, bit tricks, hashes."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
from numba import cuda, int32, int64, uint32, uint64
from shared_launches import for_each, share

INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
WIDE = (np.int32, np.int64, np.uint32, np.uint64)
WORDS = (np.uint32, np.uint64)


def each(types):
    """The test for each type; one launch has them all."""
    return pytest.mark.parametrize("dtype", types, ids=lambda t: t.__name__)


def edge_values(dtype, size, seed):
    """Extremes and small values first, random ones over all magnitudes after."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**63, size, dtype=np.uint64) >> rng.integers(0, info.bits, size).astype(np.uint64)
    values = bits.astype(dtype)
    edges = np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1], dtype)
    if info.min < 0:
        edges = np.append(edges, np.array([-1, -2, -7], dtype))
        values *= rng.choice(np.array([-1, 1], dtype), size)
    values[: edges.size] = rng.permutation(edges)
    return values


def divide(a, b, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]


@each(INTEGERS)
def test_floor_division_and_remainder_follow_python(request, launch, dtype):
    def arguments(dtype):
        a, b = edge_values(dtype, 300, 1), edge_values(dtype, 300, 2)
        b[b == 0] = 5
        if np.iinfo(dtype).min < 0:
            b[(a == np.iinfo(dtype).min) & (b == -1)] = 3  # overflows in every language
        return a, b, np.zeros_like(a), np.zeros_like(a)

    a, b, quotient, remainder = share(request, launch, for_each(divide), (3, 128), INTEGERS, arguments, dtype)
    np.testing.assert_array_equal(quotient, a // b)
    np.testing.assert_array_equal(remainder, a % b)


def arithmetic(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] + b[i]
        out[1, i] = a[i] - b[i]
        out[2, i] = a[i] * b[i]
        out[3, i] = a[i] & b[i]
        out[4, i] = a[i] | b[i]
        out[5, i] = a[i] ^ b[i]
        out[6, i] = ~a[i]
        out[7, i] = min(a[i], b[i])
        out[8, i] = max(a[i], b[i])
        out[9, i] = a[i] * 10 + 3
        out[10, i] = a[i] if a[i] < b[i] else b[i] - a[i]
        out[11, i] = a[i] * a[i] - b[i] * b[i]


@each(INTEGERS)
def test_arithmetic_wraps_as_the_array_type_does(request, launch, dtype):
    def arguments(dtype):
        return edge_values(dtype, 200, 3), edge_values(dtype, 200, 4), np.zeros((12, 200), dtype)

    a, b, out = share(request, launch, for_each(arithmetic), (2, 128), INTEGERS, arguments, dtype)
    with np.errstate(over="ignore"):
        expected = [
            a + b, a - b, a * b, a & b, a | b, a ^ b, ~a, np.minimum(a, b), np.maximum(a, b),
            a * dtype(10) + dtype(3), np.where(a < b, a, b - a), a * a - b * b,
        ]  # fmt: skip
    for row, (got, want) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"row {row}")


def shifts(a, by, left, right):
    i = cuda.grid(1)
    if i < a.size:
        left[i] = a[i] << by[i]
        right[i] = a[i] >> by[i]


@each(WIDE)
def test_shifts_by_variable_amounts(request, launch, dtype):
    def arguments(dtype):
        by = (np.arange(256) % np.iinfo(dtype).bits).astype(dtype)
        return edge_values(dtype, 256, 5), by, np.zeros(256, dtype), np.zeros(256, dtype)

    a, by, left, right = share(request, launch, for_each(shifts), (2, 128), WIDE, arguments, dtype)
    np.testing.assert_array_equal(left, a << by)
    np.testing.assert_array_equal(right, a >> by)


def bit_counts(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = cuda.popc(a[i])
        out[1, i] = cuda.clz(a[i])
        out[2, i] = cuda.ffs(a[i])
        out[3, i] = cuda.brev(a[i])


@each(WORDS)
def test_bit_counting_intrinsics(request, launch, dtype):
    def arguments(dtype):
        return edge_values(dtype, 130, 6), np.zeros((4, 130), np.uint64)

    a, out = share(request, launch, for_each(bit_counts), (5, 32), WORDS, arguments, dtype)
    bits = np.iinfo(dtype).bits
    words = [int(v) for v in a]
    assert out[0].tolist() == [w.bit_count() for w in words]
    assert out[1].tolist() == [bits - w.bit_length() for w in words]
    assert out[2].tolist() == [(w & -w).bit_length() for w in words]
    assert out[3].tolist() == [int(format(w, f"0{bits}b")[::-1], 2) for w in words]


def convert_integers(a, outs):
    i = cuda.grid(1)
    if i < a.size:
        v = a[i]
        outs[0][i], outs[1][i], outs[2][i], outs[3][i] = v, v, v, v
        outs[4][i], outs[5][i], outs[6][i], outs[7][i] = v, v, v, v


@each(INTEGERS)
def test_stores_narrow_and_widen_like_astype(request, launch, dtype):
    def arguments(dtype):
        return edge_values(dtype, 100, 7), tuple(np.zeros(100, t) for t in INTEGERS)

    a, outs = share(request, launch, for_each(convert_integers), (1, 128), INTEGERS, arguments, dtype)
    for out in outs:
        np.testing.assert_array_equal(out, a.astype(out.dtype), err_msg=str(out.dtype))


@cuda.jit
def wide_multiply(a, b, high, low):
    """64 x 64 -> 128 bits by schoolbook halves."""
    i = cuda.grid(1)
    if i < a.size:
        mask = uint64(0xFFFFFFFF)
        a0, a1 = a[i] & mask, a[i] >> uint64(32)
        b0, b1 = b[i] & mask, b[i] >> uint64(32)
        p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
        middle = (p00 >> uint64(32)) + (p01 & mask) + (p10 & mask)
        low[i] = (middle << uint64(32)) | (p00 & mask)
        high[i] = p11 + (p01 >> uint64(32)) + (p10 >> uint64(32)) + (middle >> uint64(32))


def test_128_bit_products_from_64_bit_halves(launch):
    a, b = edge_values(np.uint64, 97, 8), edge_values(np.uint64, 97, 9)
    high, low = np.zeros_like(a), np.zeros_like(a)
    launch(wide_multiply, 4, 32, a, b, high, low)
    for x, y, h, l in zip(a, b, high, low, strict=True):
        assert (int(h) << 64) + int(l) == int(x) * int(y)


@cuda.jit
def collatz(steps):
    i = cuda.grid(1)
    if i < steps.size:
        n = i + 1
        count = 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            count += 1
        steps[i] = count


def test_collatz_walks_of_very_unequal_length(launch):
    def walk(n):
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    steps = np.zeros(150, np.int32)
    launch(collatz, 3, 64, steps)
    assert steps.tolist() == [walk(n + 1) for n in range(150)]


def gcds(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        x, y = a[i], b[i]
        while y != 0:
            x, y = y, x % y
        out[i] = x


@each((np.int32, np.uint64))
def test_euclid(request, launch, dtype):
    def arguments(dtype):
        rng = np.random.default_rng(0)
        a, b = (rng.integers(1, 2**20, 120).astype(dtype) * dtype(12) for _ in range(2))
        return a, b, np.zeros_like(a)

    a, b, out = share(request, launch, for_each(gcds), (1, 128), (np.int32, np.uint64), arguments, dtype)
    assert out.tolist() == [math.gcd(int(x), int(y)) for x, y in zip(a, b, strict=True)]


@cuda.jit(device=True)
def rotate_left(x, by):
    return uint32((x << uint32(by)) | (x >> uint32(32 - by)))


@cuda.jit
def murmur_finish(keys, out):
    """The 32-bit finalizer of MurmurHash3 with a rotation before it."""
    i = cuda.grid(1)
    if i < keys.size:
        h = rotate_left(keys[i], 15)
        h = uint32(h ^ (h >> uint32(16)))
        h = uint32(h * uint32(0x85EBCA6B))
        h = uint32(h ^ (h >> uint32(13)))
        h = uint32(h * uint32(0xC2B2AE35))
        out[i] = uint32(h ^ (h >> uint32(16)))


def test_a_32_bit_hash(launch):
    keys = edge_values(np.uint32, 200, 11)
    out = np.zeros_like(keys)
    launch(murmur_finish, 2, 128, keys, out)
    h = (keys << np.uint32(15)) | (keys >> np.uint32(17))
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    np.testing.assert_array_equal(out, h ^ (h >> np.uint32(16)))


@cuda.jit
def crc32(data, out):
    i = cuda.grid(1)
    if i < data.shape[0]:
        crc = uint32(0xFFFFFFFF)
        for j in range(data.shape[1]):
            crc = uint32(crc ^ uint32(data[i, j]))
            for _ in range(8):
                if crc & uint32(1):
                    crc = uint32((crc >> uint32(1)) ^ uint32(0xEDB88320))
                else:
                    crc = uint32(crc >> uint32(1))
        out[i] = ~crc


def test_crc32_of_rows(launch):
    data = np.random.default_rng(2).integers(0, 256, (40, 13)).astype(np.uint8)
    out = np.zeros(40, np.uint32)
    launch(crc32, 2, 32, data, out)
    assert out.tolist() == [zlib.crc32(row.tobytes()) for row in data]


@cuda.jit
def power_mod(base, exponent, modulus, out):
    i = cuda.grid(1)
    if i < base.size:
        result = int64(1)
        b = int64(base[i]) % modulus
        e = exponent[i]
        while e > 0:
            if e & 1:
                result = result * b % modulus
            b = b * b % modulus
            e >>= 1
        out[i] = result


def test_modular_exponentiation(launch):
    rng = np.random.default_rng(4)
    base, exponent = rng.integers(0, 10**6, 90), rng.integers(0, 10**5, 90)
    out = np.zeros(90, np.int64)
    launch(power_mod, 3, 32, base, exponent, 998_244_353, out)
    assert out.tolist() == [pow(int(b), int(e), 998_244_353) for b, e in zip(base, exponent, strict=True)]


@cuda.jit
def sieve(flags):
    """Each thread strikes out the multiples of one number; all write the same value."""
    p = cuda.grid(1) + 2
    if p * p < flags.size:
        for multiple in range(p * p, flags.size, p):
            flags[multiple] = False


def test_sieve_of_eratosthenes_in_a_bool_array(launch):
    flags = np.ones(2000, np.bool_)
    flags[:2] = False
    launch(sieve, 1, 64, flags)
    expected = [n for n in range(2, 2000) if all(n % d for d in range(2, math.isqrt(n) + 1))]
    assert np.flatnonzero(flags).tolist() == expected


@cuda.jit
def integer_powers(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] ** 2
        out[1, i] = a[i] ** 3
        out[2, i] = abs(a[i])
        out[3, i] = -a[i]
        out[4, i] = int32(a[i] > 3) + int32(a[i] == -2)
        out[5, i] = (a[i] > 0) - (a[i] < 0)


def test_powers_signs_and_comparisons_as_numbers(launch):
    a = np.arange(-20, 21, dtype=np.int64)
    out = np.zeros((6, a.size), np.int64)
    launch(integer_powers, 2, 32, a, out)
    expected = [a**2, a**3, abs(a), -a, (a > 3).astype(int) + (a == -2), np.sign(a)]
    np.testing.assert_array_equal(out, expected)
