"""Sorting tokens by the experts that a mixture-of-experts layer sends them to.

Four launches: count a block's assignments to each expert; scan the counts, expert by expert; rank the
assignments inside a block and give each its place; gather the tokens' rows in that order. Every step is
stable, so an expert sees its tokens in their order and the result does not depend on scheduling.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, int32

from .case import Case, Kernel, Launch, blocks_for, require_positive
from .division import divide
from .precision import stored_type
from .vector import copy_vector, vector_width
from .warp import ALL_LANES, WARP

BLOCK = 256
WARPS = BLOCK // WARP
MAX_EXPERTS = 256
SCAN_THREADS = 512
SCAN_WARPS = SCAN_THREADS // WARP


@cuda.jit
def moe_count(experts, counts):
    """counts[expert, block]: the block's assignments to the expert."""
    local = cuda.shared.array(MAX_EXPERTS, int32)
    t = cuda.threadIdx.x
    local[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < experts.size:
        cuda.atomic.add(local, experts[i], 1)
    cuda.syncthreads()
    if t < counts.shape[0]:
        counts[t, cuda.blockIdx.x] = local[t]


@cuda.jit(device=True)
def warp_inclusive_scan(value, lane):
    step = 1
    while step < WARP:
        below = cuda.shfl_up_sync(ALL_LANES, value, step)
        if lane >= step:
            value += below
        step *= 2
    return value


@cuda.jit
def moe_scan(counts, offsets):
    """One block: offsets = the exclusive sums of ``counts``, both flat."""
    warp_totals = cuda.shared.array(WARP, int32)
    t = cuda.threadIdx.x
    lane, warp = t % WARP, t // WARP
    carry = int32(0)
    for start in range(0, counts.size, SCAN_THREADS):
        own = counts[start + t] if start + t < counts.size else int32(0)
        inclusive = warp_inclusive_scan(own, lane)
        if lane == WARP - 1:
            warp_totals[warp] = inclusive
        cuda.syncthreads()
        if warp == 0:
            total = warp_totals[lane] if lane < SCAN_WARPS else int32(0)
            warp_totals[lane] = warp_inclusive_scan(total, lane)
        cuda.syncthreads()
        before = warp_totals[warp - 1] if warp > 0 else int32(0)
        if start + t < counts.size:
            offsets[start + t] = carry + before + inclusive - own
        carry += warp_totals[SCAN_WARPS - 1]
        cuda.syncthreads()


@cuda.jit
def moe_place(experts, offsets, places, sources):
    """places[assignment] = its row in the sorted order; sources is the inverse."""
    warp_counts = cuda.shared.array((WARPS, MAX_EXPERTS), int32)
    t = cuda.threadIdx.x
    lane, warp = t % WARP, t // WARP
    for w in range(WARPS):
        warp_counts[w, t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    valid = i < experts.size
    expert = experts[i] if valid else int32(MAX_EXPERTS)  # lanes beyond the end match each other only
    same = cuda.match_any_sync(ALL_LANES, expert)
    rank = cuda.popc(same & ((1 << lane) - 1))
    if valid and rank == 0:
        warp_counts[warp, expert] = cuda.popc(same)
    cuda.syncthreads()
    if valid:
        place = offsets[expert, cuda.blockIdx.x] + rank
        for w in range(warp):
            place += warp_counts[w, expert]
        places[i] = place
        sources[place] = i


@functools.cache
def _gather(width: int):
    @cuda.jit
    def moe_gather(hidden, sources, per_token, out):
        """A warp a row of the sorted order."""
        lane = cuda.threadIdx.x % WARP
        row = cuda.grid(1) // WARP
        columns = hidden.shape[1]
        if row >= sources.size:
            return
        token, _ = divide(sources[row], per_token)
        for column in range(lane * width, columns, WARP * width):
            copy_vector(out, row * columns + column, hidden, token * columns + column, width)

    return moe_gather


def make(*, tokens: int, experts: int, per_token: int, columns: int, skew: float, dtype: str, seed: int = 0) -> Case:
    """Each token goes to ``per_token`` different experts; popularity falls as rank^-skew (0: uniform)."""
    require_positive(tokens=tokens, experts=experts, per_token=per_token, columns=columns)
    stored_type(dtype)
    if experts > MAX_EXPERTS or per_token > experts:
        raise ValueError(f"experts must be at most {MAX_EXPERTS} and at least per_token: {experts}, {per_token}")
    if not 0 <= skew <= 4:
        raise ValueError(f"skew must lie in [0, 4], not {skew!r}")
    rng = np.random.default_rng(seed)
    # The largest of logarithmic popularity plus Gumbel noise: draws without replacement.
    popularity = -skew * np.log(np.arange(1, experts + 1))
    noise = rng.gumbel(size=(tokens, experts))
    routed = np.argsort(-(popularity + noise), axis=1)[:, :per_token].astype(np.int32).ravel()
    hidden = rng.standard_normal((tokens, columns)).astype(dtype)
    out = np.zeros((routed.size, columns), dtype)
    blocks = blocks_for(routed.size, BLOCK)
    counts, offsets = np.zeros((2, experts, blocks), np.int32)
    places, sources = np.full((2, routed.size), -1, np.int32)

    def check() -> None:
        order = np.argsort(routed, kind="stable")
        np.testing.assert_array_equal(sources, order)
        np.testing.assert_array_equal(places[order], np.arange(routed.size))
        np.testing.assert_array_equal(out, hidden[order // per_token])

    gather_grid = (blocks_for(routed.size * WARP, BLOCK),)
    gather = _gather(vector_width(dtype, columns))
    return Case(
        launches=(
            Launch(moe_count, (blocks,), (BLOCK,), (routed, counts)),
            Launch(moe_scan, (1,), (SCAN_THREADS,), (counts.reshape(-1), offsets.reshape(-1))),
            Launch(moe_place, (blocks,), (BLOCK,), (routed, offsets, places, sources)),
            Launch(gather, gather_grid, (BLOCK,), (hidden, sources, per_token, out)),
        ),
        check=check,
        work={
            "bytes_read": float(out.nbytes + 12 * routed.size),
            "bytes_written": float(out.nbytes + 8 * routed.size),
            "rows": float(routed.size),
        },
    )


KERNELS = {
    "moe_permute": Kernel(
        name="moe_permute",
        purpose="a chain of short launches: shared atomics, a one-block scan, warp matches, a row gather",
        axes={
            "tokens": (1, 64, 512, 4096),
            "experts": (8, 64, 256),
            "per_token": (1, 2, 8),
            "columns": (75, 512, 2048),
            "skew": (0.0, 1.0, 2.0),
            "dtype": ("float32", "float16"),
        },
        default={
            "tokens": 1024,
            "experts": 64,
            "per_token": 4,
            "columns": 1024,
            "skew": 1.0,
            "dtype": "float16",
        },
        small={
            "tokens": 40,
            "experts": 9,
            "per_token": 4,
            "columns": 24,
            "skew": 1.0,
            "dtype": "float16",
        },
        make=make,
    )
}
