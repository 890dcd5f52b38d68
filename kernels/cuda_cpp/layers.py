"""Layers of networks: fused MLP, layer normalisation forward and backward, softmax by block and by grid, a causal
convolution."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, blocks_for, require_block, require_multiples, require_positive
from .source import CudaSource

_EPSILON = 1e-5


def make_mlp(
    *, tokens: int, inputs: int, hidden: int, outputs: int, rows: int, block_threads: int, seed: int = 0
) -> Case:
    slice_ = 64
    require_positive(inputs=inputs, outputs=outputs, rows=rows)
    require_block(block_threads, 32)
    require_multiples(tokens=(tokens, rows), hidden=(hidden, slice_))
    if outputs > block_threads:
        raise ValueError(f"outputs must be at most block_threads ({block_threads}), not {outputs}")
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, inputs)).astype(np.float32)
    w1 = (rng.standard_normal((inputs, hidden)) / inputs**0.5).astype(np.float32)
    w2 = (rng.standard_normal((hidden, outputs)) / hidden**0.5).astype(np.float32)
    out = np.full((tokens, outputs), np.nan, np.float32)
    kernel = CudaSource("mlp.cu", f"mlp<{rows}, {slice_}>")

    def check() -> None:
        h = x.astype(np.float64) @ w1
        h = 0.5 * h * (1 + np.tanh(0.79788456 * (h + 0.044715 * h**3)))
        np.testing.assert_allclose(out, h @ w2, rtol=1e-3, atol=1e-4)

    args = (x, w1, w2, out, *map(np.int32, (inputs, hidden, outputs)))
    return Case(
        launches=(Launch(kernel, (tokens // rows,), (block_threads,), args, 4 * rows * (inputs + slice_)),),
        check=check,
        work={
            "bytes_read": float(x.nbytes + w1.nbytes + w2.nbytes),
            "bytes_written": float(out.nbytes),
            "flops": 2.0 * tokens * hidden * (inputs + outputs),
        },
    )


def _rows(rows: int, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x half[rows, 64 pairs], scale and shift float[64 pairs]."""
    require_positive(rows=rows)
    if pairs not in (1, 2, 4, 8, 16):
        raise ValueError(f"pairs must be one of 1, 2, 4, 8, 16, not {pairs}")
    rng = np.random.default_rng(seed)
    x = (3 * rng.standard_normal((rows, 64 * pairs)) + 1).astype(np.float16)
    return x, rng.random(64 * pairs, np.float32), rng.random(64 * pairs, np.float32)


def make_layernorm(*, rows: int, pairs: int, block_threads: int, seed: int = 0) -> Case:
    require_block(block_threads, 32)
    x, scale, shift = _rows(rows, pairs, seed)
    out, kept = np.full_like(x, np.nan), np.zeros((rows, 2), np.float32)
    args = (x, scale, shift, out, kept, np.int32(rows), np.float32(_EPSILON))
    wide = x.astype(np.float64)
    mean, rstd = wide.mean(1, keepdims=True), 1 / np.sqrt(wide.var(1, keepdims=True) + _EPSILON)

    def check() -> None:
        np.testing.assert_allclose(out.astype(np.float64), (wide - mean) * rstd * scale + shift, rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(kept, np.hstack([mean, rstd]), rtol=1e-4, atol=1e-5)

    kernel = CudaSource("layernorm.cu", f"layernorm<{pairs}>")
    return Case(
        launches=(Launch(kernel, (blocks_for(32 * rows, block_threads),), (block_threads,), args),),
        check=check,
        work={"bytes_read": float(x.nbytes), "bytes_written": float(out.nbytes), "flops": 8.0 * x.size},
    )


def make_layernorm_backward(*, rows: int, pairs: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    require_block(block_threads, 32)
    require_positive(blocks=blocks)
    x, scale, _ = _rows(rows, pairs, seed)
    columns = 64 * pairs
    dy = np.random.default_rng(seed + 1).standard_normal(x.shape).astype(np.float16)
    wide = x.astype(np.float64)
    mean, rstd = wide.mean(1, keepdims=True), 1 / np.sqrt(wide.var(1, keepdims=True) + _EPSILON)
    kept = np.hstack([mean, rstd]).astype(np.float32)
    dx = np.full_like(x, np.nan)
    parts, sums = np.zeros((blocks, columns, 2), np.float32), np.zeros((columns, 2), np.float32)

    def check() -> None:
        normal, wanted = (wide - mean) * rstd, dy.astype(np.float64) * scale
        right = rstd * (wanted - wanted.mean(1, keepdims=True) - normal * (wanted * normal).mean(1, keepdims=True))
        np.testing.assert_allclose(dx.astype(np.float64), right, rtol=3e-3, atol=2e-3)
        np.testing.assert_allclose(sums[:, 0], (dy * normal).sum(0), rtol=1e-3, atol=2e-3 * rows**0.5)
        np.testing.assert_allclose(sums[:, 1], dy.astype(np.float64).sum(0), rtol=1e-3, atol=2e-3 * rows**0.5)

    launches = (
        Launch(
            CudaSource("layernorm.cu", f"layernorm_backward<{pairs}>"), (blocks,), (block_threads,),
            (x, dy, scale, kept, dx, parts, np.int32(rows)), 8 * columns,
        ),
        Launch(
            CudaSource("layernorm.cu", "layernorm_join"), (blocks_for(columns, 64),), (64,),
            (parts, sums, np.int32(columns), np.int32(blocks)),
        ),
    )  # fmt: skip
    return Case(
        launches=launches,
        check=check,
        work={"bytes_read": 2.0 * x.nbytes, "bytes_written": float(dx.nbytes), "flops": 12.0 * x.size},
    )


def make_softmax(*, rows: int, columns: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads, 32)
    x = (4 * np.random.default_rng(seed).standard_normal((rows, columns))).astype(np.float16)
    out = np.full((rows, columns), np.nan, np.float32)

    def check() -> None:
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-30)

    kernel = CudaSource("softmax.cu", "softmax")
    return Case(
        launches=(Launch(kernel, (rows,), (block_threads,), (x, out, np.int32(columns))),),
        check=check,
        work={"bytes_read": 2.0 * x.nbytes, "bytes_written": float(out.nbytes), "flops": 6.0 * x.size},
    )


def make_grid_softmax(*, n: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    require_positive(n=n, blocks=blocks)
    require_block(block_threads, 32)
    x = (4 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)
    out, states = np.full_like(x, np.nan), np.zeros((blocks, 2), np.float32)

    def check() -> None:
        e = np.exp(x.astype(np.float64) - x.max())
        np.testing.assert_allclose(out, e / e.sum(), rtol=1e-4, atol=1e-30)

    kernel = CudaSource("grid_softmax.cu", f"grid_softmax<{block_threads}>", cooperative=True)
    return Case(
        launches=(Launch(kernel, (blocks,), (block_threads,), (x, out, states, np.int32(n))),),
        check=check,
        work={"bytes_read": 12.0 * n, "bytes_written": 4.0 * n, "flops": 6.0 * n},
    )


def make_causal_conv1d(*, channels: int, tokens: int, taps: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(channels=channels)
    require_block(block_threads, 32)
    require_multiples(tokens=(tokens, 4))
    if not 2 <= taps <= 8:
        raise ValueError(f"taps must be from 2 to 8, not {taps}")
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((channels, tokens)).astype(np.float32)
    weights, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((channels, taps), (channels,)))
    out = np.full_like(x, np.nan)

    def check() -> None:
        padded = np.pad(x.astype(np.float64), ((0, 0), (taps - 1, 0)))
        sums = sum(weights[:, i : i + 1] * padded[:, i : i + tokens] for i in range(taps)) + bias[:, None]
        np.testing.assert_allclose(out, sums / (1 + np.exp(-sums)), rtol=1e-3, atol=1e-5)

    kernel = CudaSource("causal_conv1d.cu", f"causal_conv1d<{taps}>")
    grid = (blocks_for(tokens // 4, block_threads), channels)
    args = (x, weights, bias, out, np.int32(channels), np.int32(tokens))
    return Case(
        launches=(Launch(kernel, grid, (block_threads,), args),),
        check=check,
        work={
            "bytes_read": float(x.nbytes),
            "bytes_written": float(out.nbytes),
            "flops": (2.0 * taps + 4) * x.size,
        },
    )


KERNELS = {
    "cpp_mlp": Kernel(
        name="cpp_mlp",
        purpose="two layers fused: weights stream from L2, activations stay in shared memory",
        axes={
            "tokens": (64, 512, 2048),
            "inputs": (64, 256),
            "hidden": (256, 1024),
            "outputs": (64, 128),
            "rows": (4, 8, 16),
            "block_threads": (64, 128, 256),
        },
        default={"tokens": 512, "inputs": 128, "hidden": 256, "outputs": 128, "rows": 8, "block_threads": 128},
        small={"tokens": 8, "inputs": 20, "hidden": 64, "outputs": 33, "rows": 4, "block_threads": 64},
        make=make_mlp,
    ),
    "cpp_layernorm": Kernel(
        name="cpp_layernorm",
        purpose="a warp a row in registers, shuffles, packed halves",
        axes={"rows": (100, 4096, 65_536), "pairs": (2, 8, 16), "block_threads": (64, 128, 256)},
        default={"rows": 4096, "pairs": 8, "block_threads": 128},
        small={"rows": 11, "pairs": 2, "block_threads": 64},
        make=make_layernorm,
    ),
    "cpp_layernorm_backward": Kernel(
        name="cpp_layernorm_backward",
        purpose="gradients by row and by column: shuffles, sums of columns in order, a second launch",
        axes={
            "rows": (100, 4096, 65_536),
            "pairs": (2, 8, 16),
            "block_threads": (64, 128, 256),
            "blocks": (8, 132, 528),
        },
        default={"rows": 2048, "pairs": 8, "block_threads": 128, "blocks": 132},
        small={"rows": 11, "pairs": 2, "block_threads": 64, "blocks": 2},
        make=make_layernorm_backward,
    ),
    "cpp_softmax": Kernel(
        name="cpp_softmax",
        purpose="softmax that rescales its sum as the maximum grows: MUFU in a dependent chain",
        axes={"rows": (16, 256, 4096), "columns": (100, 1024, 32_768), "block_threads": (64, 256, 1024)},
        default={"rows": 512, "columns": 1024, "block_threads": 128},
        small={"rows": 3, "columns": 150, "block_threads": 64},
        make=make_softmax,
    ),
    "cpp_grid_softmax": Kernel(
        name="cpp_grid_softmax",
        purpose="cooperative groups: all blocks meet at a barrier of the grid",
        axes={"n": (10_000, 1 << 20), "block_threads": (128, 256), "blocks": (16, 64, 108)},
        default={"n": 1 << 18, "block_threads": 256, "blocks": 64},
        small={"n": 1000, "block_threads": 64, "blocks": 3},
        make=make_grid_softmax,
    ),
    "cpp_causal_conv1d": Kernel(
        name="cpp_causal_conv1d",
        purpose="short filters along time, 128-bit loads that overlap, SiLU",
        axes={
            "channels": (16, 256, 2048),
            "tokens": (256, 2048),
            "taps": (3, 4),
            "block_threads": (64, 128, 256),
        },
        default={"channels": 256, "tokens": 2048, "taps": 4, "block_threads": 128},
        small={"channels": 3, "tokens": 100, "taps": 4, "block_threads": 32},
        make=make_causal_conv1d,
    ),
}
