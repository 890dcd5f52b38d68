"""Attention of many query tokens a sequence under a causal mask (context), projected: blocks of queries, each with the keys before it.

Mental model: a block takes a tile of queries of one head, or of the heads that share keys, and works through all keys up to its last query. So blocks
differ in work; the library gives the longest out first, and the GPU's places end nearly together: the time is the mean load of a place, some of a
longest block more, and never less than the longest block. How the library works is in ``attention.toml``, all else is the GPU's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from gpusim.energy.power import limited_by_power, slowed_by_power
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention import SCORE_OPERATIONS, AttentionShape, project_attention
from gpusim.tile.attention_figures import (
    EXPONENTIAL_CYCLES,
    WIDE_HEAD,
    ContextLibrary,
    cache_rows,
    context_library_of,
    framework_known,
    odd_width,
)
from gpusim.tile.bands import context_band, operator_band
from gpusim.tile.described_attention import described_context, is_described
from gpusim.tile.library import FRAMEWORKS, kernels_of
from gpusim.tile.machine import OPERANDS, tile_machine
from gpusim.tile.projection import Projection

_MOST_QUERIES = 1 << 22
_LARGEST = 1 << 31
#: Elements of a head that kernels are compiled for (FlashAttention), as far as rows show it: others are taken as the next wider, heads above 128 as they are.
_HEAD_WIDTHS = (64, 96, 128)
_NARROW_WIDTH = 96
#: Frameworks whose contexts have kernels of their own whatever the number of queries.
_APART = ("trtllm",)


@dataclass(frozen=True)
class ContextShape:
    """``batch`` sequences of ``queries`` tokens, each of which meets itself and those before it; ``heads`` query heads share ``kv_heads`` of
    ``head_dim`` elements. ``prefix``: keys before the queries that each of them meets too (a chunk of a prompt); ``window``: only so many of the last
    keys count (0: all); ``causal``: False where each query meets all keys; ``kv_dtype``: of the cache, where it is not the queries' ("");
    ``framework``: whose kernels (:data:`gpusim.tile.attention.FRAMEWORKS`)."""

    batch: int
    queries: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str = "bf16"
    prefix: int = 0
    window: int = 0
    causal: bool = True
    kv_dtype: str = ""
    framework: str = FRAMEWORKS[0]

    def __post_init__(self) -> None:
        for name, most in (("batch", _LARGEST), ("queries", _MOST_QUERIES), ("heads", _LARGEST), ("kv_heads", _LARGEST), ("head_dim", _LARGEST)):  # fmt: skip
            value = getattr(self, name)
            if not 1 <= value < most:
                raise SpecError(f"an attention's {name} is {value}, not between 1 and {most - 1}")
        if self.heads % self.kv_heads:
            raise SpecError(f"an attention's heads are {self.heads}, no multiple of its kv_heads, {self.kv_heads}")
        for name in ("prefix", "window"):
            if not 0 <= getattr(self, name) < _LARGEST:
                raise SpecError(f"an attention's {name} is {getattr(self, name)}, not between 0 and {_LARGEST - 1}")
        framework_known(self.framework)
        for dtype in (self.dtype, self.kv_dtype or self.dtype):
            if dtype not in OPERANDS:
                raise SpecError(f"an attention's dtype is {dtype!r}: known are {', '.join(OPERANDS)}")

    @property
    def kv_element_bytes(self) -> float:
        """Of an element of keys and values."""
        return OPERANDS[self.kv_dtype or self.dtype][0]

    @property
    def kv_bytes(self) -> float:
        """Of the new keys and values."""
        return 2.0 * self.kv_element_bytes * self.batch * self.kv_heads * self.queries * self.head_dim

    @property
    def prefix_bytes(self) -> float:
        """Of the keys and values before the queries, as far as a window reaches."""
        met = min(self.prefix, self.window or self.prefix)
        return self.kv_bytes * met / self.queries

    @property
    def query_bytes(self) -> float:
        """Of all queries and all results."""
        return 2.0 * OPERANDS[self.dtype][0] * self.batch * self.heads * self.queries * self.head_dim

    @property
    def scores(self) -> float:
        """Of one head of one sequence: pairs of a query and a key that the mask leaves."""
        if not self.causal:
            return float(self.queries) * (self.prefix + self.queries)
        first, last = self.prefix + 1, self.prefix + self.queries
        inside = last if not self.window else max(first - 1, min(last, self.window))
        return (first + inside) * (inside - first + 1) / 2.0 + float(last - inside) * self.window

    @property
    def flops(self) -> float:
        """Operations of both products that the mask leaves, a multiply-add counting two."""
        return 4.0 * self.batch * self.heads * self.scores * self.head_dim


def project_context(
    spec: GpuSpec, shape: ContextShape, library: ContextLibrary | None = None, limit_watts: float | None = None
) -> Projection:
    """Time of ``shape`` by a library's kernels on ``spec``, the new keys' and values' way into the cache included, the clock held to the board's power.
    ``library``: other figures than the generation's own; ``limit_watts``: another power limit than the board's (``inf``: none). Raises SpecError where the GPU has no such products or its generation's kernels are not known."""
    if shape.queries == 1 and shape.framework not in _APART:  # the library takes its kernels for generation
        one = AttentionShape(
            shape.batch, shape.prefix + 1, shape.heads, shape.kv_heads, shape.head_dim, shape.dtype, shape.window, shape.kv_dtype,
            framework=shape.framework,
        )  # fmt: skip
        return project_attention(spec, one, limit_watts=limit_watts)
    machine = tile_machine(spec, shape.dtype)
    rows = cache_rows(shape.kv_element_bytes, shape.head_dim, OPERANDS[shape.dtype][0])
    used = library or _library_for(spec, shape, rows)
    heads, packed = (shape.kv_heads, shape.heads // shape.kv_heads) if used.packs_heads else (shape.heads, 1)
    width = next((each for each in _HEAD_WIDTHS if shape.head_dim <= each), shape.head_dim)
    query_rows, kv_columns = _tile(used, width)
    tiles, steps, longest, executed_scores = _steps(shape, packed, query_rows, kv_columns)
    # Queries, and one tile of keys and one of values, lie in shared memory.
    block_bytes = OPERANDS[shape.dtype][0] * width * (query_rows + 2 * kv_columns)
    blocks_per_sm = max(1, min(used.blocks_per_sm, int(spec.sm.shared_max_bytes // block_bytes)))
    blocks, places = shape.batch * heads * tiles, machine.sm_count * blocks_per_sm
    sharing = min(blocks_per_sm, -(-blocks // machine.sm_count))
    scores = query_rows * kv_columns
    executed = 4.0 * shape.batch * shape.heads * shape.head_dim * executed_scores
    # Of an SM that works on one block.
    score_cycles = used.score_cycles * spec.pipes["mufu"].interval_cycles / EXPONENTIAL_CYCLES
    step_cycles = scores * (4.0 * width / (machine.flops_per_cycle * used.rate) + score_cycles)
    start_cycles = machine.cycles_of(used.start_cycles, used.clock_mhz)
    longest_cycles = start_cycles + longest * step_cycles * sharing
    load = shape.batch * heads * steps * step_cycles / machine.sm_count + blocks * start_cycles / places
    tail = used.tail * longest_cycles * places / blocks if blocks > places else 0.0
    # Keys of the prefix are loaded ahead while others are worked on; what is written into the cache and copied around the kernel is not.
    prefix_cycles = shape.prefix_bytes / machine.dram_bytes_per_cycle
    cycles = max(load + tail, longest_cycles, -(-blocks // places) * start_cycles, prefix_cycles)
    dram_bytes = used.kv_passes * shape.kv_bytes + used.head_passes * shape.query_bytes + shape.prefix_bytes
    dram_cycles = dram_bytes / machine.dram_bytes_per_cycle - prefix_cycles
    unlimited_seconds = (cycles + dram_cycles) / machine.clock_hz
    l2_bytes = shape.query_bytes + shape.kv_bytes * max(1, tiles // 2)
    seconds = slowed_by_power(spec, limit_watts, unlimited_seconds, shape.dtype, shape.flops, dram_bytes, l2_bytes)
    arithmetic = shape.flops / machine.flops_per_cycle / machine.sm_count
    limiter = "tensor cores" if arithmetic > (cycles + dram_cycles) / 4 else "latency"
    if dram_cycles > cycles:
        limiter = "DRAM"
    beside_ns = used.padding_ns * (width != shape.head_dim) + used.odd_width_ns * odd_width(shape.head_dim)
    launch_seconds = (used.launch_ns + beside_ns) * 1e-9
    if launch_seconds > seconds:
        limiter = "launch"
    elif limited_by_power(seconds, unlimited_seconds):
        limiter = "power"
    seconds += launch_seconds
    windowed = 0 < shape.window < shape.prefix + shape.queries
    band = context_band(
        kernels_of(spec), shape.kv_dtype or shape.dtype, shape.queries, windowed, shape.framework, shape.dtype
    )
    if not shape.causal and not shape.window:
        band = operator_band("encoder", kernels_of(spec), shape.queries)
    if shape.prefix and band.validated:
        band = replace(band, validated=False, reason="not validated: nothing was compared with a prefix")
    return Projection(
        operator=_title(shape),
        gpu=spec.name, seconds=seconds, low_seconds=seconds / band.factor, high_seconds=seconds * band.factor,
        validated=band.validated, reason=band.reason, limiter=limiter, dtype=shape.dtype, flops=shape.flops, executed_flops=executed,
        dram_bytes=dram_bytes, l2_bytes=l2_bytes, launches=2,
        vector_flops=SCORE_OPERATIONS * executed / (4.0 * shape.head_dim),
    )  # fmt: skip


def _tile(used: ContextLibrary, width: int) -> tuple[int, int]:
    """Queries and keys of a tile of heads of ``width`` elements."""
    columns = used.narrow_kv_columns if width <= _HEAD_WIDTHS[0] else used.kv_columns
    if width <= _NARROW_WIDTH:
        return used.narrow_query_rows, columns
    return (used.wide_query_rows, used.wide_kv_columns) if width > WIDE_HEAD else (used.query_rows, columns)


def _library_for(spec: GpuSpec, shape: ContextShape, rows: tuple[str, ...]) -> ContextLibrary:
    if shape.causal and is_described(spec, shape.framework, shape.dtype, shape.kv_dtype or shape.dtype):
        return described_context(spec)
    return context_library_of(kernels_of(spec), shape.causal, shape.framework, rows)


@functools.lru_cache(1 << 16)
def _steps(shape: ContextShape, packed: int, query_rows: int, kv_columns: int) -> tuple[int, int, int, float]:
    """Tiles of one head's queries (``packed`` heads in one), the steps of all of them together, and of the one with the most; and of one head the scores that are worked out:
    each query with all keys of the tiles of keys that its tile of queries meets, those that the mask takes away included."""
    rows = shape.queries * packed
    tiles = -(-rows // query_rows)
    place = np.arange(tiles, dtype=np.int64)
    end = np.minimum((place + 1) * query_rows, rows)
    last = (end + packed - 1) // packed + shape.prefix
    if not shape.causal:
        last = np.full(tiles, shape.prefix + shape.queries)
    first = np.zeros(tiles, np.int64)
    if shape.window:
        first = np.maximum(0, place * query_rows // packed + shape.prefix + 1 - shape.window)
    begin, behind = first // kv_columns, (last + kv_columns - 1) // kv_columns
    met = np.minimum(behind * kv_columns, shape.prefix + shape.queries) - begin * kv_columns
    scores = float(((end - place * query_rows) / packed * met).sum())
    return tiles, int((behind - begin).sum()), int((behind - begin).max()), scores


def _title(shape: ContextShape) -> str:
    prefix = f" after {shape.prefix}" if shape.prefix else ""
    window = f", window {shape.window}" if shape.window else ""
    return (
        f"{'causal ' * shape.causal}attention of {shape.batch} x {shape.queries} queries{prefix}, {shape.heads} heads on {shape.kv_heads} of "
        f"{shape.head_dim}{window}"
    )
