"""Floating point as users write it: the math module in both widths, conversions, rounding, half
precision, complex numbers. Error bounds are those of the CUDA programming guide, in units of the
last place of the result, with slack for the reference's own rounding."""

from __future__ import annotations

import cmath
import math
from fractions import Fraction

import numpy as np
import pytest
from numba import cuda, float32
from shared_launches import apply_each, for_each, share

scipy_special = pytest.importorskip("scipy.special")

WIDTHS = (np.float32, np.float64)
INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)
NUMBERS = (np.float32, np.float64, np.int8, np.uint16, *INTEGERS)
COMPLEX = (np.complex64, np.complex128)
in_both_widths = pytest.mark.parametrize("dtype", WIDTHS, ids=("f32", "f64"))


@cuda.jit(device=True)
def cube_root(x):
    return cuda.cbrt(x)


@cuda.jit(device=True)
def divide(x, y):
    return x / y


@cuda.jit(device=True)
def power(x, y):
    return x**y


#: name -> (function, reference in float64, input range, ulps allowed in f32, in f64)
UNARY = {
    "sin": (math.sin, np.sin, (-100, 100), 2, 2),
    "cos": (math.cos, np.cos, (-100, 100), 2, 2),
    "tan": (math.tan, np.tan, (-1.5, 1.5), 4, 3),
    "asin": (math.asin, np.arcsin, (-1, 1), 4, 3),
    "acos": (math.acos, np.arccos, (-1, 1), 3, 3),
    "atan": (math.atan, np.arctan, (-30, 30), 3, 3),
    "sinh": (math.sinh, np.sinh, (-20, 20), 4, 3),
    "cosh": (math.cosh, np.cosh, (-20, 20), 3, 3),
    "tanh": (math.tanh, np.tanh, (-5, 5), 3, 3),
    "asinh": (math.asinh, np.arcsinh, (-50, 50), 4, 4),
    "acosh": (math.acosh, np.arccosh, (1, 50), 5, 5),
    "atanh": (math.atanh, np.arctanh, (-0.99, 0.99), 4, 4),
    "exp": (math.exp, np.exp, (-80, 80), 3, 2),
    "expm1": (math.expm1, np.expm1, (-5, 5), 2, 2),
    "log": (math.log, np.log, (1e-30, 1e30), 2, 2),
    "log2": (math.log2, np.log2, (1e-30, 1e30), 2, 3),
    "log10": (math.log10, np.log10, (1e-30, 1e30), 3, 3),
    "log1p": (math.log1p, np.log1p, (-0.9, 10), 3, 3),
    "sqrt": (math.sqrt, np.sqrt, (0, 1e10), 1, 1),
    "erf": (math.erf, scipy_special.erf, (-4, 4), 3, 4),
    "erfc": (math.erfc, scipy_special.erfc, (-3, 5), 6, 16),
    "gamma": (math.gamma, scipy_special.gamma, (0.1, 30), 12, 14),
    "lgamma": (math.lgamma, scipy_special.gammaln, (4, 60), 8, 8),
    "cbrt": (cube_root, np.cbrt, (-1e6, 1e6), 3, 3),
}
UNARY_KERNEL = apply_each({name: row[0] for name, row in UNARY.items()})


def draw(low, high, dtype, seed):
    rng = np.random.default_rng(seed)
    if low > 0 and high / low > 1e6:
        return np.exp(rng.uniform(math.log(low), math.log(high), 256)).astype(dtype)
    x = rng.uniform(low, high, 256)
    x[:8] = rng.uniform(max(low, -0.01), min(high, 0.01), 8) if low <= 0 <= high else x[:8]
    return np.clip(x.astype(dtype), dtype(low), dtype(high))


@in_both_widths
@pytest.mark.parametrize("name", UNARY)
def test_a_math_function_is_as_accurate_as_documented(request, launch, name, dtype):
    def arguments(name):
        return draw(*UNARY[name][2], dtype, seed=len(name)), np.zeros(256, dtype)

    x, out = share(request, launch, UNARY_KERNEL, (2, 128), UNARY, arguments, name, dtype)
    _, reference, _, ulps32, ulps64 = UNARY[name]
    expected = reference(x.astype(np.float64))
    ulps = ulps32 if dtype is np.float32 else ulps64
    unit = np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
    error = np.abs(out.astype(np.float64) - expected) / unit
    worst = int(np.argmax(error))
    assert error[worst] <= ulps + 1, f"{name}({x[worst]!r}) = {out[worst]!r}, not {expected[worst]!r}"


BINARY = {
    "pow": (math.pow, np.power, (0.01, 20), (-8, 8), 8, 3),
    "atan2": (math.atan2, np.arctan2, (-5, 5), (-5, 5), 4, 3),
    "hypot": (math.hypot, np.hypot, (-1e3, 1e3), (-1e3, 1e3), 3, 3),
    "fmod": (math.fmod, np.fmod, (-1e3, 1e3), (0.1, 7), 0, 0),
    "copysign": (math.copysign, np.copysign, (-3, 3), (-3, 3), 0, 0),
    "divide": (divide, np.divide, (-1e3, 1e3), (0.1, 7), 1, 1),
    "power_operator": (power, np.power, (0.01, 20), (-8, 8), 8, 3),
}
BINARY_KERNEL = apply_each({name: row[0] for name, row in BINARY.items()}, operands=2)


@in_both_widths
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_numbers_is_as_accurate_as_documented(request, launch, name, dtype):
    def arguments(name):
        return draw(*BINARY[name][2], dtype, 1), draw(*BINARY[name][3], dtype, 2), np.zeros(256, dtype)

    x, y, out = share(request, launch, BINARY_KERNEL, (4, 64), BINARY, arguments, name, dtype)
    _, reference, _, _, ulps32, ulps64 = BINARY[name]
    expected = reference(x.astype(np.float64), y.astype(np.float64))
    ulps = ulps32 if dtype is np.float32 else ulps64
    unit = np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
    error = np.abs(out.astype(np.float64) - expected) / np.maximum(unit, np.finfo(dtype).tiny)
    assert error.max() <= ulps + 1, name


def large_trigonometry(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = math.sin(x[i])
        out[1, i] = math.cos(x[i])


@in_both_widths
def test_sine_of_huge_arguments_takes_the_slow_path(request, launch, dtype):
    def arguments(dtype):
        return np.array([1e5, -1e6, 1e10, 3.3e20, -7e30, 1e38, 105616.0, 2.0**40], dtype), np.zeros((2, 8), dtype)

    x, out = share(request, launch, for_each(large_trigonometry), (1, 32), WIDTHS, arguments, dtype)
    wide = x.astype(np.float64)
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(out, [np.sin(wide), np.cos(wide)], rtol=tolerance, atol=tolerance)


def special_values(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = x[i] + x[i]
        out[1, i] = x[i] * x[i]
        out[2, i] = 1.0 / x[i] if x[i] != 0 else 0.0
        out[3, i] = math.sqrt(x[i])
        out[4, i] = math.exp(x[i])
        out[5, i] = math.isnan(x[i])
        out[6, i] = math.isinf(x[i])
        out[7, i] = abs(x[i])
        out[8, i] = -x[i]
        out[9, i] = x[i] > 1.0
        out[10, i] = not (x[i] > 1.0)
        out[11, i] = x[i] - x[i]


@in_both_widths
def test_infinities_nans_zeros_and_denormals(request, launch, dtype):
    def arguments(dtype):
        info = np.finfo(dtype)
        x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, info.tiny / 4, -info.tiny / 2,
                      info.max, -info.max, 1.0, -1.0], dtype)  # fmt: skip
        return x, np.zeros((12, x.size), dtype)

    x, out = share(request, launch, for_each(special_values), (1, 32), WIDTHS, arguments, dtype)
    with np.errstate(all="ignore"):
        reciprocal = np.where(x != 0, 1 / x, 0)
        expected = [x + x, x * x, reciprocal, np.sqrt(x), np.exp(x), np.isnan(x), np.isinf(x),
                    abs(x), -x, x > 1, ~(x > 1), x - x]  # fmt: skip
    for row, (got, want) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_allclose(got, np.asarray(want, dtype), rtol=4 * np.finfo(dtype).eps, err_msg=f"row {row}")
    assert np.signbit(out[0, 1]) and np.signbit(out[8, 0]) and not np.signbit(out[7, 1])


def rounding(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = math.floor(x[i])
        out[1, i] = math.ceil(x[i])
        out[2, i] = math.trunc(x[i])
        out[3, i] = round(x[i])
        out[4, i] = int(x[i])


@in_both_widths
def test_rounding_to_whole_numbers(request, launch, dtype):
    def arguments(dtype):
        x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 3.7, -3.7, 1e6 + 0.5, 0, -0.0], dtype)
        return x, np.zeros((5, x.size), np.int64)

    x, out = share(request, launch, for_each(rounding), (1, 32), WIDTHS, arguments, dtype)
    np.testing.assert_array_equal(out, [np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.trunc(x)])


def float_conversions(x, f32, f64, i32, i64, u8, u32):
    i = cuda.grid(1)
    if i < x.size:
        f32[i], f64[i] = x[i], x[i]
        i32[i], i64[i], u8[i], u32[i] = x[i], x[i], x[i], x[i]


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda t: t.__name__)
def test_conversions_between_numbers(request, launch, dtype):
    def arguments(dtype):
        x = np.array([0, 1, 2, 3.75, 100.25, 99.999, 127], np.float64).astype(dtype)
        return x, *(np.zeros(x.size, t) for t in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.uint32))

    x, *outs = share(request, launch, for_each(float_conversions), (1, 32), NUMBERS, arguments, dtype)
    for out in outs:
        np.testing.assert_array_equal(out, x.astype(out.dtype), err_msg=str(out.dtype))


def integers_to_floats(a, f32, f64):
    i = cuda.grid(1)
    if i < a.size:
        f32[i] = a[i]
        f64[i] = a[i]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda t: t.__name__)
def test_large_integers_round_to_nearest_even(request, launch, dtype):
    def arguments(dtype):
        info = np.iinfo(dtype)
        base = np.array([2**24 + 1, 2**24 + 3, 2**25 + 2, 2**25 + 6, info.max, info.max - 63, info.min, 0], dtype)
        return base, np.zeros(base.size, np.float32), np.zeros(base.size)

    base, f32, f64 = share(request, launch, for_each(integers_to_floats), (1, 32), INTEGERS, arguments, dtype)
    np.testing.assert_array_equal(f32, base.astype(np.float32))
    np.testing.assert_array_equal(f64, base.astype(np.float64))


def fused(a, b, c, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = cuda.fma(a[i], b[i], c[i])


@in_both_widths
def test_fma_rounds_once(request, launch, dtype):
    def arguments(dtype):
        rng = np.random.default_rng(8)
        a, b = rng.standard_normal(64).astype(dtype), rng.standard_normal(64).astype(dtype)
        c = -(a * b)  # what remains is the rounding error of the product, exactly
        return a, b, c, np.zeros(64, dtype)

    a, b, c, out = share(request, launch, for_each(fused), (2, 32), WIDTHS, arguments, dtype)
    exact = [float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
             for x, y, z in zip(a, b, c, strict=True)]  # fmt: skip
    np.testing.assert_array_equal(out, np.array(exact).astype(dtype))


@cuda.jit
def half_arithmetic(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] + b[i]
        out[1, i] = a[i] * b[i]
        out[2, i] = a[i] - b[i]
        out[3, i] = cuda.fp16.hfma(a[i], b[i], a[i])
        out[4, i] = cuda.fp16.hneg(a[i])
        out[5, i] = cuda.fp16.habs(a[i])
        out[6, i] = cuda.fp16.hmax(a[i], b[i])


def test_half_precision_arithmetic(launch):
    rng = np.random.default_rng(12)
    a, b = rng.standard_normal(100).astype(np.float16), rng.standard_normal(100).astype(np.float16)
    out = np.zeros((7, 100), np.float16)
    launch(half_arithmetic, 1, 128, a, b, out)
    fma = (a.astype(np.float64) * b.astype(np.float64) + a.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(out, [a + b, a * b, a - b, fma, -a, abs(a), np.maximum(a, b)])


@cuda.jit
def half_storage(a, out, back):
    i = cuda.grid(1)
    if i < a.size:
        wide = float32(a[i])
        out[i] = wide * wide + float32(0.5)
        back[i] = np.float16(wide * float32(1.0 / 3.0))


def test_half_precision_as_storage(launch):
    a = np.linspace(-300, 300, 96).astype(np.float16)
    out, back = np.zeros(96, np.float32), np.zeros(96, np.float16)
    launch(half_storage, 3, 32, a, out, back)
    wide = a.astype(np.float32)
    np.testing.assert_allclose(out, wide * wide + np.float32(0.5), rtol=2e-7)
    np.testing.assert_array_equal(back, (wide * np.float32(1 / 3)).astype(np.float16))


def complex_numbers(a, b, out, magnitude):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] + b[i]
        out[1, i] = a[i] * b[i]
        out[2, i] = a[i] / b[i]
        out[3, i] = a[i].conjugate()
        out[4, i] = a[i].real - 1j * b[i].imag
        magnitude[i] = abs(a[i])


@pytest.mark.parametrize("dtype", COMPLEX, ids=("c64", "c128"))
def test_complex_arithmetic(request, launch, dtype):
    def arguments(dtype):
        rng = np.random.default_rng(13)
        a, b = ((rng.standard_normal(70) + 1j * rng.standard_normal(70)).astype(dtype) for _ in range(2))
        return a, b, np.zeros((5, 70), dtype), np.zeros(70, a.real.dtype)

    a, b, out, magnitude = share(request, launch, for_each(complex_numbers), (3, 32), COMPLEX, arguments, dtype)
    expected = [a + b, a * b, a / b, a.conj(), a.real - 1j * b.imag]
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(magnitude, abs(a), rtol=tolerance)


@cuda.jit
def complex_functions(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = cmath.exp(a[i])
        out[1, i] = cmath.sqrt(a[i])
        out[2, i] = a[i] * a[i] + 1j


def test_complex_functions(launch):
    rng = np.random.default_rng(14)
    a = rng.standard_normal(64) + 1j * rng.standard_normal(64)
    out = np.zeros((3, 64), np.complex128)
    launch(complex_functions, 2, 32, a, out)
    np.testing.assert_allclose(out, [np.exp(a), np.sqrt(a), a * a + 1j], rtol=1e-14, atol=1e-14)


@cuda.jit(fastmath=True)
def fast(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = math.sin(x[i])
        out[1, i] = math.exp(x[i])
        out[2, i] = x[i] / (x[i] + float32(2))
        out[3, i] = math.log(x[i] + float32(1))
        out[4, i] = math.sqrt(x[i])
        out[5, i] = math.pow(x[i] + float32(1), float32(1.7))


def test_fast_math_uses_the_hardware_approximations(launch):
    x = np.linspace(0.01, 3.1, 128, dtype=np.float32)
    out = np.zeros((6, 128), np.float32)
    launch(fast, 4, 32, x, out)
    wide = x.astype(np.float64)
    expected = [np.sin(wide), np.exp(wide), wide / (wide + 2), np.log(wide + 1), np.sqrt(wide), (wide + 1) ** 1.7]
    np.testing.assert_allclose(out, expected, rtol=5e-5, atol=2e-6)


@cuda.jit
def numpy_functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = np.sin(x[i])
        out[1, i] = np.cos(x[i])
        out[2, i] = np.arctan(x[i])
        out[3, i] = np.sinh(x[i])
        out[4, i] = np.arctan2(x[i], 0.25)
        out[5, i] = np.tanh(x[i])


def test_numpy_functions_inside_a_kernel(launch):
    x = np.linspace(-4, 4, 77)
    out = np.zeros((6, 77))
    launch(numpy_functions, 3, 32, x, out)
    expected = [np.sin(x), np.cos(x), np.arctan(x), np.sinh(x), np.arctan2(x, 0.25), np.tanh(x)]
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-15)


@cuda.jit
def black_scholes(spot, strike, years, rate, volatility, call, put):
    i = cuda.grid(1)
    if i < spot.size:
        root = math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root)
        d2 = d1 - volatility * root
        n1 = 0.5 * math.erfc(-d1 * 0.7071067811865476)
        n2 = 0.5 * math.erfc(-d2 * 0.7071067811865476)
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = spot[i] * n1 - discounted * n2
        put[i] = discounted * (1.0 - n2) - spot[i] * (1.0 - n1)


@in_both_widths
def test_black_scholes(launch, dtype):
    rng = np.random.default_rng(21)
    spot, strike = rng.uniform(5, 30, 150).astype(dtype), rng.uniform(1, 100, 150).astype(dtype)
    years = rng.uniform(0.25, 10, 150).astype(dtype)
    call, put = np.zeros(150, dtype), np.zeros(150, dtype)
    rate, volatility = dtype(0.02), dtype(0.3)
    launch(black_scholes, 3, 64, spot, strike, years, rate, volatility, call, put)
    s, k, t = (v.astype(np.float64) for v in (spot, strike, years))
    r, v = float(rate), float(volatility)
    d1 = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
    d2 = d1 - v * np.sqrt(t)
    n = scipy_special.ndtr
    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(call, s * n(d1) - k * np.exp(-r * t) * n(d2), atol=tolerance)
    np.testing.assert_allclose(put, k * np.exp(-r * t) * n(-d2) - s * n(-d1), atol=tolerance)
