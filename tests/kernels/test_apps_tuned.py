"""Kernels that their authors tuned: register blocking, double buffers, split sums, look-back between
blocks, persistent blocks, counter-based random numbers."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from numba import cuda, float32, float64, int32, uint32, uint64

ALL = 0xFFFFFFFF


@cuda.jit
def sgemm_register_blocked(a, b, c):
    """64 x 64 of C a block, 4 x 4 of it a thread, tiles of eight in shared memory."""
    a_tile = cuda.shared.array((8, 64), float32)
    b_tile = cuda.shared.array((8, 64), float32)
    acc = cuda.local.array((4, 4), float32)
    for i in range(4):
        for j in range(4):
            acc[i, j] = 0
    t = cuda.threadIdx.x
    tx, ty = t % 16, t // 16
    row0, column0 = cuda.blockIdx.y * 64, cuda.blockIdx.x * 64
    m, k_total, n = a.shape[0], a.shape[1], b.shape[1]
    for start in range(0, k_total, 8):
        for load in range(2):
            e = t + load * 256
            r, k = e // 8, e % 8
            a_tile[k, r] = a[row0 + r, start + k] if row0 + r < m and start + k < k_total else float32(0)
            k2, col = e // 64, e % 64
            b_tile[k2, col] = b[start + k2, column0 + col] if start + k2 < k_total and column0 + col < n else float32(0)
        cuda.syncthreads()
        for k in range(8):
            for i in range(4):
                left = a_tile[k, ty * 4 + i]
                for j in range(4):
                    acc[i, j] += left * b_tile[k, tx * 4 + j]
        cuda.syncthreads()
    for i in range(4):
        for j in range(4):
            r, col = row0 + ty * 4 + i, column0 + tx * 4 + j
            if r < m and col < n:
                c[r, col] = acc[i, j]


def test_register_blocked_product(launch):
    rng = np.random.default_rng(1)
    a, b = rng.random((70, 21), np.float32), rng.random((21, 66), np.float32)
    c = np.zeros((70, 66), np.float32)
    launch(sgemm_register_blocked, (2, 2), 256, a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5)


@cuda.jit
def split_k(a, b, c, slice_length):
    """Each block along z adds its share of the inner dimension with atomics."""
    row, column, z = cuda.grid(3)
    if row < c.shape[0] and column < c.shape[1]:
        acc = 0.0
        for k in range(z * slice_length, min((z + 1) * slice_length, a.shape[1])):
            acc += a[row, k] * b[k, column]
        cuda.atomic.add(c, (row, column), acc)


def test_split_sum_product(launch):
    rng = np.random.default_rng(2)
    a, b, c = rng.random((9, 50)), rng.random((50, 7)), np.zeros((9, 7))
    launch(split_k, (2, 1, 4), (8, 8, 1), a, b, c, 13)
    np.testing.assert_allclose(c, a @ b, rtol=1e-13)


@cuda.jit
def double_buffered_sum(values, out):
    """While one tile is summed, the next one is loaded into the other half of shared memory."""
    tiles = cuda.shared.array((2, 64), float64)
    t = cuda.threadIdx.x
    n_tiles = values.size // 64
    tiles[0, t] = values[t]
    cuda.syncthreads()
    acc = 0.0
    for k in range(n_tiles):
        if k + 1 < n_tiles:
            tiles[(k + 1) & 1, t] = values[(k + 1) * 64 + t]
        for j in range(0, 64, 8):
            acc += tiles[k & 1, (j + t) % 64] * (t + 1)
        cuda.syncthreads()
    out[t] = acc


def test_double_buffering(launch):
    values, out = np.random.default_rng(3).random(320), np.zeros(64)
    launch(double_buffered_sum, 1, 64, values, out)
    t = np.arange(64)
    tiles = values.reshape(5, 64)
    expected = sum(tiles[:, (j + t) % 64].sum(0) for j in range(0, 64, 8)) * (t + 1)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


@cuda.jit
def look_back_scan(values, out, ticket, flags, aggregates, prefixes):
    """Single-pass scan: a block takes a ticket, publishes its sum, and adds up its predecessors'."""
    shared = cuda.shared.array(128, int32)
    mine = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        mine[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    tile = mine[0]
    i = tile * 128 + t
    shared[t] = values[i] if i < values.size else 0
    cuda.syncthreads()
    offset = 1
    while offset < 128:
        add = shared[t - offset] if t >= offset else 0
        cuda.syncthreads()
        shared[t] += add
        cuda.syncthreads()
        offset *= 2
    if t == 0:
        aggregates[tile] = shared[127]
        cuda.threadfence()
        cuda.atomic.exch(flags, tile, 1)
        prefix = int32(0)
        back = tile - 1
        while back >= 0:
            flag = cuda.atomic.add(flags, back, 0)
            while flag == 0:
                flag = cuda.atomic.add(flags, back, 0)
            cuda.threadfence()
            if flag == 2:
                prefix += prefixes[back]
                break
            prefix += aggregates[back]
            back -= 1
        prefixes[tile] = prefix + shared[127]
        cuda.threadfence()
        cuda.atomic.exch(flags, tile, 2)
        mine[1] = prefix
    cuda.syncthreads()
    if i < values.size:
        out[i] = shared[t] + mine[1]


def test_scan_with_decoupled_look_back(launch):
    values = np.random.default_rng(4).integers(-9, 10, 1000).astype(np.int32)
    out = np.zeros_like(values)
    state = [np.zeros(n, np.int32) for n in (1, 8, 8, 8)]
    launch(look_back_scan, 8, 128, values, out, *state)
    np.testing.assert_array_equal(out, np.cumsum(values))


@cuda.jit
def persistent(work, results, queue):
    """A few blocks draw items from a queue until it is empty; items take unequal time."""
    item = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    while True:
        if t == 0:
            item[0] = cuda.atomic.add(queue, 0, 1)
        cuda.syncthreads()
        i = item[0]
        if i >= work.size:
            break
        acc = 0
        for k in range(work[i]):
            acc += (k * (t + 1)) % 7
        results[i, t] = acc
        cuda.syncthreads()


def test_persistent_blocks_share_a_queue(launch):
    work = np.random.default_rng(5).integers(0, 60, 25).astype(np.int32)
    results, queue = np.zeros((25, 64), np.int64), np.zeros(1, np.int32)
    launch(persistent, 3, 64, work, results, queue)
    t = np.arange(1, 65)
    expected = [((np.arange(w)[:, None] * t) % 7).sum(0) for w in work]
    np.testing.assert_array_equal(results, expected)


@cuda.jit
def rms_norm(x, gain, out, epsilon):
    """One block a row: warps reduce by shuffles, then the first warp over the warps' sums."""
    sums = cuda.shared.array(4, float32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    acc = float32(0)
    for j in range(t, x.shape[1], 128):
        acc += x[row, j] * x[row, j]
    for offset in (16, 8, 4, 2, 1):
        acc += cuda.shfl_down_sync(ALL, acc, offset)
    if t % 32 == 0:
        sums[t // 32] = acc
    cuda.syncthreads()
    total = sums[0] + sums[1] + sums[2] + sums[3]
    scale = float32(1) / math.sqrt(total / float32(x.shape[1]) + epsilon)
    for j in range(t, x.shape[1], 128):
        out[row, j] = x[row, j] * scale * gain[j]


def test_rms_normalisation(launch):
    rng = np.random.default_rng(6)
    x, gain = rng.standard_normal((5, 300)).astype(np.float32), rng.random(300, np.float32)
    out = np.zeros_like(x)
    launch(rms_norm, 5, 128, x, gain, out, np.float32(1e-6))
    w = x.astype(np.float64)
    np.testing.assert_allclose(out, w / np.sqrt((w**2).mean(1, keepdims=True) + 1e-6) * gain, rtol=1e-5)


@cuda.jit
def paged_attention(query, keys, values, page_table, lengths, out):
    """Decoding: one block a sequence, one warp, pages of eight tokens found through a table."""
    scores = cuda.shared.array(64, float32)
    lane, sequence = cuda.threadIdx.x, cuda.blockIdx.x
    length = lengths[sequence]
    for token in range(length):
        page = page_table[sequence, token // 8]
        part = query[sequence, lane] * keys[page, token % 8, lane]
        for offset in (16, 8, 4, 2, 1):
            part += cuda.shfl_xor_sync(ALL, part, offset)
        if lane == 0:
            scores[token] = part * float32(0.17677669)
    cuda.syncwarp()
    top = float32(-math.inf)
    for token in range(lane, length, 32):
        top = max(top, scores[token])
    for offset in (16, 8, 4, 2, 1):
        top = max(top, cuda.shfl_xor_sync(ALL, top, offset))
    acc, total = float32(0), float32(0)
    for token in range(length):
        weight = math.exp(scores[token] - top)
        total += weight
        acc += weight * values[page_table[sequence, token // 8], token % 8, lane]
    out[sequence, lane] = acc / total


def test_decoding_attention_over_pages(launch):
    rng = np.random.default_rng(7)
    lengths = np.array([1, 8, 23, 40], np.int32)
    page_table = rng.permutation(24)[:20].reshape(4, 5).astype(np.int32)
    query = rng.standard_normal((4, 32)).astype(np.float32)
    keys, values = (rng.standard_normal((24, 8, 32)).astype(np.float32) for _ in range(2))
    out = np.zeros_like(query)
    launch(paged_attention, 4, 32, query, keys, values, page_table, lengths, out)
    for s in range(4):
        k = keys[page_table[s]].reshape(-1, 32)[: lengths[s]].astype(np.float64)
        v = values[page_table[s]].reshape(-1, 32)[: lengths[s]].astype(np.float64)
        weights = np.exp(k @ query[s] / math.sqrt(32))
        np.testing.assert_allclose(out[s], weights @ v / weights.sum(), rtol=2e-4, atol=1e-5)


@cuda.jit
def stencil_3d(u, v):
    """Seven points, marching along z with the plane's neighbours kept in registers."""
    x, y = cuda.grid(2)
    nx, ny, nz = u.shape
    if 0 < x < nx - 1 and 0 < y < ny - 1:
        below, here = u[x, y, 0], u[x, y, 1]
        for z in range(1, nz - 1):
            above = u[x, y, z + 1]
            v[x, y, z] = u[x - 1, y, z] + u[x + 1, y, z] + u[x, y - 1, z] + u[x, y + 1, z] + below + above - 6.0 * here
            below, here = here, above


def test_marching_stencil(launch):
    u = np.random.default_rng(8).random((10, 9, 12))
    v = np.zeros_like(u)
    launch(stencil_3d, (2, 2), (8, 8), u, v)
    expected = np.zeros_like(u)
    c = u[1:-1, 1:-1, 1:-1]
    expected[1:-1, 1:-1, 1:-1] = (
        u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:] - 6 * c
    )  # fmt: skip
    np.testing.assert_allclose(v, expected, rtol=1e-12, atol=1e-13)


@cuda.jit
def expert_positions(experts, counts, offsets, order):
    """Token permutation of a mixture of experts: place by an atomic counter an expert."""
    i = cuda.grid(1)
    if i < experts.size:
        e = experts[i]
        place = offsets[e] + cuda.atomic.add(counts, e, 1)
        order[place] = i


def test_mixture_of_experts_permutation(launch):
    experts = np.random.default_rng(9).integers(0, 5, 100).astype(np.int32)
    sizes = np.bincount(experts, minlength=5)
    offsets = (np.cumsum(sizes) - sizes).astype(np.int32)
    counts, order = np.zeros(5, np.int32), np.full(100, -1, np.int32)
    launch(expert_positions, 4, 32, experts, counts, offsets, order)
    assert sorted(order.tolist()) == list(range(100))
    np.testing.assert_array_equal(experts[order], np.sort(experts))
    np.testing.assert_array_equal(counts, sizes)


@cuda.jit(device=True)
def philox_round(c0, c1, c2, c3, k0, k1):
    p0 = uint64(c0) * uint64(0xD2511F53)
    p1 = uint64(c2) * uint64(0xCD9E8D57)
    n0 = uint32(p1 >> uint64(32)) ^ c1 ^ k0
    n2 = uint32(p0 >> uint64(32)) ^ c3 ^ k1
    return uint32(n0), uint32(p1), uint32(n2), uint32(p0)


@cuda.jit
def philox(seed, out):
    """Philox4x32-10 (Salmon et al., SC 2011): random numbers from a counter."""
    i = cuda.grid(1)
    if i < out.shape[0]:
        c0, c1, c2, c3 = uint32(i), uint32(0), uint32(0), uint32(0)
        k0, k1 = uint32(seed), uint32(0)
        for _ in range(10):
            c0, c1, c2, c3 = philox_round(c0, c1, c2, c3, k0, k1)
            k0 = uint32(k0 + uint32(0x9E3779B9))
            k1 = uint32(k1 + uint32(0xBB67AE85))
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = c0, c1, c2, c3


def test_philox(launch):
    out = np.zeros((40, 4), np.uint32)
    launch(philox, 2, 32, np.uint32(42), out)
    for i in range(40):
        c, k = [i, 0, 0, 0], [42, 0]
        for _ in range(10):
            p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & ALL, (p0 >> 32) ^ c[3] ^ k[1], p0 & ALL]
            k = [(k[0] + 0x9E3779B9) & ALL, (k[1] + 0xBB67AE85) & ALL]
        assert out[i].tolist() == c


def _prime_roots(count, power):
    """The first 32 bits of the fractional part of the primes' roots: SHA-256's constants."""
    primes = [n for n in range(2, 320) if all(n % d for d in range(2, math.isqrt(n) + 1))][:count]
    roots = []
    for p in primes:
        low, high = 0, 1 << 40
        while low < high:  # floor(p ** (1 / power) * 2 ** 32), exactly
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**power <= p << (32 * power) else (low, middle - 1)
        roots.append(low & ALL)
    return np.array(roots, np.uint32)


ROUND_CONSTANTS, FIRST_STATE = _prime_roots(64, 3), _prime_roots(8, 2)


@cuda.jit(device=True)
def rotate_right(x, n):
    return uint32((x >> uint32(n)) | (x << uint32(32 - n)))


@cuda.jit
def sha256_blocks(messages, digests):
    """SHA-256 (FIPS 180-4) of one padded 64-byte block a thread."""
    i = cuda.grid(1)
    if i >= messages.shape[0]:
        return
    constants = cuda.const.array_like(ROUND_CONSTANTS)
    first = cuda.const.array_like(FIRST_STATE)
    w = cuda.local.array(64, uint32)
    s = cuda.local.array(8, uint32)
    for j in range(16):
        w[j] = 0
        for k in range(4):
            w[j] = uint32(w[j] << uint32(8)) | uint32(messages[i, 4 * j + k])
    for j in range(16, 64):
        a, b = w[j - 15], w[j - 2]
        s0 = rotate_right(a, 7) ^ rotate_right(a, 18) ^ uint32(a >> uint32(3))
        s1 = rotate_right(b, 17) ^ rotate_right(b, 19) ^ uint32(b >> uint32(10))
        w[j] = w[j - 16] + s0 + w[j - 7] + s1
    for j in range(8):
        s[j] = first[j]
    for j in range(64):
        e, a = s[4], s[0]
        s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)
        choice = (e & s[5]) ^ (~e & s[6])
        t1 = s[7] + s1 + choice + constants[j] + w[j]
        s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)
        majority = (a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2])
        t2 = s0 + majority
        for k in range(7, 0, -1):
            s[k] = s[k - 1]
        s[4] += uint32(t1)
        s[0] = uint32(t1 + t2)
    for j in range(8):
        digests[i, j] = first[j] + s[j]


def test_sha256(launch):
    rng = np.random.default_rng(10)
    texts = [rng.bytes(int(n)) for n in rng.integers(0, 56, 40)]
    padded = [t + b"\x80" + bytes(55 - len(t)) + (8 * len(t)).to_bytes(8, "big") for t in texts]
    messages = np.array([list(p) for p in padded], np.uint8)
    digests = np.zeros((40, 8), np.uint32)
    launch(sha256_blocks, 2, 32, messages, digests)
    for text, digest in zip(texts, digests, strict=True):
        assert b"".join(int(v).to_bytes(4, "big") for v in digest) == hashlib.sha256(text).digest()


@cuda.jit
def implicit_gemm(image, weights, out):
    """Convolution as a matrix product whose left side is gathered into shared memory on the fly."""
    patch = cuda.shared.array((8, 16), float32)
    filters = cuda.shared.array((8, 8), float32)
    t = cuda.threadIdx.x
    channels, height, width = image.shape
    size = weights.shape[2]
    inner = channels * size * size
    out_width, out_height = width - size + 1, height - size + 1
    pixel0, filter0 = cuda.blockIdx.x * 16, cuda.blockIdx.y * 8
    px, f = t % 16, t // 16
    acc = float32(0)
    for start in range(0, inner, 8):
        k, p = start + t // 16, pixel0 + t % 16
        value = float32(0)
        if k < inner and p < out_width * out_height:
            c, dy, dx = k // (size * size), k // size % size, k % size
            value = image[c, p // out_width + dy, p % out_width + dx]
        patch[t // 16, t % 16] = value
        if t < 64:
            kk, ff = start + t % 8, filter0 + t // 8
            weight = float32(0)
            if kk < inner and ff < weights.shape[0]:
                weight = weights[ff, kk // (size * size), kk // size % size, kk % size]
            filters[t // 8, t % 8] = weight
        cuda.syncthreads()
        for k in range(8):
            acc += patch[k, px] * filters[f, k]
        cuda.syncthreads()
    p = pixel0 + px
    if p < out_width * out_height and filter0 + f < weights.shape[0]:
        out[filter0 + f, p // out_width, p % out_width] = acc


def test_convolution_as_a_product(launch):
    rng = np.random.default_rng(11)
    image, weights = rng.random((3, 9, 10), np.float32), rng.random((10, 3, 3, 3), np.float32)
    out = np.zeros((10, 7, 8), np.float32)
    launch(implicit_gemm, (4, 2), 128, image, weights, out)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3), (1, 2))
    np.testing.assert_allclose(out, np.einsum("cyxij,kcij->kyx", windows, weights), rtol=1e-5)


@cuda.jit
def dependent_chain(out, rounds):
    """A latency probe: one long chain of multiply-adds, integer and floating."""
    t = cuda.threadIdx.x
    x, n = float32(t), int32(t)
    for _ in range(rounds):
        x = x * float32(0.5) + float32(1)
        n = n * 3 + 1
    out[t, 0], out[t, 1] = x, n & 0xFFFF


def test_a_latency_probe_computes_its_chain(launch):
    out = np.zeros((32, 2))
    launch(dependent_chain, 1, 32, out, 100)
    np.testing.assert_allclose(out[:, 0], 2.0, rtol=1e-6)
    n = np.arange(32, dtype=object)
    for _ in range(100):
        n = n * 3 + 1
    assert out[:, 1].tolist() == [int(v) & 0xFFFF for v in n]


@cuda.jit
def bank_conflicts(out, stride):
    shared = cuda.shared.array(1024, int32)
    t = cuda.threadIdx.x
    for i in range(t, 1024, 32):
        shared[i] = i * i
    cuda.syncwarp()
    acc = 0
    for r in range(8):
        acc += shared[(t * stride + r) % 1024]
    out[t] = acc


@pytest.mark.parametrize("stride", [1, 2, 32, 33])
def test_shared_memory_at_any_stride(launch, stride):
    out = np.zeros(32, np.int64)
    launch(bank_conflicts, 1, 32, out, stride)
    t = np.arange(32)
    assert out.tolist() == sum(((t * stride + r) % 1024) ** 2 for r in range(8)).tolist()
