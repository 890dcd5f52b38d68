"""Triton's products of large tiles on sm_100: operands in shared memory, or from registers by tensor memory, sums in
tensor memory."""

import numpy as np
import pytest

import gpusim

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'gpusim[triton]'")
tl = pytest.importorskip("triton.language")
ml_dtypes = pytest.importorskip("ml_dtypes")


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rm, rn, rk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rm[:, None] * N + rn[None, :], total)


@triton.jit
def attention(q, k, v, out, S, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rm, rd, rn = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D), tl.arange(0, N)
    x = tl.load(q + rm[:, None] * D + rd[None, :])
    most, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for n in range(0, S, N):
        s = tl.dot(x, tl.load(k + (n + rn)[None, :] * D + rd[:, None])) * scale
        now = tl.maximum(most, tl.max(s, 1))
        p, less = tl.exp(s - now[:, None]), tl.exp(most - now)
        total = total * less + tl.sum(p, 1)
        sums = tl.dot(p.to(tl.float16), tl.load(v + (n + rn)[:, None] * D + rd[None, :]), sums * less[:, None])
        most = now
    tl.store(out + rm[:, None] * D + rd[None, :], sums / total[:, None])


@triton.jit
def scaled(
    a,
    sa,
    b,
    sb,
    c,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    KIND: tl.constexpr,
    PACK: tl.constexpr,
    OF: tl.constexpr,
):
    rm, rn, rk, rs = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // PACK), tl.arange(0, K // OF)
    x = tl.load(a + rm[:, None] * (K // PACK) + rk[None, :])
    y = tl.load(b + rn[None, :] * (K // PACK) + rk[:, None])
    s, t = tl.load(sa + rm[:, None] * (K // OF) + rs[None, :]), tl.load(sb + rn[:, None] * (K // OF) + rs[None, :])
    tl.store(c + rm[:, None] * N + rn[None, :], tl.dot_scaled(x, s, KIND, y, t, KIND))


def uses(trace, *mnemonics):
    words = {word for text in trace.program.texts for word in text.split()}
    return all(any(word.split(".")[0] == each for word in words) for each in mnemonics)


@pytest.mark.parametrize(
    ("rows", "columns", "step", "warps", "stages", "kind"),
    [
        (128, 64, 64, 4, 1, np.float16),
        pytest.param(64, 64, 64, 4, 1, np.float16, marks=pytest.mark.nightly),
        pytest.param(256, 64, 64, 8, 1, np.float16, marks=pytest.mark.nightly),
        pytest.param(128, 128, 64, 4, 3, np.float16, marks=pytest.mark.nightly),
        pytest.param(128, 64, 32, 4, 1, np.float32, marks=pytest.mark.nightly),
    ],
)
def test_dot(rows, columns, step, warps, stages, kind):
    rng, depth = np.random.default_rng(1), 2 * step
    a, b = rng.integers(-8, 9, (rows, depth)).astype(kind), rng.integers(-8, 9, (depth, columns)).astype(kind)
    c = np.zeros((rows, columns), np.float32)
    kernel = gpusim.triton(product, M=rows, N=columns, STEP=step, num_warps=warps, num_stages=stages)
    trace = gpusim.capture(kernel, (1,), None, (a, b, c, depth), gpu="b200")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert uses(trace, "UTCHMMA", "LDTM", "UTCBAR")


@pytest.mark.nightly
def test_attention():
    rng, length, depth = np.random.default_rng(2), 256, 64
    q, k, v = (rng.normal(size=(length, depth)).astype(np.float16) for _ in range(3))
    out = np.zeros((length, depth), np.float32)
    kernel = gpusim.triton(attention, M=128, N=64, D=depth, num_warps=4)
    trace = gpusim.capture(kernel, (length // 128,), None, (q, k, v, out, length, 0.125), gpu="b200")
    s = np.exp(0.125 * q.astype(np.float32) @ k.astype(np.float32).T)
    np.testing.assert_allclose(out, s @ v.astype(np.float32) / s.sum(1, keepdims=True), atol=2e-3)
    assert uses(trace, "UTCHMMA", "LDTM", "STTM")


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        ("e2m1", 16),
        pytest.param("e4m3", 32, marks=pytest.mark.nightly),
        pytest.param("e2m1", 32, marks=pytest.mark.nightly),
    ],
)
def test_dot_scaled(kind, of):
    rng, rows, columns, depth = np.random.default_rng(3), 128, 64, 128
    if kind == "e2m1":
        codes = [rng.integers(0, 16, (n, depth)).astype(np.uint8) for n in (rows, columns)]
        values = [c.view(ml_dtypes.float4_e2m1fn).astype(np.float32) for c in codes]
        given = [c[:, ::2] | c[:, 1::2] << 4 for c in codes]
    else:
        given = [rng.normal(size=(n, depth)).astype(ml_dtypes.float8_e4m3fn) for n in (rows, columns)]
        values = [g.astype(np.float32) for g in given]
        given = [g.view(np.uint8) for g in given]
    if of == 32:
        scales = [rng.integers(122, 132, (n, depth // of)).astype(np.uint8) for n in (rows, columns)]
        factors = [np.exp2(s.astype(np.float32) - 127) for s in scales]
    else:
        scales = [
            rng.integers(0x20, 0x58, (n, depth // of)).astype(np.uint8).view(ml_dtypes.float8_e4m3fn)
            for n in (rows, columns)
        ]
        factors = [s.astype(np.float32) for s in scales]
    c = np.zeros((rows, columns), np.float32)
    kernel = gpusim.triton(
        scaled, M=rows, N=columns, K=depth, KIND=kind, PACK=2 if kind == "e2m1" else 1, OF=of, num_warps=4
    )
    trace = gpusim.capture(kernel, (1,), None, (given[0], scales[0], given[1], scales[1], c), gpu="b200")
    whole = [v * np.repeat(f, of, 1) for v, f in zip(values, factors, strict=True)]
    np.testing.assert_allclose(c, whole[0] @ whole[1].T, rtol=1e-4, atol=1e-3 * np.abs(c).max())
    assert uses(trace, "UTCOMMA" if kind == "e2m1" else "UTCQMMA", "LDTM")
