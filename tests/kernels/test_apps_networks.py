"""The kernels of neural networks and image processing, as users write them in Numba."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda, float32, int8, int32

scipy_special = pytest.importorskip("scipy.special")


@cuda.jit
def activations(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        out[0, i] = max(v, float32(0))
        out[1, i] = v / (float32(1) + math.exp(-v))
        out[2, i] = float32(0.5) * v * (float32(1) + math.erf(v * float32(0.70710678)))
        out[3, i] = math.tanh(v)
        out[4, i] = math.log1p(math.exp(v))
        out[5, i] = v if v > 0 else math.exp(v) - float32(1)


def test_activations(launch):
    x = np.linspace(-6, 6, 200, dtype=np.float32)
    out = np.zeros((6, 200), np.float32)
    launch(activations, 2, 128, x, out)
    w = x.astype(np.float64)
    expected = [np.maximum(w, 0), w / (1 + np.exp(-w)), w * scipy_special.ndtr(w), np.tanh(w),
                np.log1p(np.exp(w)), np.where(w > 0, w, np.expm1(w))]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=3e-6, atol=1e-6)


@cuda.jit
def convolve(image, weights, bias, out):
    """Direct convolution, channels first, same padding."""
    x, y, k = cuda.grid(3)
    channels, height, width = image.shape
    size = weights.shape[2]
    if x < width and y < height and k < weights.shape[0]:
        acc = bias[k]
        for c in range(channels):
            for dy in range(size):
                for dx in range(size):
                    yy, xx = y + dy - size // 2, x + dx - size // 2
                    if yy >= 0 and yy < height and xx >= 0 and xx < width:
                        acc += image[c, yy, xx] * weights[k, c, dy, dx]
        out[k, y, x] = acc


def test_direct_convolution(launch):
    rng = np.random.default_rng(1)
    image, weights = rng.random((2, 9, 11), np.float32), rng.random((3, 2, 3, 3), np.float32)
    bias, out = rng.random(3, np.float32), np.zeros((3, 9, 11), np.float32)
    launch(convolve, (2, 2, 3), (8, 8, 1), image, weights, bias, out)
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    expected = np.einsum("cyxij,kcij->kyx", windows, weights) + bias[:, None, None]
    np.testing.assert_allclose(out, expected, rtol=1e-5)


@cuda.jit
def max_pool(image, out, where):
    i = cuda.grid(1)
    height, width = out.shape[1], out.shape[2]
    if i < out.size:
        c, y, x = i // (height * width), i // width % height, i % width
        best, index = image[c, 2 * y, 2 * x], 0
        for k in range(1, 4):
            v = image[c, 2 * y + k // 2, 2 * x + k % 2]
            if v > best:
                best, index = v, k
        out[c, y, x] = best
        where[c, y, x] = index


def test_max_pooling_with_indices(launch):
    image = np.random.default_rng(2).standard_normal((3, 8, 10)).astype(np.float32)
    out, where = np.zeros((3, 4, 5), np.float32), np.zeros((3, 4, 5), np.int8)
    launch(max_pool, 2, 32, image, out, where)
    windows = image.reshape(3, 4, 2, 5, 2).transpose(0, 1, 3, 2, 4).reshape(3, 4, 5, 4)
    np.testing.assert_array_equal(out, windows.max(-1))
    np.testing.assert_array_equal(where, windows.argmax(-1))


@cuda.jit
def attention(q, k, v, out, scale):
    """One warp a query: streaming softmax over the keys, causal, one lane a channel."""
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    mine = q[row, lane] * scale
    largest, total, acc = float32(-math.inf), float32(0), float32(0)
    for j in range(row + 1):
        score = mine * k[j, lane]
        for offset in (16, 8, 4, 2, 1):
            score += cuda.shfl_xor_sync(0xFFFFFFFF, score, offset)
        higher = max(largest, score)
        rescale = math.exp(largest - higher)
        weight = math.exp(score - higher)
        total = total * rescale + weight
        acc = acc * rescale + weight * v[j, lane]
        largest = higher
    out[row, lane] = acc / total


def test_causal_attention_by_streaming_softmax(launch):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((20, 32)).astype(np.float32) for _ in range(3))
    out = np.zeros_like(q)
    scale = np.float32(1 / math.sqrt(32))
    launch(attention, 20, 32, q, k, v, out, scale)
    scores = np.where(np.tri(20, dtype=bool), q.astype(np.float64) @ k.T * scale, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, weights @ v / weights.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


@cuda.jit
def quantised_dot(a, a_scale, b, b_scale, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        acc = int32(0)
        for k in range(a.shape[1]):
            acc += int32(a[row, k]) * int32(b[column, k])
        out[row, column] = float32(acc) * a_scale[row] * b_scale[column]


def test_int8_matrix_product(launch):
    rng = np.random.default_rng(4)
    a, b = rng.integers(-128, 128, (13, 37)).astype(np.int8), rng.integers(-128, 128, (9, 37)).astype(np.int8)
    a_scale, b_scale = rng.random(13, np.float32), rng.random(9, np.float32)
    out = np.zeros((13, 9), np.float32)
    launch(quantised_dot, (2, 2), (8, 8), a, a_scale, b, b_scale, out)
    exact = a.astype(np.int64) @ b.T.astype(np.int64)
    np.testing.assert_allclose(out, exact * a_scale[:, None] * b_scale, rtol=1e-6)


@cuda.jit
def unpack_int4(packed, scale, out):
    i = cuda.grid(1)
    if i < packed.size:
        low = int8(packed[i] << 4) >> 4
        high = int8(packed[i]) >> 4
        out[2 * i] = low * scale[i // 16]
        out[2 * i + 1] = high * scale[i // 16]


def test_int4_dequantisation(launch):
    rng = np.random.default_rng(5)
    packed, scale = rng.integers(0, 256, 128).astype(np.uint8), rng.random(8, np.float32)
    out = np.zeros(256, np.float32)
    launch(unpack_int4, 2, 64, packed, scale, out)
    nibbles = np.stack([packed & 15, packed >> 4], 1).astype(np.int32)
    signed = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.float32)
    np.testing.assert_array_equal(out, (signed * np.repeat(scale, 16)[:, None]).ravel())


@cuda.jit
def rotary(x, base):
    """Rotates pairs of channels by position: powers, sines and cosines in single precision."""
    i = cuda.grid(1)
    positions, half = x.shape[0], x.shape[1] // 2
    if i < positions * half:
        p, c = i // half, i % half
        angle = float32(p) * math.pow(base, -float32(c) / float32(half))
        s, k = math.sin(angle), math.cos(angle)
        a, b = x[p, c], x[p, c + half]
        x[p, c] = a * k - b * s
        x[p, c + half] = a * s + b * k


def test_rotary_embedding_in_place(launch):
    x = np.random.default_rng(6).standard_normal((15, 16)).astype(np.float32)
    w = x.astype(np.float64)
    launch(rotary, 4, 32, x, np.float32(10000))
    angle = np.arange(15)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    a, b = w[:, :8], w[:, 8:]
    expected = np.hstack([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)])
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-5)


@cuda.jit
def scatter_gradients(tokens, gradients, table):
    token, channel = cuda.grid(2)
    if token < tokens.size and channel < gradients.shape[1]:
        cuda.atomic.add(table, (tokens[token], channel), gradients[token, channel])


def test_embedding_gradient_by_atomics(launch):
    rng = np.random.default_rng(7)
    tokens, gradients = rng.integers(0, 7, 40), rng.integers(-9, 9, (40, 6)).astype(np.float32)
    table, expected = np.zeros((7, 6), np.float32), np.zeros((7, 6), np.float32)
    launch(scatter_gradients, (5, 1), (8, 8), tokens, gradients, table)
    np.add.at(expected, tokens, gradients)
    np.testing.assert_array_equal(table, expected)


@cuda.jit
def half_matmul(a, b, c):
    """Half-precision inputs, single-precision accumulation."""
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        acc = float32(0)
        for k in range(a.shape[1]):
            acc += float32(a[row, k]) * float32(b[k, column])
        c[row, column] = acc


def test_half_precision_matrix_product(launch):
    rng = np.random.default_rng(8)
    a, b = rng.random((10, 21)).astype(np.float16), rng.random((21, 12)).astype(np.float16)
    c = np.zeros((10, 12), np.float16)
    launch(half_matmul, (2, 2), (8, 8), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-3)


@cuda.jit
def adam(weights, gradients, first, second, rate, step):
    i = cuda.grid(1)
    if i < weights.size:
        g = gradients[i]
        m = float32(0.9) * first[i] + float32(0.1) * g
        v = float32(0.999) * second[i] + float32(0.001) * g * g
        first[i], second[i] = m, v
        m_hat = m / (float32(1) - math.pow(float32(0.9), float32(step)))
        v_hat = v / (float32(1) - math.pow(float32(0.999), float32(step)))
        weights[i] -= rate * m_hat / (math.sqrt(v_hat) + float32(1e-8))


def test_an_adam_step(launch):
    rng = np.random.default_rng(9)
    weights, gradients, first = (rng.standard_normal(100).astype(np.float32) for _ in range(3))
    second = rng.random(100, np.float32)
    w, m, v = (x.astype(np.float64) for x in (weights, first, second))
    launch(adam, 1, 128, weights, gradients, first, second, np.float32(0.01), 3)
    g = gradients.astype(np.float64)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    expected = w - 0.01 * (m / (1 - 0.9**3)) / (np.sqrt(v / (1 - 0.999**3)) + 1e-8)
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6)


@cuda.jit
def sobel(image, out):
    y, x = cuda.grid(2)
    if y > 0 and x > 0 and y < image.shape[0] - 1 and x < image.shape[1] - 1:
        gx = (
            image[y - 1, x + 1] + 2 * image[y, x + 1] + image[y + 1, x + 1]
            - image[y - 1, x - 1] - 2 * image[y, x - 1] - image[y + 1, x - 1]
        )  # fmt: skip
        gy = (
            image[y + 1, x - 1] + 2 * image[y + 1, x] + image[y + 1, x + 1]
            - image[y - 1, x - 1] - 2 * image[y - 1, x] - image[y - 1, x + 1]
        )  # fmt: skip
        out[y, x] = min(255, int(math.sqrt(float(gx * gx + gy * gy))))


def test_sobel_on_bytes(launch):
    image = np.random.default_rng(10).integers(0, 256, (17, 23)).astype(np.uint8)
    out = np.zeros_like(image)
    launch(sobel, (3, 3), (8, 8), image, out)
    w = image.astype(np.int64)
    gx = (w[:-2, 2:] + 2 * w[1:-1, 2:] + w[2:, 2:]) - (w[:-2, :-2] + 2 * w[1:-1, :-2] + w[2:, :-2])
    gy = (w[2:, :-2] + 2 * w[2:, 1:-1] + w[2:, 2:]) - (w[:-2, :-2] + 2 * w[:-2, 1:-1] + w[:-2, 2:])
    expected = np.zeros_like(image)
    expected[1:-1, 1:-1] = np.minimum(255, np.sqrt(gx * gx + gy * gy).astype(np.int64))
    np.testing.assert_array_equal(out, expected)


@cuda.jit
def top_k(scores, k, indices):
    """One block a row: k rounds of argmax in shared memory, each striking out its winner."""
    values = cuda.shared.array(64, float32)
    places = cuda.shared.array(64, int32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    mine = scores[row, t]
    for round_ in range(k):
        values[t], places[t] = mine, t
        cuda.syncthreads()
        half = 32
        while half > 0:
            if t < half and values[t + half] > values[t]:
                values[t], places[t] = values[t + half], places[t + half]
            cuda.syncthreads()
            half //= 2
        winner = places[0]
        if t == 0:
            indices[row, round_] = winner
        if t == winner:
            mine = float32(-math.inf)
        cuda.syncthreads()


def test_top_k(launch):
    scores = np.random.default_rng(11).standard_normal((5, 64)).astype(np.float32)
    indices = np.zeros((5, 4), np.int32)
    launch(top_k, 5, 64, scores, 4, indices)
    np.testing.assert_array_equal(indices, np.argsort(-scores, axis=1)[:, :4])


@cuda.jit
def bilinear(image, out):
    y, x = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        sy = (y + 0.5) * image.shape[0] / out.shape[0] - 0.5
        sx = (x + 0.5) * image.shape[1] / out.shape[1] - 0.5
        y0, x0 = math.floor(sy), math.floor(sx)
        fy, fx = sy - y0, sx - x0
        acc = 0.0
        for dy in range(2):
            for dx in range(2):
                yy = min(max(int(y0) + dy, 0), image.shape[0] - 1)
                xx = min(max(int(x0) + dx, 0), image.shape[1] - 1)
                acc += image[yy, xx] * (fy if dy else 1 - fy) * (fx if dx else 1 - fx)
        out[y, x] = acc


def test_bilinear_resampling(launch):
    image = np.random.default_rng(12).random((7, 9))
    out = np.zeros((16, 13))
    launch(bilinear, (2, 2), (8, 8), image, out)
    sy = (np.arange(16) + 0.5) * 7 / 16 - 0.5
    sx = (np.arange(13) + 0.5) * 9 / 13 - 0.5

    def along(s, n):
        low = np.floor(s).astype(int)
        matrix = np.zeros((s.size, n))
        np.add.at(matrix, (np.arange(s.size), np.clip(low, 0, n - 1)), 1 - (s - low))
        np.add.at(matrix, (np.arange(s.size), np.clip(low + 1, 0, n - 1)), s - low)
        return matrix

    np.testing.assert_allclose(out, along(sy, 7) @ image @ along(sx, 9).T, rtol=1e-12)
