"""Multi-function unit: reciprocal, square roots, exponential, logarithm, sine, cosine, tanh.

Mental model: the GPU's unit interpolates tables and is within one or two ulps of the true value; here
the value is computed in FP64 by range reduction and a Taylor series, and rounded once, so results are
within half an ulp, on every host the same, and within the errors that the CUDA C++ Programming Guide
states for the approximate functions. FP32 denormals are flushed on both sides (compiled code scales
around them), but for tanh. Sine and cosine take their argument in turns: sin(2 pi x).

RCP64H and RSQ64H map the high word of an FP64 number to the high word of the approximate result; the
Newton steps that the compiler adds make it exact.
"""

from __future__ import annotations

import math

import numpy as np

from gpusim.isa.bodies.scalar import NAN32, bits64_of, bits_of, double_of, float_of, flush32
from gpusim.isa.bodies.small import decode_half, encode_half
from gpusim.isa.body import warp_body
from gpusim.isa.jit import inner

LANES = 32
LOW = 0xFFFFFFFF
LN2 = 0.6931471805599453
TWO_PI = 6.283185307179586
#: Adding and subtracting it rounds an FP64 number below 2**51 to an integer.
ROUNDER = 6755399441055744.0
# Taylor coefficients: exp(t), t = f * ln 2, |f| <= 1/2 (error < 1e-14)
E2, E3, E4, E5, E6 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720
E7, E8, E9, E10, E11 = 1 / 5040, 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800
# sin(t), |t| <= pi/2 (error < 1e-13)
S3, S5, S7, S9 = -1 / 6, 1 / 120, -1 / 5040, 1 / 362880
S11, S13, S15, S17 = -1 / 39916800, 1 / 6227020800, -1 / 1307674368000, 1 / 355687428096000


@inner
def _finish(value, flush):
    r = np.float32(value)
    if r != r:
        return np.int64(NAN32)
    bits = np.int64(bits_of(r))
    return flush32(bits) if flush else bits


@inner
def exp2(x):
    """2**x of an FP64 number, to FP32 and beyond."""
    bounded = min(max(x, np.float64(-300.0)), np.float64(300.0))
    whole = (bounded + ROUNDER) - ROUNDER
    t = (bounded - whole) * LN2
    series = 1.0 + t * (
        1.0
        + t * (E2 + t * (E3 + t * (E4 + t * (E5 + t * (E6 + t * (E7 + t * (E8 + t * (E9 + t * (E10 + t * E11)))))))))
    )
    value = series * double_of((np.int64(whole) + 1023) << 52)
    return value if x == x else x


@inner
def log2(x):
    """Base-2 logarithm of an FP64 number that holds an FP32 one."""
    bits = bits64_of(x)
    exponent = ((bits >> 52) & 0x7FF) - 1023
    mantissa = double_of((bits & 0xFFFFFFFFFFFFF) | (np.int64(1023) << 52))
    if mantissa > 1.4142135623730951:
        mantissa *= 0.5
        exponent += 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    t = s * s
    series = 1.0 + t * (1 / 3 + t * (1 / 5 + t * (1 / 7 + t * (1 / 9 + t * (1 / 11 + t * (1 / 13 + t * (1 / 15)))))))
    value = np.float64(exponent) + s * series * (2.0 / LN2)
    if x == 0.0:
        value = np.float64(-np.inf)
    if x < 0.0 or x != x:
        value = np.float64(np.nan)
    return np.float64(np.inf) if x == np.inf else value


@inner
def _sine(x, shift):
    """sin(2 pi (x + shift)): the whole turns are removed exactly."""
    if x - x != 0.0:
        return np.float64(np.nan)
    if abs(x) >= 16777216.0:
        x = np.float64(0.0)
    turns = x + shift
    r = turns - ((turns + ROUNDER) - ROUNDER)
    if r > 0.25:
        r = 0.5 - r
    elif r < -0.25:
        r = -0.5 - r
    t = r * TWO_PI
    u = t * t
    value = t + t * u * (S3 + u * (S5 + u * (S7 + u * (S9 + u * (S11 + u * (S13 + u * (S15 + u * S17)))))))
    return x * TWO_PI if x == 0.0 and shift == 0.0 else value


@inner
def _high_word(root, word):
    """Approximate reciprocal or reciprocal root of the FP64 number whose high word is given."""
    if word & 0x7FF00000 == 0:
        word &= 0x80000000
    x = double_of(word << 32)
    value = np.float64(1.0) / (np.sqrt(x) if root else x)
    if value != value:
        return np.int64(0x7FFFFFFF)
    bits = bits64_of(value)
    if value - value == 0.0:
        bits += np.int64(0x80000000)
    high = bits >> 32
    return high & 0x80000000 if high & 0x7FF00000 == 0 else high


@inner
def _halves(tangent, style, both, place, xi, wi):
    """Tanh or exponential of 16-bit floats: the one ``place`` bits up, or ``both`` of a word."""
    for l in range(LANES):
        result = np.int64(0)
        for shift in range(0, 32 if both else 16, 16):
            x = np.float64(decode_half(np.int64(xi[0, l]) >> shift + place & 0xFFFF, style))
            value = math.tanh(x) if tangent else exp2(x)
            result |= encode_half(value, np.float64(0.0), style) << shift
        wi[0, l] = np.int32(result)


@warp_body()
def reciprocal(f, p, xi, yi, zi, wi, q):
    """1 / x."""
    for l in range(LANES):
        wi[0, l] = np.int32(_finish(np.float64(1.0) / np.float64(float_of(flush32(np.int64(xi[0, l])))), True))


@warp_body()
def reciprocal_root(f, p, xi, yi, zi, wi, q):
    """1 / sqrt(x)."""
    for l in range(LANES):
        root = np.sqrt(np.float64(float_of(flush32(np.int64(xi[0, l])))))
        wi[0, l] = np.int32(_finish(np.float64(1.0) / root, True))


@warp_body()
def square_root(f, p, xi, yi, zi, wi, q):
    """sqrt(x)."""
    for l in range(LANES):
        wi[0, l] = np.int32(_finish(np.sqrt(np.float64(float_of(flush32(np.int64(xi[0, l]))))), True))


@warp_body()
def exponential(f, p, xi, yi, zi, wi, q):
    """2**x."""
    for l in range(LANES):
        wi[0, l] = np.int32(_finish(exp2(np.float64(float_of(flush32(np.int64(xi[0, l]))))), True))


@warp_body()
def logarithm(f, p, xi, yi, zi, wi, q):
    """Base-2 logarithm."""
    for l in range(LANES):
        wi[0, l] = np.int32(_finish(log2(np.float64(float_of(flush32(np.int64(xi[0, l]))))), True))


@warp_body()
def sine(f, p, xi, yi, zi, wi, q):
    """sin(2 pi x)."""
    for l in range(LANES):
        wi[0, l] = np.int32(_finish(_sine(np.float64(float_of(flush32(np.int64(xi[0, l])))), np.float64(0.0)), True))


@warp_body()
def cosine(f, p, xi, yi, zi, wi, q):
    """cos(2 pi x)."""
    for l in range(LANES):
        wi[0, l] = np.int32(_finish(_sine(np.float64(float_of(flush32(np.int64(xi[0, l])))), np.float64(0.25)), True))


@warp_body()
def tangent(f, p, xi, yi, zi, wi, q):
    """tanh(x); denormals count."""
    for l in range(LANES):
        wi[0, l] = np.int32(_finish(math.tanh(np.float64(float_of(np.int64(xi[0, l])))), False))


@warp_body()
def reciprocal_high(f, p, xi, yi, zi, wi, q):
    """High word of 1 / x of an FP64 number."""
    for l in range(LANES):
        wi[0, l] = np.int32(_high_word(False, np.int64(xi[0, l])))


@warp_body()
def reciprocal_root_high(f, p, xi, yi, zi, wi, q):
    """High word of 1 / sqrt(x) of an FP64 number."""
    for l in range(LANES):
        wi[0, l] = np.int32(_high_word(True, np.int64(xi[0, l])))


@warp_body()
def tangent_halves(f, p, xi, yi, zi, wi, q):
    """tanh of 16-bit floats; ``f``: format, both halves, place."""
    _halves(True, f[0], f[1], f[2], xi, wi)


@warp_body()
def exponential_halves(f, p, xi, yi, zi, wi, q):
    """2**x of 16-bit floats; ``f``: format, both halves, place."""
    _halves(False, f[0], f[1], f[2], xi, wi)
