"""Device-wide and block-wide primitives: sums, scans, sorts, selection, histograms, merges."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, blocks_for, require_block, require_multiples, require_positive
from .source import CudaSource

_TYPES = {"float32": "float", "float64": "double", "int32": "int"}


def make_reduce(*, n: int, dtype: str, block_threads: int, items: int, blocks: int, seed: int = 0) -> Case:
    require_positive(n=n, items=items, blocks=blocks)
    require_block(block_threads, 32)
    if dtype not in _TYPES:
        raise ValueError(f"dtype must be one of {', '.join(_TYPES)}, not {dtype}")
    rng = np.random.default_rng(seed)
    x = rng.integers(-100, 100, n).astype(dtype) if dtype == "int32" else rng.random(n).astype(dtype)
    sums = np.zeros(blocks, dtype)
    kernel = CudaSource("reduce.cu", f"reduce<{_TYPES[dtype]}, {block_threads}, {items}>")

    def check() -> None:
        np.testing.assert_allclose(sums.sum(dtype=np.float64), x.sum(dtype=np.float64), rtol=1e-5)

    return Case(
        launches=(Launch(kernel, (blocks,), (block_threads,), (x, sums, np.int32(n))),),
        check=check,
        work={"bytes_read": float(x.nbytes), "bytes_written": float(sums.nbytes), "flops": float(n)},
    )


def make_scan(*, n: int, block_threads: int, items: int, seed: int = 0) -> Case:
    require_positive(n=n, items=items)
    require_block(block_threads, 32)
    x = np.random.default_rng(seed).integers(-1000, 1000, n).astype(np.int32)
    out = np.zeros_like(x)
    blocks = blocks_for(n, block_threads * items)
    tiles, ticket = np.zeros(blocks, np.uint64), np.zeros(1, np.uint32)
    kernel = CudaSource("scan.cu", f"scan<{block_threads}, {items}>")

    def check() -> None:
        np.testing.assert_array_equal(out, np.cumsum(x, dtype=np.int32))

    return Case(
        launches=(Launch(kernel, (blocks,), (block_threads,), (x, out, tiles, ticket, np.int32(n))),),
        check=check,
        work={"bytes_read": 4.0 * n, "bytes_written": 4.0 * n, "flops": float(n)},
    )


def make_block_sort(*, tiles: int, bits: int, block_threads: int, items: int, seed: int = 0) -> Case:
    require_positive(tiles=tiles, bits=bits, items=items)
    require_block(block_threads, 32)
    if bits > 32:
        raise ValueError(f"bits must be at most 32, not {bits}")
    tile = block_threads * items
    keys = np.random.default_rng(seed).integers(0, 1 << bits, tiles * tile).astype(np.uint32)
    values = np.arange(keys.size, dtype=np.int32)
    sorted_keys, sorted_values = np.zeros_like(keys), np.full_like(values, -1)
    kernel = CudaSource("block_sort.cu", f"block_sort<{block_threads}, {items}>")

    def check() -> None:
        for tile_keys, tile_values, got_keys, got_values in zip(
            *(array.reshape(tiles, tile) for array in (keys, values, sorted_keys, sorted_values)), strict=True
        ):
            order = np.argsort(tile_keys, kind="stable")
            np.testing.assert_array_equal(got_keys, tile_keys[order])
            np.testing.assert_array_equal(got_values, tile_values[order])

    args = (keys, values, sorted_keys, sorted_values, np.int32(bits))
    return Case(
        launches=(Launch(kernel, (tiles,), (block_threads,), args),),
        check=check,
        work={"bytes_read": 8.0 * keys.size, "bytes_written": 8.0 * keys.size},
    )


def make_histogram(*, n: int, distinct: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    require_positive(n=n, distinct=distinct, blocks=blocks)
    require_block(block_threads, 32)
    if distinct > 256:
        raise ValueError(f"distinct must be at most 256, not {distinct}")
    x = np.random.default_rng(seed).integers(0, distinct, n).astype(np.uint8)
    counts = np.zeros(256, np.uint32)

    def check() -> None:
        np.testing.assert_array_equal(counts, np.bincount(x, minlength=256))

    kernel = CudaSource("histogram.cu", "histogram")
    return Case(
        launches=(Launch(kernel, (blocks,), (block_threads,), (x, counts, np.int32(n))),),
        check=check,
        work={"bytes_read": float(n), "bytes_written": 1024.0},
    )


def make_select(*, n: int, selectivity: float, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n)
    require_block(block_threads, 32)
    if not 0 <= selectivity <= 1:
        raise ValueError(f"selectivity must be from 0 to 1, not {selectivity}")
    x = np.random.default_rng(seed).random(n, np.float32)
    threshold = np.float32(1 - selectivity)
    out, count = np.full(n, -1, np.float32), np.full(1, 0, np.uint32)
    kept = np.sort(x[x > threshold])

    def check() -> None:
        assert count[0] == kept.size and (out[kept.size :] == -1).all()
        np.testing.assert_array_equal(np.sort(out[: kept.size]), kept)

    args = (x, out, count, threshold, np.int32(n))
    return Case(
        launches=(Launch(CudaSource("select.cu", "select"), (blocks_for(n, block_threads),), (block_threads,), args),),
        check=check,
        work={"bytes_read": 4.0 * n, "bytes_written": 4.0 * kept.size},
    )


def make_reduce_by_key(*, n: int, mean_run: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n, mean_run=mean_run)
    require_block(block_threads, 32)
    rng = np.random.default_rng(seed)
    keys = np.cumsum(rng.random(n) < 1 / mean_run).astype(np.int32)
    values = rng.random(n, np.float32)
    sums = np.zeros(int(keys[-1]) + 1, np.float32)

    def check() -> None:
        np.testing.assert_allclose(sums, np.bincount(keys, values, sums.size), rtol=1e-4)

    kernel = CudaSource("reduce_by_key.cu", "reduce_by_key")
    return Case(
        launches=(
            Launch(kernel, (blocks_for(n, block_threads),), (block_threads,), (keys, values, sums, np.int32(n))),
        ),
        check=check,
        work={"bytes_read": 8.0 * n, "bytes_written": 4.0 * sums.size, "flops": float(n)},
    )


def make_merge(*, n: int, run: int, items: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n)
    require_block(block_threads)
    require_multiples(run=(run, items))
    x = np.random.default_rng(seed).integers(0, 1 << 32, n).astype(np.uint32)
    for first in range(0, n, run):
        x[first : first + run].sort()
    out = np.zeros_like(x)
    kernel = CudaSource("merge.cu", f"merge<{items}>")

    def check() -> None:
        for first in range(0, n, 2 * run):
            np.testing.assert_array_equal(out[first : first + 2 * run], np.sort(x[first : first + 2 * run]))

    grid = (blocks_for(blocks_for(n, items), block_threads),)
    return Case(
        launches=(Launch(kernel, grid, (block_threads,), (x, out, np.int32(run), np.int32(n))),),
        check=check,
        work={"bytes_read": 4.0 * n, "bytes_written": 4.0 * n},
    )


KERNELS = {
    "cpp_reduce": Kernel(
        name="cpp_reduce",
        purpose="CUDA C++ template: unrolled streaming loads, shuffles, one barrier",
        axes={
            "n": (10_000, 1 << 20, 1 << 24),
            "dtype": ("float32", "float64", "int32"),
            "block_threads": (64, 128, 256, 512),
            "items": (1, 4, 8),
            "blocks": (16, 132, 1056),
        },
        default={"n": 1 << 20, "dtype": "float32", "block_threads": 256, "items": 4, "blocks": 264},
        small={"n": 1500, "dtype": "float32", "block_threads": 64, "items": 4, "blocks": 3},
        make=make_reduce,
    ),
    "cpp_scan": Kernel(
        name="cpp_scan",
        purpose="single-pass scan: blocks wait for the sums of those before them (decoupled look-back)",
        axes={"n": (5000, 1 << 18, 1 << 22), "block_threads": (64, 128, 256), "items": (4, 8, 16)},
        default={"n": 1 << 18, "block_threads": 128, "items": 8},
        small={"n": 1500, "block_threads": 64, "items": 4},
        make=make_scan,
    ),
    "cpp_block_sort": Kernel(
        name="cpp_block_sort",
        purpose="CUB's block radix sort: shared-memory ranking, scatters, many barriers",
        axes={"tiles": (8, 132, 1056), "bits": (8, 16, 32), "block_threads": (64, 128, 256), "items": (4, 8)},
        default={"tiles": 132, "bits": 16, "block_threads": 128, "items": 4},
        small={"tiles": 2, "bits": 8, "block_threads": 64, "items": 4},
        make=make_block_sort,
    ),
    "cpp_histogram": Kernel(
        name="cpp_histogram",
        purpose="bins in shared memory; MATCH lets one lane add for all that hold its bin",
        axes={
            "n": (10_000, 1 << 20),
            "distinct": (1, 16, 256),
            "block_threads": (128, 256, 512),
            "blocks": (16, 132, 528),
        },
        default={"n": 1 << 20, "distinct": 256, "block_threads": 256, "blocks": 264},
        small={"n": 2000, "distinct": 20, "block_threads": 64, "blocks": 2},
        make=make_histogram,
    ),
    "cpp_select": Kernel(
        name="cpp_select",
        purpose="stream compaction by ballots, one returning atomic a block",
        axes={"n": (10_000, 1 << 20), "selectivity": (0.0, 0.1, 0.5, 1.0), "block_threads": (64, 256, 1024)},
        default={"n": 1 << 20, "selectivity": 0.5, "block_threads": 256},
        small={"n": 1000, "selectivity": 0.5, "block_threads": 64},
        make=make_select,
    ),
    "cpp_reduce_by_key": Kernel(
        name="cpp_reduce_by_key",
        purpose="segmented scan by shuffles, atomics at the ends of runs",
        axes={"n": (10_000, 1 << 20), "mean_run": (1, 8, 100), "block_threads": (64, 256)},
        default={"n": 1 << 20, "mean_run": 8, "block_threads": 256},
        small={"n": 1000, "mean_run": 5, "block_threads": 64},
        make=make_reduce_by_key,
    ),
    "cpp_merge": Kernel(
        name="cpp_merge",
        purpose="merge path: binary searches, then short runs of dependent loads and divergent steps",
        axes={"n": (10_000, 1 << 20), "run": (64, 1024, 16_384), "items": (1, 4, 8), "block_threads": (128, 256)},
        default={"n": 1 << 18, "run": 1024, "items": 8, "block_threads": 128},
        small={"n": 900, "run": 64, "items": 4, "block_threads": 64},
        make=make_merge,
    ),
}
